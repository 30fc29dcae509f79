"""What the protocols of trainers have in common, and the rewards that were given."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from bon.choosing.rules import RULES
from bon.engines.base import Message
from bon.service.api.answering import answered, selector_of
from bon.service.api.chatting import Messages, check_text, conversation
from bon.service.api.common import Problem, Reader
from bon.service.api.online import ERRORS, check_rule, check_shown
from bon.service.api.vouching import check_validated
from bon.service.online import Conversation, Selector, Usage
from bon.service.ratings import OnUnparsed, Scale
from bon.service.rewarding import Given, Rewarding, Rollout, Wanted, needs_group
from bon.service.settings import Settings

router = APIRouter(prefix="/v1/rewards", tags=["rewards"], responses=ERRORS)
_MESSAGES: TypeAdapter[Any] = TypeAdapter(Messages)


class RewardQuery(BaseModel):
    """What every trainer's address may say, so that its body stays as it is."""

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


Asked = Annotated[RewardQuery, Query()]


@dataclass(frozen=True, slots=True)
class Rewarded:
    """The rewards of a request, in the order of its samples."""

    rewarder: str
    rule: str
    rewards: list[Given]
    usage: Usage

    @property
    def values(self) -> list[float | None]:
        """The numbers; None only where the request asked for it."""
        return [reward.value for reward in self.rewards]

    def shown(self) -> dict[str, Any]:
        """How sound the judging was; see docs/reward_server.md."""
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
            "tokens": self.usage.prompt_tokens + self.usage.completion_tokens,
            "cost": self.usage.cost,
            "group_sizes": [len(g.scores) for g in groups],
        }

    def tokens(self) -> dict[str, int]:
        """As OpenAI's protocol and its relatives say it."""
        prompt, completion = self.usage.prompt_tokens, self.usage.completion_tokens
        return {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
        }


def rewarding_of(request: Request) -> Rewarding:
    """What gives rewards, or 503."""
    selector_of(request)
    found: Rewarding = request.app.state.rewarding
    return found


async def reward(
    request: Request, query: RewardQuery, samples: Sequence[Rollout], model: str = ""
) -> Rewarded:
    """Judge the samples as the address says; `model` is the rewarder that the body names."""
    rewarding, selector = rewarding_of(request), selector_of(request)
    settings: Settings = request.app.state.service.settings
    rewarder = _rewarder(selector, query.rewarder or model)
    rule = check_rule(selector, rewarder, query.rule)
    if RULES[rule].answers:
        raise Problem(422, f"the rule {rule} counts sampled answers", "use /v1/best-of-n")
    for sample in samples:
        check_text(sample.text, "a response", settings)
    most = settings.limits.candidates
    counts = Counter(sample.asked.key for sample in samples)
    if query.group > most or (query.group == 1 and max(counts.values()) > most):
        raise Problem(413, "too many responses of one question", f"at most {most}")
    if query.group == 1 and needs_group(selector, rewarder, rule) and min(counts.values()) < 2:
        raise Problem(
            422,
            f"{rewarder} compares responses, and here is a question with one alone",
            "add group=N to the address: the responses of a question, N in all, are then held "
            "until they can be compared",
        )
    # Of a group that is still to come, as if the other responses were as long.
    size = max(query.group, *counts.values())
    longest = max(len(sample.text) for sample in samples)
    check_shown(selector, rewarder, size, size * longest, settings.limits.shown_chars)
    if query.wait >= settings.limits.request_seconds:
        raise Problem(422, f"wait={query.wait:g} leaves no time to judge", "wait for less")
    if query.validated:
        await check_validated(request, rewarder, query.validated)
    owner = request.scope["identity"].name
    wanted = Wanted(
        owner, query.run, rewarder, rule, query.scale, query.on_unparsed, query.group, query.wait
    )
    usage = Usage()
    rewards = await answered(
        request,
        [selector.rewarder(rewarder).card],
        lambda: rewarding.rewards(wanted, samples, usage),
        usage,
    )
    lacking = sum(one.value is None for one in rewards)
    if lacking and query.on_unparsed != "null":
        raise Problem(
            503,
            f"no reward for {lacking} of {len(rewards)} responses: {rewarder}'s reply could not be "
            "read, or there was nothing to compare with",
            "on_unparsed=null answers null for them, on_unparsed=mean their group's mean",
            retry=1,
        )
    return Rewarded(rewarder, rule, rewards, usage)


async def sample_of(
    request: Request, prompt: str | list[Any], response: str, label: Any = None
) -> Rollout:
    """A response to the question that its label names, or else to its prompt.

    Without a label the prompt itself may be the id of a question.
    """
    settings: Settings = request.app.state.service.settings
    if label is None:
        named = _address(prompt)
    else:
        named = label if isinstance(label, str) else json.dumps(label)
    try:
        asked = rewarding_of(request).sets.named(named)
    except LookupError as error:
        raise Problem(422, str(error.args[0]), "`online.sets` lists the question sets") from None
    return Rollout(asked or await asked_by(prompt, settings), response)


async def asked_by(prompt: str | list[Any], settings: Settings) -> Conversation:
    """The question that a prompt is: a text, or messages with images in them."""
    if not prompt or (isinstance(prompt, str) and not prompt.strip()):
        raise Problem(
            422, "there is no question", "send its prompt, or its id as the label: bon://SET/ID"
        )
    if isinstance(prompt, str):
        check_text(prompt, "a prompt", settings)
        return Conversation((Message("user", (prompt,)),))
    try:
        messages = _MESSAGES.validate_python(prompt)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise Problem(422, f"a prompt is a text or messages: {where}: {first['msg']}") from None
    return await conversation(messages, settings)


def _address(prompt: str | list[Any]) -> str:
    """A prompt that is nothing but the id of a question; never one that only quotes it."""
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], dict):
        prompt = prompt[0].get("content", "")
    named = isinstance(prompt, str) and prompt.startswith("bon://") and not prompt.split()[1:]
    return str(prompt) if named else ""


def _rewarder(selector: Selector, name: str) -> str:
    if name or len(selector.rewarders) != 1:
        if not name:
            known = ", ".join(sorted(selector.rewarders))
            raise Problem(422, "which rewarder?", f"add rewarder=NAME to the address: {known}")
        return name
    return next(iter(selector.rewarders))


@router.get("")
def runs(request: Request, _: Reader) -> dict[str, Any]:
    """The training runs that were given rewards."""
    return {"runs": rewarding_of(request).log.runs()}


@router.get("/{run}")
def given(
    run: str,
    request: Request,
    _: Reader,
    after: Annotated[int, Query(ge=0, le=2**62)] = 0,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
) -> dict[str, Any]:
    """The rewards of a training run in order, a page at a time: what curves are drawn from."""
    return {"rewards": rewarding_of(request).log.page(run, after, limit)}
