"""What given responses are worth: `/v1/score`, and `/get_reward` for trainers.

Trainers (`bon client`'s files) get the judging of online Best-of-N: the responses to a
question that come in one request are judged together.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from functools import partial
from math import isfinite
from statistics import fmean
from typing import Annotated, Any, Literal, NamedTuple

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from bon.choosing.opinion import OUTCOME_VALUE, Kind
from bon.choosing.rules import RULES
from bon.core.records import Judgement
from bon.engines.base import Message
from bon.experiment.required_form import without_turn_end
from bon.service.api.common import ONLINE_ERRORS, Submitter, run_models, selector_of
from bon.service.api.messages import (
    MAX_CANDIDATES,
    Messages,
    Open,
    Options,
    check_text,
    conversation,
)
from bon.service.errors import ApiError
from bon.service.online.selector import Conversation, Selector, Usage

log = logging.getLogger("bon.service")
router = APIRouter(tags=["online"], responses=ONLINE_ERRORS)
MAX_SAMPLES = 4096
Floats = list[float | None]
_TRIVIAL: dict[Kind, float] = {"preferences": 0.5, "choices": 1.0, "scores": 0.0}
"""The score of every copy in a group of equal texts: a tie, always chosen, a panel's mean."""


# ------------------------------------------------------------------ score and rank


class ScoreRequest(BaseModel):
    """Judge given candidates."""

    model_config = ConfigDict(extra="forbid")
    rewarder: str = Field(max_length=200)
    messages: Messages
    candidates: list[str] = Field(min_length=1)
    options: Options = Field(default_factory=list)
    rule: str | None = Field(None, max_length=50)


@router.post("/v1/score")
async def score(body: ScoreRequest, request: Request, identity: Submitter) -> dict[str, Any]:
    """Score the candidates and rank them from best to worst, with every judgement."""
    selector, usage = selector_of(request), Usage()
    rewarder, texts = body.rewarder, body.candidates
    rule = selector.judging_rule(rewarder, body.rule)
    if len(texts) > MAX_CANDIDATES:
        raise ApiError(413, f"{len(texts)} candidates", f"at most {MAX_CANDIDATES}")
    for text in texts:
        check_text(text, "a candidate")
    selector.check_shown(rewarder, len(texts), sum(map(len, texts)))
    messages = await conversation(identity.name, body.messages, body.options)
    work = partial(selector.choose, rewarder, rule, messages, texts, usage)
    choice = await run_models(request, selector.cards(rewarder), work)
    return {
        "rewarder": rewarder,
        "rule": choice.ranking.rule,
        "chosen": choice.ranking.best,
        "order": choice.ranking.order,
        "scores": choice.ranking.scores,
        "probabilities": choice.ranking.probabilities,
        "judgements": choice.raw(),
        "usage": usage.as_dict(),
    }


# ------------------------------------------------------------------ /get_reward


