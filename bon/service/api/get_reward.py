"""`POST /get_reward`: the remote rewards of OpenRLHF and slime, and a batch for client files.

The three bodies are told apart by their keys: `query`, `response`, `samples`.
"""

import asyncio
import re
from collections.abc import Iterator
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Discriminator, Field, JsonValue, Tag

from bon.service.api.common import Problem, Submitter
from bon.service.api.online import ERRORS
from bon.service.api.rewards import Rewarded, RewardQuery, reward, sample_of
from bon.service.rewarding import Rollout

router = APIRouter(tags=["rewards"])
_MARKS = re.compile(r"<\|[^<>|\s]{1,40}\|>|</?s>|<eos>|<bos>|<(?:start|end)_of_turn>")
_BEGIN, _END = "<|im_start|>", "<|im_end|>"


class RewardAddress(RewardQuery):
    """What the address says."""

    key: str = Field(
        "", max_length=50, pattern=r"^\w*$", description="slime's --reward-key: answer an object"
    )


class _Body(BaseModel):
    model_config = ConfigDict(extra="ignore")


class RolloutBatch(_Body):
    """OpenRLHF's: `query` is a prompt with its response, as the tokenizer decodes them."""

    query: list[str] = Field(min_length=1, max_length=4096)
    prompts: list[str] = Field(min_length=1, max_length=4096)
    labels: list[JsonValue] = Field(default_factory=list, max_length=4096)


class RolloutSample(_Body):
    """slime's: one sample; `prompt` is a text or messages."""

    prompt: str | list[Any]
    response: str
    label: JsonValue = None


class SampleBatch(_Body):
    """Samples of `bon client`'s files."""

    samples: list[RolloutSample] = Field(min_length=1, max_length=4096)


def _form(body: Any) -> str:
    keys = body if isinstance(body, dict) else vars(body) if isinstance(body, BaseModel) else {}
    return "samples" if "samples" in keys else "response" if "response" in keys else "query"


RewardBody = Annotated[
    Annotated[RolloutBatch, Tag("query")]
    | Annotated[RolloutSample, Tag("response")]
    | Annotated[SampleBatch, Tag("samples")],
    Discriminator(_form),
]


@router.post("/get_reward", responses=ERRORS)
async def get_reward(
    body: RewardBody, query: Annotated[RewardAddress, Query()], request: Request, _: Submitter
) -> Any:
    """Rewards in the form of the body's protocol, with how sound they are beside them."""
    samples = await _samples(body, request)
    found = await reward(request, query, samples)
    if isinstance(body, RolloutSample):
        value = found.values[0]
        return {query.key: value, **_logs(found, 0)} if query.key else value
    logs = [_logs(found, at) for at in range(len(samples))]
    return {
        "rewards": found.values,
        "scores": found.values,
        "extra_logs": {name: [row[name] for row in logs] for name in logs[0]},
        "bon": found.shown(),
    }


async def _samples(
    body: RolloutBatch | RolloutSample | SampleBatch, request: Request
) -> list[Rollout]:
    if isinstance(body, RolloutBatch):
        labels = body.labels or [None] * len(body.query)
        if not len(body.query) == len(body.prompts) == len(labels):
            raise Problem(422, "query, prompts and labels have different lengths")
        rows = zip(body.prompts, body.query, labels, strict=True)
        return await asyncio.gather(*(_decoded(request, *row) for row in rows))
    given = body.samples if isinstance(body, SampleBatch) else [body]
    made = (sample_of(request, one.prompt, one.response, one.label) for one in given)
    return await asyncio.gather(*made)


async def _decoded(request: Request, prompt: str, query: str, label: JsonValue) -> Rollout:
    """A sample from texts that still hold the marks of the policy's chat template."""
    if not query.startswith(prompt):
        raise Problem(422, "a query does not begin with its prompt", "send both undecorated")
    turns = list(_turns(prompt))
    response = _MARKS.sub("", query[len(prompt) :]).strip()
    roles = {turn["role"] for turn in turns}
    whole = turns and turns[-1]["role"] == "user" and roles <= {"system", "user", "assistant"}
    return await sample_of(
        request, turns if whole else _MARKS.sub("", prompt).strip(), response, label
    )


def _turns(prompt: str) -> Iterator[dict[str, str]]:
    """The turns of a ChatML text that end; by splitting, in time that grows with its length."""
    for piece in prompt.split(_BEGIN)[1:]:
        role, _, said = piece.partition("\n")
        text, end, _ = said.partition(_END)
        if text and end and role.isidentifier():
            yield {"role": role, "content": text}


def _logs(found: Rewarded, at: int) -> dict[str, float]:
    """Numbers alone: trainers make tensors of them."""
    group = found.rewards[at].group
    return {
        "parsed": group.parsed,
        "consistency": 1.0 if group.consistency is None else group.consistency,
        "cached": group.cached,
        "tokens": group.prompt_tokens + group.completion_tokens,
        "group_size": len(group.scores),
        "no_image": float(not group.images),
    }
