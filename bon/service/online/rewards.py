"""Rewards for trainers: the judging of online Best-of-N, in groups and scaled."""

import asyncio
import logging
import os
import re
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from statistics import fmean
from typing import Literal, NamedTuple
from urllib.parse import unquote

from pydantic import BaseModel, ConfigDict, Field

from bon.benchmarks import load_questions
from bon.choosing.opinion import OUTCOME_VALUE, Kind
from bon.choosing.rules import RULES
from bon.core.errors import BonError
from bon.core.images import ImageStore
from bon.core.records import Judgement, Question
from bon.engines.base import ImagePart, Message
from bon.experiment.config import DatasetSpec
from bon.policies.prompting import question_block
from bon.service.errors import ApiError
from bon.service.online.group_batching import Groups
from bon.service.online.judgement_store import JudgementStore
from bon.service.online.selector import Conversation, Selector, Usage

log = logging.getLogger("bon.service")
_NAMED = re.compile(r"""bon://([A-Za-z0-9._-]+)/([^\s"'|<>,}\]]+)""")
QuestionSets = Mapping[str, Mapping[str, Question]]
"""The operator's question sets, by name and by the questions' ids; images stay on disk."""


Floats = list[float | None]
Scale = Literal["raw", "rank", "win_rate"]
OnUnparsed = Literal["error", "null", "mean"]
_TRIVIAL: dict[Kind, float] = {"preferences": 0.5, "choices": 1.0, "scores": 0.0}
"""The score of every copy in a group of equal texts: a tie, always chosen, a panel's mean."""


class RewardQuery(BaseModel):
    """Settings in a trainer's address, so that its body stays as it is."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    rewarder: str = Field("", max_length=200, description="its name; empty where there is one only")
    rule: str | None = Field(None, max_length=50)
    group: int = Field(1, ge=1, le=1024, description="responses of a question judged together")
    wait: float = Field(20, ge=0.01, le=120, description="seconds until a group is judged as it is")
    scale: Scale = "raw"
    on_unparsed: OnUnparsed = Field("error", description="what stands where no reward could be had")
    key: str = Field(
        "", max_length=50, pattern=r"^\w*$", description="slime's --reward-key: answer an object"
    )


class Rollout(NamedTuple):
    """A response and its question."""

    question: Conversation
    text: str


@dataclass(frozen=True, slots=True)
class RatedGroup:
    """A group of responses with their rewards on the requested scale, and the quality of judging.

    A reward is None if no judgement could be parsed, or there was nothing to compare with.
    parsed: share of judgements that were parsed. consistency: share of pairs with the same verdict
    in both orders, if any.
    """

    rewards: Floats
    parsed: float
    consistency: float | None
    usage: Usage
    images: int


class Reward(NamedTuple):
    """A sample's reward, if any, and the group it was judged in."""

    value: float | None
    group: RatedGroup


class RewardJudge:
    """Judges rollouts; shared by the reward routes."""

    def __init__(self, selector: Selector, sets: QuestionSets, store: JudgementStore) -> None:
        self.sets, self.store, self._selector = sets, store, selector
        self.groups: Groups[RatedGroup] = Groups()

    async def rewards(
        self, owner: str, query: RewardQuery, samples: Sequence[Rollout], usage: Usage
    ) -> list[Reward]:
        """Return a reward per sample, in their order; `usage` counts this request's share.

        `query` names its rewarder and rule.
        """
        by_question: dict[str, list[int]] = {}
        for i, sample in enumerate(samples):
            by_question.setdefault(sample.question.key, []).append(i)
        size = query.group if query.group > 1 else len(samples)
        # A batch uses what a model does at once: it must not fill the model's queue by itself.
        slots = asyncio.Semaphore(self._selector.online.scaling.max_ongoing_requests)
        rewards: dict[int, Reward] = {}

        async def judge(indices: list[int]) -> None:
            question, texts = samples[indices[0]].question, [samples[i].text for i in indices]

            async def rate(texts: list[str]) -> RatedGroup:
                async with slots:  # while judging, not while waiting for a group
                    return await self._rate(query, question, texts)

            start = 0
            if query.group > len(texts):
                key = (owner, query, question.key)
                rated, start = await self.groups.join(key, texts, query.group, query.wait, rate)
            else:
                rated = await rate(texts)
            usage.add_share(rated.usage, len(texts) / len(rated.rewards))
            for i, value in zip(indices, rated.rewards[start:], strict=False):
                rewards[i] = Reward(value, rated)

        groups = (
            indices[start : start + size]
            for indices in by_question.values()
            for start in range(0, len(indices), size)
        )
        await asyncio.gather(*map(judge, groups))
        return [rewards[i] for i in range(len(samples))]

    async def _rate(
        self, query: RewardQuery, question: Conversation, texts: list[str]
    ) -> RatedGroup:
        selector, rewarder, rule, usage = self._selector, query.rewarder, query.rule or "", Usage()
        kind = selector.kind(rewarder)
        scores: Floats
        probabilities: Sequence[float] = [1 / len(texts)] * len(texts)
        rows: list[Judgement] = []
        copies = len(set(texts)) == 1  # nothing to compare with
        if copies and kind == "scores" and not selector.is_panel(rewarder):
            rows = await selector.judge(rewarder, rule, question, texts, usage)
            scores = [mean_score(rows)] * len(texts)
        elif copies:
            scores = [_TRIVIAL[kind] if len(texts) > 1 else None] * len(texts)
        else:
            choice = await selector.choose(rewarder, rule, question, texts, usage)
            scores, probabilities = list(choice.ranking.scores), choice.ranking.probabilities
            rows = choice.judgements
        rewards = filled(scaled(query.scale, kind, scores, probabilities), query.on_unparsed)
        await self.store.add(rows)
        quality = parsed_share(rows), consistency(rows)
        return RatedGroup(rewards, *quality, usage, len(question.images))


