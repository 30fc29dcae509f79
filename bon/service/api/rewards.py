"""Rewards for trainers: settings, judging, and the log of what was given."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from bon.engines.base import Message
from bon.service.api.common import ONLINE_ERRORS, Reader
from bon.service.api.messages import Messages, check_text, conversation
from bon.service.api.online import check_shown, judging_rule, run_models, selector_of
from bon.service.api.rewarders import check_validated
from bon.service.errors import ApiError
from bon.service.online.reward_scaling import OnUnparsed, Scale
from bon.service.online.rewards import (
    Reward,
    RewardJudge,
    RewardOptions,
    Rollout,
    needs_group,
)
from bon.service.online.selector import Conversation, Selector, Usage
from bon.service.settings import Settings

router = APIRouter(prefix="/v1/rewards", tags=["rewards"], responses=ONLINE_ERRORS)
_MESSAGES: TypeAdapter[Any] = TypeAdapter(Messages)


class RewardQuery(BaseModel):
    """Settings in a trainer's address, so that its body stays as it is."""

    model_config = ConfigDict(extra="forbid")
    rewarder: str = Field("", max_length=200, description="its name; empty where there is one only")
    rule: str | None = Field(None, max_length=50)
    group: int = Field(1, ge=1, le=1024, description="responses of a question judged together")
    wait: float = Field(20, ge=0.01, le=120, description="seconds until a group is judged as it is")
    scale: Scale = "raw"
    on_unparsed: OnUnparsed = Field("error", description="what stands where no reward could be had")
    validated: str = Field(
        "", max_length=200, description="run that the card must be unchanged since"
    )
    run: str = Field("", max_length=100, pattern=r"^[\w .+-]*$", description="of the training")


@dataclass(frozen=True, slots=True)
class Rewards:
    """The rewards of a request, in the order of its samples."""

    rewarder: str
    rule: str
    rewards: list[Reward]
    usage: Usage

    @property
    def values(self) -> list[float | None]:
        """The numbers; None only if the request allows it."""
        return [reward.value for reward in self.rewards]

    def as_dict(self) -> dict[str, Any]:
        """Return the quality of the judging; see docs/reward_server.md."""
        groups = list({id(reward.group): reward.group for reward in self.rewards}.values())
        both = [g.consistency for g in groups if g.consistency is not None]
        judged = sum(g.judgements for g in groups)
        return {
            "rewarder": self.rewarder,
            "rule": self.rule,
            "parsed": sum(g.parsed * g.judgements for g in groups) / judged if judged else 1.0,
            "consistency": sum(both) / len(both) if both else None,
            "judgements": judged,
            "cached": self.usage.cached_judgements,
            "tokens": self.usage.tokens()["total_tokens"],
            "cost": self.usage.cost,
            "group_sizes": [len(g.scores) for g in groups],
        }

    def logs(self, index: int) -> dict[str, float]:
        """Return one sample's quality as numbers alone: trainers make tensors of them."""
        group = self.rewards[index].group
        return {
            "parsed": group.parsed,
            "consistency": 1.0 if group.consistency is None else group.consistency,
            "cached": group.usage.cached_judgements,
            "tokens": group.usage.tokens()["total_tokens"],
            "group_size": len(group.scores),
            "no_image": float(not group.images),
        }


def reward_judge(request: Request) -> RewardJudge:
    """Return the judge of rollouts, or raise 503."""
    selector_of(request)
    judge: RewardJudge = request.app.state.reward_judge
    return judge


