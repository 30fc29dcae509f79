"""Rewards for trainers: the judging of online Best-of-N, in groups, scaled and logged."""

import asyncio
import logging
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from pydantic import BaseModel, ConfigDict, Field

from bon.benchmarks import load_questions
from bon.choosing.rules import RULES
from bon.core.errors import BonError
from bon.core.images import ImageStore
from bon.core.records import Judgement, Question
from bon.engines.base import ImagePart, Message
from bon.experiment.config import DatasetSpec
from bon.policies.prompting import question_block
from bon.service.errors import ApiError
from bon.service.online.group_batching import Groups
from bon.service.online.reward_log import RatedGroup, RewardLog
from bon.service.online.reward_scaling import (
    TRIVIAL,
    Floats,
    OnUnparsed,
    Scale,
    consistency,
    filled,
    mean_score,
    parsed_share,
    scaled,
)
from bon.service.online.selector import Conversation, Selector, Usage

log = logging.getLogger("bon.service")
_NAMED = re.compile(r"""bon://([A-Za-z0-9._-]+)/([^\s"'|<>,}\]]+)""")
QuestionSets = Mapping[str, Mapping[str, Question]]
"""The operator's question sets, by name and by the questions' ids; images stay on disk."""


class RewardQuery(BaseModel):
    """Settings in a trainer's address, so that its body stays as it is."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    rewarder: str = Field("", max_length=200, description="its name; empty where there is one only")
    rule: str | None = Field(None, max_length=50)
    group: int = Field(1, ge=1, le=1024, description="responses of a question judged together")
    wait: float = Field(20, ge=0.01, le=120, description="seconds until a group is judged as it is")
    scale: Scale = "raw"
    on_unparsed: OnUnparsed = Field("error", description="what stands where no reward could be had")
    run: str = Field("", max_length=100, pattern=r"^[\w .+-]*$", description="of the training")
    key: str = Field(
        "", max_length=50, pattern=r"^\w*$", description="slime's --reward-key: answer an object"
    )


@dataclass(frozen=True, slots=True)
class Rollout:
    """A response and its question."""

    question: Conversation
    text: str


@dataclass(frozen=True, slots=True)
class Reward:
    """A sample's reward, if any, and the group it was judged in."""

    value: float | None
    group: RatedGroup


class RewardJudge:
    """Judges rollouts; shared by the reward routes."""

    def __init__(self, selector: Selector, sets: QuestionSets, log: RewardLog) -> None:
        self.sets = sets
        self.log = log
        self.groups: Groups[RatedGroup] = Groups()
        self._selector = selector

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
                    return await self._rate(owner, query, question, texts)

            start = 0
            if query.group > len(texts):
                key = (owner, query, question.key)
                rated, start = await self.groups.join(key, texts, query.group, query.wait, rate)
            else:
                rated = await rate(texts)
            usage.add_share(rated.usage, len(texts) / len(rated.scores))
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
        self, owner: str, query: RewardQuery, question: Conversation, texts: list[str]
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
            scores = [TRIVIAL[kind] if len(texts) > 1 else None] * len(texts)
        else:
            choice = await selector.choose(rewarder, rule, question, texts, usage)
            scores, probabilities = list(choice.ranking.scores), choice.ranking.probabilities
            rows = choice.judgements
        rated = RatedGroup(
            scores,
            filled(scaled(query.scale, kind, scores, probabilities), query.on_unparsed),
            len(rows),
            parsed_share(rows),
            consistency(rows),
            usage,
            len(question.images),
        )
        spec = selector.rewarder(rewarder).spec
        shared = (owner, query.run, rewarder, spec, rule, query.scale)
        await self.log.add(shared, question, texts, rows, rated)
        return rated


def needs_group(selector: Selector, rewarder: str, rule: str) -> bool:
    """Whether one response alone cannot be judged."""
    alone = selector.kind(rewarder) == "scores" and not selector.is_panel(rewarder)
    return not alone and RULES[rule].judged


# ------------------------------------------------------------------ question sets
# `bon://SET/ID` in a label names a question by its id. So a judge that sees images works behind
# protocols that carry text alone. An id with characters that end a word is percent-encoded.


def named_question(sets: QuestionSets, label: str) -> Conversation | None:
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
    return Conversation(
        (Message("user", (*parts, shown)),), question.options, shown, question.answer
    )


def read_set(name: str, spec: DatasetSpec, base: Path, images: Path) -> dict[str, Question]:
    """Read a set, with a path relative to `base`, and store its images."""
    if spec.path is not None:
        path = (base / os.path.expanduser(spec.path)).resolve()
        spec = spec.model_copy(update={"path": str(path)})
    questions: dict[str, Question] = {}
    unreadable = 0
    for row in load_questions(spec, ImageStore(images)):
        if not isinstance(row, Question):
            unreadable += 1
        elif row.id in questions:
            raise BonError(
                f"online.sets.{name}: two questions have the id {row.id!r}",
                "labels name questions by id: give each its own",
            )
        else:
            questions[row.id] = row
    counts = {"questions": len(questions), "unreadable": unreadable}
    log.info("question set", extra={"set": name, **counts})
    return questions
