"""The protocols of trainers: `/get_reward`, `/rerank`, `/v1/score`, `/classify`.

`/get_reward` takes the bodies of OpenRLHF, slime and `bon client`'s files; `/rerank` those of
Cohere, Jina, vLLM and TEI; `/v1/score` bon's own and vLLM's; `/classify` vLLM's.
"""

import asyncio
import re
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import AliasChoices, BaseModel, ConfigDict, Discriminator, Field, JsonValue, Tag

from bon.service.api.common import ONLINE_ERRORS, Submitter
from bon.service.api.messages import EXAMPLE_MESSAGES, ChatMessage, Open
from bon.service.api.online import ScoreRequest, score_candidates
from bon.service.api.rewards import RewardQuery, Rewards, give_rewards, rollout_of
from bon.service.errors import ApiError
from bon.service.online.rewards import Rollout

router = APIRouter(tags=["rewards"], responses=ONLINE_ERRORS)
MAX_SAMPLES = 4096
RewardSettings = Annotated[RewardQuery, Query()]
Text = str | dict[str, Any]
_TOKENS = re.compile(r"<\|[^<>|\s]{1,40}\|>|</?s>|<eos>|<bos>|<(?:start|end)_of_turn>")
_BEGIN, _END = "<|im_start|>", "<|im_end|>"
_QUERIES = ("queries", "text_1", "data_1")
_DOCUMENTS = ("documents", "text_2", "data_2", "items")


def _example(**body: Any) -> ConfigDict:
    return ConfigDict(extra="ignore", json_schema_extra={"examples": [{"model": "head", **body}]})


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


class RerankRequest(BaseModel):
    """Cohere, Jina and vLLM send `documents`, TEI sends `texts`."""

    model_config = _example(query="Which is red?", documents=["a cherry", "a lime"])
    model: str = Field("", max_length=200)
    query: Text
    documents: list[Text] | None = Field(None, min_length=1)
    texts: list[Text] | None = Field(None, min_length=1)
    top_n: int | None = Field(None, ge=1)
    return_documents: bool = False
    return_text: bool = False


@router.post("/rerank")
@router.post("/v1/rerank")
@router.post("/v2/rerank")
async def rerank(body: RerankRequest, query: RewardSettings, request: Request, _: Submitter) -> Any:
    """Rank the documents from best to worst; those without a reward come last."""
    documents = body.documents if body.documents is not None else body.texts
    if documents is None:
        raise ApiError(422, "no documents", "send `documents`, or TEI's `texts`")
    most = request.app.state.service.settings.limits.candidates
    if len(documents) > most:
        raise ApiError(413, f"{len(documents)} documents", f"at most {most}")
    texts = [_text(document) for document in documents]
    question = (await rollout_of(request, _prompt(body.query), "")).question
    rewards = await give_rewards(
        request, query, [Rollout(question, text) for text in texts], body.model
    )
    ranked = sorted(
        enumerate(rewards.values),
        key=lambda row: float("-inf") if row[1] is None else row[1],
        reverse=True,
    )[: body.top_n]
    if body.documents is None:
        return [
            {"index": i, "score": value} | ({"text": texts[i]} if body.return_text else {})
            for i, value in ranked
        ]
    results = [
        {"index": i, "relevance_score": value}
        | ({"document": {"text": texts[i]}} if body.return_documents else {})
        for i, value in ranked
    ]
    return _envelope("rerank", rewards, results=results)


# ------------------------------------------------------------------ /v1/score


class DocumentScores(BaseModel):
    """vLLM's body under each of its names: one query for all documents, or one for each."""

    model_config = _example(queries="Which is red?", documents=["a cherry", "a lime"])
    model: str = Field("", max_length=200)
    queries: Text | list[Text] = Field(validation_alias=AliasChoices(*_QUERIES))
    documents: Text | list[Text] = Field(validation_alias=AliasChoices(*_DOCUMENTS))