class RewardQuery(BaseModel):
    """Settings in a trainer's address, so that its body stays as it is."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    rewarder: str = Field("", max_length=200, description="its name; empty where there is one only")
    rule: str | None = Field(None, max_length=50)
    on_unparsed: Literal["error", "null"] = Field(
        "error", description="what stands where no reward could be had"
    )


class Rollout(NamedTuple):
    """A response and its question."""

    question: Conversation
    text: str


class Reward(NamedTuple):
    """A response's reward, and the quality of the judging of all responses to its question.

    value: None if no judgement could be parsed, or there was nothing to compare with. logs: numbers
    alone, of which trainers make tensors.
    """

    value: float | None
    logs: dict[str, float]


class RolloutSample(Open):
    """One response; `prompt` is a text or messages."""

    prompt: str | Messages
    response: str


class SampleBatch(Open):
    """A body of `/get_reward`: the responses to a question are judged together."""

    samples: list[RolloutSample] = Field(min_length=1, max_length=MAX_SAMPLES)


@router.post("/get_reward")
async def get_reward(
    body: SampleBatch,
    query: Annotated[RewardQuery, Query()],
    request: Request,
    _: Submitter,
) -> dict[str, Any]:
    """Return a reward per sample, with the quality of the judging."""
    selector = selector_of(request)
    samples = await asyncio.gather(*(_rollout(request, sample) for sample in body.samples))
    known = sorted(selector.rewarders)
    if not query.rewarder and len(known) != 1:
        fix = f"add rewarder=NAME to the address: {', '.join(known)}"
        raise ApiError(422, "no rewarder is named", fix)
    rewarder = query.rewarder or known[0]
    rule = selector.judging_rule(rewarder, query.rule)
    _check(selector, rewarder, rule, samples)
    work = partial(give_rewards, selector, rewarder, rule, samples)
    rewards: list[Reward] = await run_models(request, selector.cards(rewarder), work)
    missing = sum(reward.value is None for reward in rewards)
    if missing and query.on_unparsed != "null":
        problem = f"no reward for {missing} of {len(rewards)} responses: {rewarder}'s reply could "
        problem += "not be read, or there was nothing to compare with"
        raise ApiError(503, problem, "on_unparsed=null answers null for them", retry=1)
    return {
        "rewards": [reward.value for reward in rewards],
        "extra_logs": {name: [reward.logs[name] for reward in rewards] for name in rewards[0].logs},
    }


def _check(selector: Selector, rewarder: str, rule: str, samples: Sequence[Rollout]) -> None:
    for sample in samples:
        check_text(sample.text, "a response")
    counts = Counter(s.question.key for s in samples).values()
    if max(counts) > MAX_CANDIDATES:
        raise ApiError(413, "too many responses of one question", f"at most {MAX_CANDIDATES}")
    if RULES[rule].judged and not _scores_alone(selector, rewarder) and min(counts) < 2:
        problem = f"{rewarder} compares responses, and here is a question with one alone"
        raise ApiError(422, problem, "send all responses to a question in one request")
    longest = max(len(sample.text) for sample in samples)
    selector.check_shown(rewarder, max(counts), max(counts) * longest)


def _scores_alone(selector: Selector, rewarder: str) -> bool:
    """Whether a rewarder scores a response without others; a panel standardises scores."""
    return selector.kind(rewarder) == "scores" and not selector.is_panel(rewarder)


async def _rollout(request: Request, sample: RolloutSample) -> Rollout:
    """Return a response to its prompt."""
    owner, prompt = request.scope["identity"].name, sample.prompt
    response = without_turn_end(sample.response)
    if not prompt or (isinstance(prompt, str) and not prompt.strip()):
        raise ApiError(422, "no question was sent", "send its prompt")
    if isinstance(prompt, str):
        check_text(prompt, "a prompt")
        return Rollout(Conversation((Message("user", (prompt,)),), owner=owner), response)
    return Rollout(await conversation(owner, prompt), response)


# ------------------------------------------------------------------ judging


async def give_rewards(
    selector: Selector, rewarder: str, rule: str, samples: Sequence[Rollout]
) -> list[Reward]:
    """Return a reward per sample, in their order."""
    by_question: dict[str, list[int]] = {}
    for i, sample in enumerate(samples):
        by_question.setdefault(sample.question.key, []).append(i)
    # A batch uses what a model does at once: it must not fill the model's queue by itself.
    slots = asyncio.Semaphore(selector.online.scaling.max_ongoing_requests)
    rewards: dict[int, Reward] = {}

    async def judge(indices: list[int]) -> None:
        question, texts = samples[indices[0]].question, [samples[i].text for i in indices]
        async with slots:
            rated = await _rated(selector, rewarder, rule, question, texts)
        rewards.update(zip(indices, rated, strict=True))

    await asyncio.gather(*map(judge, by_question.values()))
    return [rewards[i] for i in range(len(samples))]


async def _rated(
    selector: Selector, rewarder: str, rule: str, question: Conversation, texts: list[str]
) -> list[Reward]:
    """Return the rewards of the responses to one question."""
    usage, rows = Usage(), list[Judgement]()
    scores: Floats
    if len(set(texts)) > 1:
        choice = await selector.choose(rewarder, rule, question, texts, usage)
        scores, rows = list(choice.ranking.scores), choice.judgements
    elif _scores_alone(selector, rewarder):
        rows = await selector.judge(rewarder, rule, question, texts, usage)
        votes = [v.score for v in rows if v.score is not None and isfinite(v.score)]
        scores = [fmean(votes) if votes else None] * len(texts)
    else:  # nothing to compare with
        trivial = _TRIVIAL[selector.kind(rewarder)]
        scores = [trivial if len(texts) > 1 else None] * len(texts)
    logs = {
        "parsed": parsed_share(rows),
        "consistency": consistency(rows),
        "cached": usage.cached_judgements,
        "tokens": usage.tokens()["total_tokens"],
        "group_size": len(texts),
        "no_image": float(not question.images),
    }
    return [Reward(score, logs) for score in scores]


def parsed_share(rows: Sequence[Judgement]) -> float:
    """Return the share of judgements that were parsed; 1 without any."""
    parsed = sum(row.outcome not in ("unparsed", "error") for row in rows)
    return parsed / len(rows) if rows else 1.0


def consistency(rows: Sequence[Judgement]) -> float:
    """Return the share of pairs with the same verdict in both orders; 1 without any.

    Ties do not contradict.
    """
    votes: dict[tuple[str, str], float] = {}
    for row in rows:
        if row.second is not None and row.outcome in OUTCOME_VALUE:
            pair = (row.first, row.second)
            votes[pair] = votes.get(pair, 0.0) + OUTCOME_VALUE[row.outcome] - 0.5
    pairs = [(a, b) for a, b in votes if a < b and (b, a) in votes]
    return fmean(votes[a, b] * votes[b, a] <= 0 for a, b in pairs) if pairs else 1.0
