"""The protocols of trainers: `/get_reward`, for OpenRLHF, slime and `bon client`'s files."""

import asyncio
import json
import re
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Discriminator, Field, JsonValue, Tag, TypeAdapter, ValidationError

from bon.engines.base import Message
from bon.experiment.required_form import without_turn_end
from bon.service.api.common import ONLINE_ERRORS, Submitter
from bon.service.api.messages import Messages, Open, check_text, conversation
from bon.service.api.online import (
    MAX_CANDIDATES,
    check_shown,
    judging_rule,
    run_models,
    selector_of,
)
from bon.service.errors import ApiError
from bon.service.online.rewards import (
    RatedGroup,
    Reward,
    RewardQuery,
    Rollout,
    named_question,
    needs_group,
)
from bon.service.online.selector import Conversation, Usage

router = APIRouter(tags=["rewards"], responses=ONLINE_ERRORS)
MAX_SAMPLES = 4096
_MESSAGES: TypeAdapter[Any] = TypeAdapter(Messages)
_TOKENS = re.compile(
    r"<[|｜][^<>|｜\s]{1,40}[|｜]>|</?s>|<(?:eos|bos|pad|sop)>|<(?:start|end)_of_turn>|\[(?:PAD|gMASK)\]"
)
_IMAGES = re.compile(
    r"<\|(?:image|vision)_\w{1,20}\|>|<\|image\|>|<IMG_CONTEXT>|<img>(?=<IMG)|</img>|<image>\n?"
)
_HEADS = [
    re.compile(head, re.IGNORECASE)
    for head in (
        r"<\|im_start\|>(\w+)\n",
        r"<\|start_header_id\|>(\w+)<\|end_header_id\|>",
        r"<start_of_turn>(\w+)\n",
        r"<\|im_\w{1,20}\|>(\w+)<\|im_middle\|>",
        r"<[|｜](system|user|assistant)[|｜]>",
        r"\[(/?INST)\]",
        r"(?:^|(?<=\s))(USER|ASSISTANT):(?=\s|$)",
    )
]
"""How a turn begins in the templates of Qwen, Llama, Gemma, Kimi, Phi and DeepSeek, Mistral, and
LLaVA; the group names whose turn it is."""
_ROLES = {"inst": "user", "/inst": "assistant", "model": "assistant"}
_OPEN = re.compile(r"\s*(?:<think>\s*(?:</think>\s*)?)?")


def _keys(body: Any) -> set[str]:
    """The keys that tell the bodies of a route apart."""
    if isinstance(body, BaseModel):
        body = vars(body)
    return set(body) if isinstance(body, dict) else set()


# ------------------------------------------------------------------ /get_reward


class RolloutBatch(Open):
    """OpenRLHF's body: `query` is a prompt with its response, as the tokenizer decodes them."""

    query: list[str] = Field(min_length=1, max_length=MAX_SAMPLES)
    prompts: list[str] = Field(min_length=1, max_length=MAX_SAMPLES)
    labels: list[JsonValue] = Field(default_factory=list, max_length=MAX_SAMPLES)


class RolloutSample(Open):
    """slime's body: one sample; `prompt` is a text or messages."""

    prompt: str | list[Any]
    response: str
    label: JsonValue = None


class SampleBatch(Open):
    """The body of `bon client`'s files."""

    samples: list[RolloutSample] = Field(min_length=1, max_length=MAX_SAMPLES)


RewardBody = Annotated[
    Annotated[RolloutBatch, Tag("query")]
    | Annotated[RolloutSample, Tag("response")]
    | Annotated[SampleBatch, Tag("samples")],
    Discriminator(lambda body: max({"samples", "response"} & _keys(body), default="query")),
]


@router.post("/get_reward")
async def get_reward(
    body: RewardBody,
    query: Annotated[RewardQuery, Query()],
    request: Request,
    _: Submitter,
) -> Any:
    """Return rewards in the form of the body's protocol, with the quality of the judging."""
    if isinstance(body, RolloutBatch):
        labels = body.labels or [None] * len(body.query)
        if not len(body.query) == len(body.prompts) == len(labels):
            raise ApiError(422, "query, prompts and labels have different lengths")
        samples = list(map(_decoded, body.prompts, body.query, labels))
    else:
        rows = body.samples if isinstance(body, SampleBatch) else [body]
        samples = [(row.prompt, row.response, row.label) for row in rows]
    rollouts = await asyncio.gather(*(_rollout(request, *sample) for sample in samples))
    rewards = await _give_rewards(request, query, rollouts)
    values, logs = [reward.value for reward in rewards], [_logs(reward.group) for reward in rewards]
    if isinstance(body, RolloutSample):
        return {query.key: values[0], **logs[0]} if query.key else values[0]
    return {
        "rewards": values,
        "scores": values,
        "extra_logs": {name: [row[name] for row in logs] for name in logs[0]},
    }


def _decoded(
    prompt: str, query: str, label: JsonValue
) -> tuple[str | list[dict[str, str]], str, JsonValue]:
    """Split a decoded rollout into (prompt, response, label), without special tokens."""
    if not query.startswith(prompt):
        raise ApiError(422, "a query does not begin with its prompt", "send both undecorated")
    response = without_turn_end(query[len(prompt) :]).strip()
    return _turns(prompt) or _TOKENS.sub("", prompt).strip(), response, label


