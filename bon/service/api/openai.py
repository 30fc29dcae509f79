"""Chat completions as in OpenAI's API; the model is `bon/POLICY/REWARDER`."""

import json
import time
import uuid
from itertools import product
from typing import Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse
from pydantic import Field
from starlette.responses import JSONResponse, Response

from bon.choosing.rules import RULES
from bon.core.records import Candidate
from bon.service.api.common import ONLINE_ERRORS, Submitter, run_models, selector_of
from bon.service.api.messages import MAX_CANDIDATES, Messages, Open, Options, conversation
from bon.service.errors import ApiError
from bon.service.online.selector import Choice, Selector, Usage

router = APIRouter(prefix="/v1", tags=["OpenAI-compatible"], responses=ONLINE_ERRORS)
_SHOWN = ("text", "num_tokens", "logprob", "finish", "seed")


class StreamOptions(Open):
    """Options of a stream."""

    include_usage: bool = False


class PlainText(Open):
    """The only response format: nothing makes the chosen candidate JSON."""

    type: Literal["text"]


class ChatRequest(Open):
    """The fields in use, and those that would change the answer; sampling is the policy card's."""

    model: str = Field(max_length=400)
    messages: Messages
    best_of: int = Field(8, ge=1, le=MAX_CANDIDATES, description="candidates to choose from")
    rule: str | None = Field(None, max_length=50)
    options: Options = Field(default_factory=list)
    seed: int | None = Field(None, ge=0, lt=2**63)
    n: Literal[1] | None = None
    stream: bool = False
    tools: list[Any] | None = Field(None, max_length=0, description="not supported")
    functions: list[Any] | None = Field(None, max_length=0, description="not supported")
    response_format: PlainText | None = Field(None, description="text, or left out")
    logprobs: Literal[False] | None = Field(None, description="not supported")
    stream_options: StreamOptions | None = None


@router.get("/models")
def models(request: Request, _: Submitter) -> dict[str, Any]:
    """List every policy with every rewarder."""
    selector: Selector | None = request.app.state.online
    pairs = product(*selector.names().values()) if selector else ()
    model = {"object": "model", "created": 0, "owned_by": "bon"}
    names = [f"bon/{policy}/{rewarder}" for policy, rewarder in pairs]
    return {"object": "list", "data": [{"id": name, **model} for name in names]}


@router.post("/chat/completions", response_model=None)
async def chat(body: ChatRequest, request: Request, identity: Submitter) -> Response:
    """Return the best of `best_of` candidates; usage counts every call behind it.

    With `options` the question is asked with the policy's own prompt and its answer letters are
    read, as in the validation of that policy; without, the messages go to it as they are. The
    choice is made when all candidates are judged, so a stream begins with the final answer.
    """
    selector, usage = selector_of(request), Usage()
    vendor, policy, rewarder = (*body.model.split("/", 2), "", "")[:3]
    if vendor != "bon" or not policy or not rewarder:
        raise ApiError(404, f"no model {body.model!r}", "models are named bon/POLICY/REWARDER")
    loaded, rule = selector.policy(policy), selector.rule(rewarder, body.rule)
    if RULES[rule].answers and not body.options:
        raise ApiError(422, f"the rule {rule} needs `options`: it counts answer letters")
    scale = selector.scale(policy, rewarder, rule)
    question = await conversation(identity.name, body.messages, body.options, loaded)

    async def work() -> tuple[Choice, list[Candidate]]:
        rows = await selector.sample(policy, question, body.best_of, body.seed or 0, usage)
        answers = [row.answer if question.options else None for row in rows]
        texts = [row.text for row in rows]
        choice = await selector.choose(
            rewarder, rule, question, texts, usage, answers, scale, policy
        )
        return choice, rows

    cards = [loaded.card, *selector.cards(rewarder)]
    choice, candidates = await run_models(request, cards, work)
    ranking = choice.ranking
    best = candidates[ranking.best]
    finish = "length" if best.finish == "length" else "stop"
    name = f"chatcmpl-{uuid.uuid4().hex}"
    head = {"id": name, "created": int(time.time()), "model": body.model}
    if body.stream:
        with_usage = body.stream_options is not None and body.stream_options.include_usage
        chunks = _stream(head, best.text, finish, usage if with_usage else None)
        return StreamingResponse(iter(chunks), media_type="text/event-stream")
    message = {"role": "assistant", "content": best.text, "refusal": None}
    picked = {"index": 0, "message": message, "finish_reason": finish, "logprobs": None}
    rows = zip(candidates, choice.answers, ranking.scores, ranking.probabilities, strict=True)
    selection = {
        "rule": ranking.rule,
        "chosen": ranking.best,
        "answer": choice.answers[ranking.best],
        "candidates": [
            {"answer": answer, "score": score, "probability": probability}
            | {key: getattr(row, key) for key in _SHOWN}
            for row, answer, score, probability in rows
        ],
        "judgements": choice.raw(),
    }
    reply = {"object": "chat.completion", "choices": [picked], "usage": usage.as_dict()}
    return JSONResponse({**head, **reply, "bon": selection})


def _stream(head: dict[str, Any], text: str, finish: str, usage: Usage | None) -> list[str]:
    """The events of a stream: role, text, end, usage."""
    deltas: Any = {"role": "assistant", "content": ""}, {"content": text}, {}
    rows: list[dict[str, Any]] = [
        {"choices": [{"index": 0, "delta": delta, "finish_reason": end, "logprobs": None}]}
        for delta, end in zip(deltas, (None, None, finish), strict=True)
    ]
    if usage is not None:
        rows.append({"choices": [], "usage": usage.as_dict()})
    head = {**head, "object": "chat.completion.chunk"}
    return [*(f"data: {json.dumps({**head, **row})}\n\n" for row in rows), "data: [DONE]\n\n"]