def needs_group(selector: Selector, rewarder: str, rule: str) -> bool:
    """Whether one response alone cannot be judged."""
    alone = selector.kind(rewarder) == "scores" and not selector.is_panel(rewarder)
    return not alone and RULES[rule].judged


# ------------------------------------------------------------------ from scores to rewards


def scaled(scale: Scale, kind: Kind, scores: Floats, probabilities: Sequence[float]) -> Floats:
    """Return a group's scores on a scale; None where a score has no other to compare with.

    raw: unchanged. rank: share of the others that the rule ranks below, by choice probability and
    then score.
    win_rate: share of comparisons won; without pairwise comparisons, share of the others with a
    lower score. Ties count half.
    """
    if scale == "raw" or (scale == "win_rate" and kind == "preferences"):
        return list(scores)
    known = {i: score for i, score in enumerate(scores) if score is not None}
    rewards: Floats = [None] * len(scores)
    if len(known) < 2:
        return rewards
    keys = {i: (probabilities[i] if scale == "rank" else 0.0, s) for i, s in known.items()}
    order = sorted(keys.values())
    for i, key in keys.items():
        rewards[i] = (bisect_left(order, key) + bisect_right(order, key) - 1) / 2 / (len(order) - 1)
    return rewards


def filled(rewards: Floats, on_unparsed: OnUnparsed) -> Floats:
    """With `mean`, replace missing rewards by the group's mean: no advantage."""
    known = [reward for reward in rewards if reward is not None]
    mean = fmean(known) if known and on_unparsed == "mean" else None
    return [mean if reward is None else reward for reward in rewards]


def mean_score(rows: Sequence[Judgement]) -> float | None:
    """Return a response's mean score over the parsed votes."""
    scored = [row.score for row in rows if row.outcome == "scored" and row.score is not None]
    finite = [*filter(isfinite, scored)]
    return fmean(finite) if finite else None


def parsed_share(rows: Sequence[Judgement]) -> float:
    """Return the share of judgements that were parsed; 1 without any."""
    parsed = sum(row.outcome not in ("unparsed", "error") for row in rows)
    return parsed / len(rows) if rows else 1.0


def consistency(rows: Sequence[Judgement]) -> float | None:
    """Return the share of pairs with the same verdict in both orders; ties do not contradict."""
    votes: dict[tuple[str, str], float] = {}
    for row in rows:
        if row.second is not None and row.outcome in OUTCOME_VALUE:
            pair = (row.first, row.second)
            votes[pair] = votes.get(pair, 0.0) + OUTCOME_VALUE[row.outcome] - 0.5
    pairs = [(a, b) for a, b in votes if a < b and (b, a) in votes]
    return fmean(votes[a, b] * votes[b, a] <= 0 for a, b in pairs) if pairs else None


# ------------------------------------------------------------------ question sets
# `bon://SET/ID` in a label names a question by its id. So a judge that sees images works behind
# protocols that carry text alone. An id with characters that end a word is percent-encoded.


def named_question(sets: QuestionSets, label: str, owner: str) -> Conversation | None:
    """Return the question that a label names, if it names one; 422 if it does not exist."""
    match = _NAMED.search(label)
    if match is None:
        return None
    name, key = match[1], unquote(match[2])
    fix = "`online.sets` lists the question sets"
    if name not in sets:
        known = ", ".join(sorted(sets)) or "none"
        raise ApiError(422, f"no question set {name!r}; there are: {known}", fix)
    if (question := sets[name].get(key)) is None:
        raise ApiError(422, f"the question set {name} has no question {key[:100]!r}", fix)
    parts = [ImagePart(ref.sha256, Path(ref.path).read_bytes()) for ref in question.images]
    shown = question_block(question)
    return Conversation((Message("user", (*parts, shown)),), question.options, shown, owner)


def read_set(name: str, spec: DatasetSpec, base: Path, images: Path) -> dict[str, Question]:
    """Read a set, with a path relative to `base`, and store its images."""
    if spec.path is not None:
        path = (base / os.path.expanduser(spec.path)).resolve()
        spec = spec.model_copy(update={"path": str(path)})
    questions: dict[str, Question] = {}
    rows = list(load_questions(spec, ImageStore(images)))
    for row in rows:
        if isinstance(row, Question) and questions.setdefault(row.id, row) is not row:
            fix = "labels name questions by id: give each its own"
            raise BonError(f"online.sets.{name}: two questions have the id {row.id!r}", fix)
    counts = {"questions": len(questions), "unreadable": len(rows) - len(questions)}
    log.info("question set", extra={"set": name, **counts})
    return questions