def _turns(prompt: str) -> list[dict[str, str]]:
    """Return the turns of a prompt that opens the assistant's; none where no template fits."""
    for head in _HEADS:
        start, *parts = head.split(prompt)
        if not parts or not _OPEN.fullmatch(parts.pop()):
            continue
        roles = ["system", *(_ROLES.get(name.lower(), name.lower()) for name in parts[::2])]
        texts = [_TOKENS.sub("", start), *map(without_turn_end, parts[1::2])]
        turns = [
            {"role": role, "content": text}
            for role, piece in zip(roles, texts, strict=False)
            if (text := _IMAGES.sub("", piece).strip())
        ]
        known = {"system", "user", "assistant"}.issuperset(roles) and roles[-1] == "assistant"
        if known and turns and turns[-1]["role"] == "user":
            return turns
    return []


# ------------------------------------------------------------------ judging


async def _give_rewards(
    request: Request, query: RewardQuery, samples: Sequence[Rollout]
) -> list[Reward]:
    """Judge the samples."""
    selector, judge = selector_of(request), request.app.state.reward_judge
    known = sorted(selector.rewarders)
    if not query.rewarder and len(known) != 1:
        fix = f"add rewarder=NAME to the address: {', '.join(known)}"
        raise ApiError(422, "no rewarder is named", fix)
    rewarder = query.rewarder or known[0]
    rule = judging_rule(selector, rewarder, query.rule)
    _check(request, query, samples, rewarder, rule)
    query = query.model_copy(update={"rewarder": rewarder, "rule": rule})
    owner, usage = request.scope["identity"].name, Usage()
    work = partial(judge.rewards, owner, query, samples, usage)
    rewards: list[Reward] = await run_models(request, selector.cards(rewarder), work)
    missing = sum(reward.value is None for reward in rewards)
    if missing and query.on_unparsed != "null":
        problem = f"no reward for {missing} of {len(rewards)} responses: {rewarder}'s reply could "
        problem += "not be read, or there was nothing to compare with"
        fix = "on_unparsed=null answers null for them, on_unparsed=mean their group's mean"
        raise ApiError(503, problem, fix, retry=1)
    return rewards


def _logs(group: RatedGroup) -> dict[str, float]:
    """Return the quality of a group's judging as numbers alone: trainers make tensors of them."""
    return {
        "parsed": group.parsed,
        "consistency": 1.0 if group.consistency is None else group.consistency,
        "cached": group.usage.cached_judgements,
        "tokens": group.usage.tokens()["total_tokens"],
        "group_size": len(group.rewards),
        "no_image": float(not group.images),
    }


def _check(
    request: Request, query: RewardQuery, samples: Sequence[Rollout], rewarder: str, rule: str
) -> None:
    selector = selector_of(request)
    for sample in samples:
        check_text(sample.text, "a response")
    counts = Counter(s.question.key for s in samples).values()
    if query.group > MAX_CANDIDATES or (query.group == 1 and max(counts) > MAX_CANDIDATES):
        raise ApiError(413, "too many responses of one question", f"at most {MAX_CANDIDATES}")
    if query.group == 1 and needs_group(selector, rewarder, rule) and min(counts) < 2:
        problem = f"{rewarder} compares responses, and here is a question with one alone"
        fix = "add group=N to the address: N responses of a question are then judged together"
        raise ApiError(422, problem, fix)
    # The other responses of an incomplete group are assumed to be as long.
    size = max(query.group, *counts)
    longest = max(len(sample.text) for sample in samples)
    check_shown(selector, rewarder, size, size * longest)
    if query.wait >= request.app.state.service.settings.limits.request_seconds:
        raise ApiError(422, f"wait={query.wait:g} leaves no time for judging", "wait for less")


async def _rollout(
    request: Request, prompt: str | list[Any], response: str, label: Any = None
) -> Rollout:
    """Return a response to the question that its label names, or else to its prompt.

    Without a label the prompt itself may be the id of a question.
    """
    if label is None:  # a prompt that is nothing but an id, never one that only quotes it
        alone = prompt[0] if isinstance(prompt, list) and len(prompt) == 1 else None
        name = alone.get("content", "") if isinstance(alone, dict) else prompt
        is_id = isinstance(name, str) and name.startswith("bon://") and not name.split()[1:]
        label = name if is_id else ""
    elif not isinstance(label, str):
        label = json.dumps(label)
    selector_of(request)
    owner = request.scope["identity"].name
    if question := named_question(request.app.state.reward_judge.sets, label, owner):
        return Rollout(question, response)
    if not prompt or (isinstance(prompt, str) and not prompt.strip()):
        fix = "send its prompt, or its id as the label: bon://SET/ID"
        raise ApiError(422, "no question was sent", fix)
    if isinstance(prompt, str):
        check_text(prompt, "a prompt")
        return Rollout(Conversation((Message("user", (prompt,)),), owner=owner), response)
    try:
        messages = _MESSAGES.validate_python(prompt)
    except ValidationError as error:
        raise RequestValidationError(error.errors()) from None
    return Rollout(await conversation(owner, messages), response)
