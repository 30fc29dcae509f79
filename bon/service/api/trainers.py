"""The protocols of trainers: `/get_reward` and `/rerank`.

`/get_reward` takes the bodies of OpenRLHF, slime and `bon client`'s files; `/rerank` that of
Cohere, Jina and vLLM.
"""

import asyncio
import re
import uuid
from collections.abc import Iterator
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Discriminator, Field, JsonValue, Tag

from bon.service.api.common import ONLINE_ERRORS, Submitter
from bon.service.api.messages import Open
from bon.service.api.rewards import RewardQuery, give_rewards, rollout_of
from bon.service.errors import ApiError
from bon.service.online.rewards import Rollout

router = APIRouter(tags=["rewards"], responses=ONLINE_ERRORS)
MAX_SAMPLES = 4096
Text = str | dict[str, Any]
_TOKENS = re.compile(r"<\|[^<>|\s]{1,40}\|>|</?s>|<eos>|<bos>|<(?:start|end)_of_turn>")
_BEGIN, _END = "<|im_start|>", "<|im_end|>"


def _keys(body: Any) -> set[str]:
    """The keys that tell the bodies of a route apart."""
    if isinstance(body, BaseModel):
        body = vars(body)
    return set(body) if isinstance(body, dict) else set()


# ------------------------------------------------------------------ /get_reward


class KeyedRewardQuery(RewardQuery):
    """Settings in the address of `/get_reward`."""

    key: str = Field(
        "", max_length=50, pattern=r"^\w*$", description="slime's --reward-key: answer an object"
    )


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
    query: Annotated[KeyedRewardQuery, Query()],
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
    rollouts = await asyncio.gather(*(rollout_of(request, *sample) for sample in samples))
    rewards = await give_rewards(request, query, rollouts)
    if isinstance(body, RolloutSample):
        value = rewards.values[0]
        return {query.key: value, **rewards.logs(0)} if query.key else value
    logs = [rewards.logs(i) for i in range(len(samples))]
    return {
        "rewards": rewards.values,
        "scores": rewards.values,
        "extra_logs": {name: [row[name] for row in logs] for name in logs[0]},
        "bon": rewards.as_dict(),
    }


def _decoded(
    prompt: str, query: str, label: JsonValue
) -> tuple[str | list[dict[str, str]], str, JsonValue]:
    """Split a decoded rollout into (prompt, response, label), without special tokens."""
    if not query.startswith(prompt):
        raise ApiError(422, "a query does not begin with its prompt", "send both undecorated")
    turns = list(_turns(prompt))
    response = _TOKENS.sub("", query[len(prompt) :]).strip()
    roles = {turn["role"] for turn in turns}
    if turns and turns[-1]["role"] == "user" and roles <= {"system", "user", "assistant"}:
        return turns, response, label
    return _TOKENS.sub("", prompt).strip(), response, label


def _turns(prompt: str) -> Iterator[dict[str, str]]:
    """Yield the complete turns of a ChatML text, in linear time."""
    for piece in prompt.split(_BEGIN)[1:]:
        role, _, rest = piece.partition("\n")
        text, end, _ = rest.partition(_END)
        if text and end and role.isidentifier():
            yield {"role": role, "content": text}


# ------------------------------------------------------------------ /rerank


class RerankRequest(Open):
    """What clients of Cohere, Jina and vLLM send."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"model": "head", "query": "Which is red?", "documents": ["a cherry", "a lime"]}
            ]
        }
    )
    model: str = Field("", max_length=200)
    query: Text
    documents: list[Text] = Field(min_length=1)
    top_n: int | None = Field(None, ge=1)
    return_documents: bool = False


@router.post("/rerank")
@router.post("/v1/rerank")
@router.post("/v2/rerank")
async def rerank(
    body: RerankRequest, query: Annotated[RewardQuery, Query()], request: Request, _: Submitter
) -> dict[str, Any]:
    """Rank the documents from best to worst; those without a reward come last."""
    most = request.app.state.service.settings.limits.candidates
    if len(body.documents) > most:
        raise ApiError(413, f"{len(body.documents)} documents", f"at most {most}")
    texts = [_text(document) for document in body.documents]
    question = (await rollout_of(request, _prompt(body.query), "")).question
    rewards = await give_rewards(
        request, query, [Rollout(question, text) for text in texts], body.model
    )
    ranked = sorted(
        enumerate(rewards.values),
        key=lambda row: float("-inf") if row[1] is None else row[1],
        reverse=True,
    )[: body.top_n]
    return {
        "id": f"rerank-{uuid.uuid4().hex}",
        "model": rewards.rewarder,
        "results": [
            {"index": i, "relevance_score": value}
            | ({"document": {"text": texts[i]}} if body.return_documents else {})
            for i, value in ranked
        ],
        "usage": rewards.usage.tokens(),
        "bon": rewards.as_dict(),
    }


def _text(document: Text) -> str:
    """Return the text of a document: a string, `{"text": ...}`, or content parts of text."""
    if isinstance(document, str):
        return document
    content = document.get("content", document.get("text"))
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [None]
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    if len(texts) == len(parts) and all(isinstance(text, str) for text in texts):
        return "\n".join(map(str, texts))
    raise ApiError(422, "a document is a text here", 'send "..." or {"text": "..."}')


def _prompt(query: Text) -> str | list[Any]:
    """Return a query as a prompt: a text, or one turn with its images."""
    if isinstance(query, dict) and isinstance(query.get("content"), list):
        return [{"role": "user", "content": query["content"]}]
    return _text(query)