async def give_rewards(
    request: Request, query: RewardQuery, samples: Sequence[Rollout], model: str = ""
) -> Rewards:
    """Judge the samples; `model` is the rewarder that the body names."""
    judge, selector = reward_judge(request), selector_of(request)
    rewarder = query.rewarder or model or _only_rewarder(selector)
    rule = judging_rule(selector, rewarder, query.rule)
    _check(request, query, samples, rewarder, rule)
    if query.validated:
        await check_validated(request, rewarder, query.validated)
    shared = query.model_dump(include={"run", "scale", "on_unparsed", "group", "wait"})
    owner = request.scope["identity"].name
    options = RewardOptions(owner=owner, rewarder=rewarder, rule=rule, **shared)
    usage = Usage()
    cards = [selector.rewarder(rewarder).card]
    rewards = await run_models(
        request, cards, lambda: judge.rewards(options, samples, usage), usage
    )
    missing = sum(reward.value is None for reward in rewards)
    if missing and query.on_unparsed != "null":
        raise ApiError(
            503,
            f"no reward for {missing} of {len(rewards)} responses: {rewarder}'s reply could not be "
            "read, or there was nothing to compare with",
            "on_unparsed=null answers null for them, on_unparsed=mean their group's mean",
            retry=1,
        )
    return Rewards(rewarder, rule, rewards, usage)


def _only_rewarder(selector: Selector) -> str:
    if len(selector.rewarders) != 1:
        known = ", ".join(sorted(selector.rewarders))
        raise ApiError(422, "no rewarder is named", f"add rewarder=NAME to the address: {known}")
    return next(iter(selector.rewarders))


def _check(
    request: Request, query: RewardQuery, samples: Sequence[Rollout], rewarder: str, rule: str
) -> None:
    selector, limits = selector_of(request), request.app.state.service.settings.limits
    for sample in samples:
        check_text(sample.text, "a response", limits)
    most = limits.candidates
    counts = Counter(sample.question.key for sample in samples).values()
    if query.group > most or (query.group == 1 and max(counts) > most):
        raise ApiError(413, "too many responses of one question", f"at most {most}")
    if query.group == 1 and needs_group(selector, rewarder, rule) and min(counts) < 2:
        raise ApiError(
            422,
            f"{rewarder} compares responses, and here is a question with one alone",
            "add group=N to the address: the responses of a question, N in all, are then held "
            "until they can be compared",
        )
    # The other responses of an incomplete group are assumed to be as long.
    size = max(query.group, *counts)
    longest = max(len(sample.text) for sample in samples)
    check_shown(selector, rewarder, size, size * longest, limits)
    if query.wait >= limits.request_seconds:
        raise ApiError(422, f"wait={query.wait:g} leaves no time for judging", "wait for less")


async def rollout_of(
    request: Request, prompt: str | list[Any], response: str, label: Any = None
) -> Rollout:
    """Return a response to the question that its label names, or else to its prompt.

    Without a label the prompt itself may be the id of a question.
    """
    if label is None:
        label = _question_id(prompt)
    elif not isinstance(label, str):
        label = json.dumps(label)
    question = reward_judge(request).sets.named(label)
    settings: Settings = request.app.state.service.settings
    return Rollout(question or await _conversation(prompt, settings), response)


async def _conversation(prompt: str | list[Any], settings: Settings) -> Conversation:
    """Return a prompt as a question: a text, or messages with images in them."""
    if not prompt or (isinstance(prompt, str) and not prompt.strip()):
        fix = "send its prompt, or its id as the label: bon://SET/ID"
        raise ApiError(422, "no question was sent", fix)
    if isinstance(prompt, str):
        check_text(prompt, "a prompt", settings.limits)
        return Conversation((Message("user", (prompt,)),))
    try:
        messages = _MESSAGES.validate_python(prompt)
    except ValidationError as error:
        raise RequestValidationError(error.errors()) from None
    return await conversation(messages, settings)


def _question_id(prompt: str | list[Any]) -> str:
    """Return a prompt that is nothing but a question's id, never one that only quotes it."""
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], dict):
        prompt = prompt[0].get("content", "")
    is_id = isinstance(prompt, str) and prompt.startswith("bon://") and not prompt.split()[1:]
    return str(prompt) if is_id else ""


@router.get("")
def runs(request: Request, _: Reader) -> dict[str, Any]:
    """List the training runs that were given rewards."""
    return {"runs": reward_judge(request).log.runs()}


@router.get("/{run}")
def rewards(
    run: str,
    request: Request,
    _: Reader,
    after: Annotated[int, Query(ge=0, le=2**62)] = 0,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
) -> dict[str, Any]:
    """Return the rewards of a training run in order, a page at a time."""
    return {"rewards": reward_judge(request).log.page(run, after, limit)}