ScoreBody = Annotated[
    Annotated[ScoreRequest, Tag("candidates")] | Annotated[DocumentScores, Tag("documents")],
    Discriminator(
        lambda body: "documents" if {*_QUERIES, *_DOCUMENTS} & _keys(body) else "candidates"
    ),
]


@router.post("/v1/score", tags=["online"])
async def score(
    body: ScoreBody, query: RewardSettings, request: Request, _: Submitter
) -> dict[str, Any]:
    """Return a number for each candidate or document, in their order.

    With `candidates` every judgement comes with it; `queries` and `documents` are answered as
    vLLM does.
    """
    if isinstance(body, ScoreRequest):
        if request.query_params:
            raise ApiError(
                422, "settings in the address go with queries and documents", "leave them out"
            )
        return await score_candidates(body, request, request.app.state.service.settings)
    queries = body.queries if isinstance(body.queries, list) else [body.queries]
    documents = body.documents if isinstance(body.documents, list) else [body.documents]
    if not documents or len(queries) not in (1, len(documents)):
        counts = f"{len(queries)} queries and {len(documents)} documents"
        raise ApiError(422, counts, "one for all, or as many")
    if len(documents) > MAX_SAMPLES:
        raise ApiError(413, f"{len(documents)} documents", f"at most {MAX_SAMPLES}")
    rollouts = await asyncio.gather(*(rollout_of(request, _prompt(text), "") for text in queries))
    if len(rollouts) == 1:
        rollouts *= len(documents)
    samples = [
        Rollout(rollout.question, _text(document))
        for rollout, document in zip(rollouts, documents, strict=True)
    ]
    rewards = await give_rewards(request, query, samples, body.model)
    return _listed("score", rewards, lambda value: {"object": "score", "score": value})


# ------------------------------------------------------------------ /classify


class ClassifyRequest(BaseModel):
    """One conversation that ends with the answer to judge, or several."""

    model_config = _example(
        messages=[*EXAMPLE_MESSAGES, {"role": "assistant", "content": "It is red."}]
    )
    model: str = Field("", max_length=200)
    messages: list[ChatMessage] | list[list[ChatMessage]] | None = Field(
        None, min_length=1, max_length=1024
    )
    input: Any = Field(None, description="a templated text: refused, it cannot be taken apart")


@router.post("/classify")
async def classify(
    body: ClassifyRequest, query: RewardSettings, request: Request, _: Submitter
) -> dict[str, Any]:
    """Return one raw score for each conversation, in `probs`."""
    if body.messages is None:
        fix = "send the chat form, `messages`: `input` hides what is the answer"
        raise ApiError(422, "no messages", fix)
    several = [m for m in body.messages if isinstance(m, list)]
    single = [m for m in body.messages if isinstance(m, ChatMessage)]
    samples = [_judged(messages) for messages in several or [single]]
    rollouts = await asyncio.gather(*(rollout_of(request, *sample) for sample in samples))
    rewards = await give_rewards(request, query, rollouts, body.model)
    return _listed(
        "classify", rewards, lambda value: {"label": None, "probs": [value], "num_classes": 1}
    )


def _judged(messages: list[ChatMessage]) -> tuple[list[Any], str]:
    """Split a conversation into (prompt, answer)."""
    answer = messages[-1] if messages else None
    if answer is None or answer.role != "assistant" or not isinstance(answer.content, str):
        raise ApiError(422, "the last message is the assistant's, a text: it is what is judged")
    return [turn.model_dump() for turn in messages[:-1]], answer.content


# ------------------------------------------------------------------ shared


def _envelope(kind: str, rewards: Rewards, **fields: Any) -> dict[str, Any]:
    """The reply of vLLM and its relatives."""
    return {
        "id": f"{kind}-{uuid.uuid4().hex}",
        "model": rewards.rewarder,
        **fields,
        "usage": rewards.usage.tokens(),
        "bon": rewards.as_dict(),
    }


def _listed(kind: str, rewards: Rewards, row: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
    data = [{"index": i, **row(value)} for i, value in enumerate(rewards.values)]
    return _envelope(kind, rewards, object="list", created=int(time.time()), data=data)


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
