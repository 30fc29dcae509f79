"""The online selector: score, rank, best of n."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from bon.choosing.opinion import shown_of
from bon.choosing.rules import RULES
from bon.core.records import Candidate
from bon.experiment.config import Card
from bon.policies.generate import text_key
from bon.service.api.common import ONLINE_ERRORS, Parts, Submitter
from bon.service.api.messages import EXAMPLE_MESSAGES, Messages, Options, check_text, conversation
from bon.service.errors import ApiError
from bon.service.online.selector import Choice, Conversation, Selector, Usage
from bon.service.server.state import Service
from bon.service.settings import Limits
from bon.service.validations.budget import paid

router = APIRouter(prefix="/v1", tags=["online"], responses=ONLINE_ERRORS)
T = TypeVar("T")
CLIENT_CLOSED = 499
"""The status in logs of a request whose client hung up; nobody receives it."""


def _closed(**example: Any) -> ConfigDict:
    return ConfigDict(extra="forbid", json_schema_extra={"examples": [example]})


class ScoreRequest(BaseModel):
    """Judge given candidates."""

    model_config = _closed(
        rewarder="judge", messages=EXAMPLE_MESSAGES, candidates=["It is red.", "It is blue."]
    )
    rewarder: str = Field(max_length=200)
    messages: Messages
    candidates: list[str] = Field(min_length=1)
    options: Options = Field(default_factory=list)
    rule: str | None = Field(None, max_length=50)


class BestOfNRequest(BaseModel):
    """Sample n candidates of a policy and let a rewarder choose."""

    model_config = _closed(
        policy="policy",
        rewarder="judge",
        messages=EXAMPLE_MESSAGES,
        options=["Red", "Green", "Blue"],
        n=4,
    )
    policy: str = Field(max_length=200)
    rewarder: str = Field(max_length=200)
    messages: Messages
    options: Options = Field(default_factory=list)
    n: int = Field(8, ge=1)
    rule: str | None = Field(None, max_length=50)
    seed: int = Field(0, ge=0, lt=2**63)


@router.post("/score")
@router.post("/rank")
async def rank(
    body: ScoreRequest, request: Request, service: Parts, _: Submitter
) -> dict[str, Any]:
    """Score the candidates and rank them from best to worst, with every judgement."""
    selector, limits, usage = selector_of(request), service.settings.limits, Usage()
    rewarder, texts = body.rewarder, body.candidates
    rule = judging_rule(selector, rewarder, body.rule)
    if len(texts) > limits.candidates:
        raise ApiError(413, f"{len(texts)} candidates", f"at most {limits.candidates}")
    for text in texts:
        check_text(text, "a candidate", limits)
    check_shown(selector, rewarder, len(texts), sum(map(len, texts)), limits)
    messages = await conversation(body.messages, service.settings, body.options)
    choice = await run_models(
        request,
        selector.cards(rewarder),
        lambda: selector.choose(rewarder, rule, messages, texts, usage),
        usage,
    )
    return {
        "rewarder": rewarder,
        "rule": choice.ranking.rule,
        "chosen": None if choice.abstained else choice.ranking.best,
        "lead": choice.lead,
        "abstained": choice.abstained,
        "order": choice.ranking.order,
        "scores": choice.ranking.scores,
        "probabilities": choice.ranking.probabilities,
        "judgements": _judgements(choice),
        "usage": usage.as_dict(),
    }


@router.post("/best-of-n")
async def best_of_n(
    body: BestOfNRequest, request: Request, service: Parts, _: Submitter
) -> dict[str, Any]:
    """Return the chosen answer, with all candidates and their judgements.

    With `options` the question is asked with the policy's own prompt and its answer letters are
    read, as in the validation of that policy; without, the messages go to it as they are.
    """
    usage, policy = Usage(), selector_of(request).policy(body.policy)
    messages = await conversation(body.messages, service.settings, body.options, policy)
    choice, candidates = await select(
        request, body.policy, body.rewarder, body.rule, messages, body.n, body.seed, usage
    )
    ranking = choice.ranking
    columns = zip(candidates, choice.answers, ranking.scores, ranking.probabilities, strict=True)
    return {
        "policy": body.policy,
        "rewarder": body.rewarder,
        "rule": ranking.rule,
        "n": body.n,
        "chosen": None if choice.abstained else ranking.best,
        "answer": None if choice.abstained else choice.answers[ranking.best],
        "text": None if choice.abstained else choice.texts[ranking.best],
        "lead": choice.lead,
        "abstained": choice.abstained,
        "candidates": [
            {
                "text": row.text,
                "answer": answer,
                "score": score,
                "probability": probability,
                "num_tokens": row.num_tokens,
                "logprob": row.logprob,
                "finish": row.finish,
                "seed": row.seed,
            }
            for row, answer, score, probability in columns
        ],
        "judgements": _judgements(choice),
        "usage": usage.as_dict(),
    }


# ------------------------------------------------------------------ shared with other routes


def selector_of(request: Request) -> Selector:
    """Return the online models, or raise 503."""
    selector: Selector | None = request.app.state.online
    if selector is None:
        fix = "name cards under online: in the server's settings"
        raise ApiError(503, "no model is online here", fix)
    return selector


async def run_models(
    request: Request,
    cards: Sequence[Card],
    work: Callable[[], Coroutine[Any, Any, T]],
    usage: Usage,
) -> T:
    """Run the work within the time limit and the owner's budget, while its client waits."""
    service: Service = request.app.state.service
    owner, costs = request.scope["identity"].name, paid(cards)
    if costs and await asyncio.to_thread(service.budget.left, owner) <= 0:
        raise ApiError(402, "your share of this server's money is spent", "ask its operator")
    seconds = service.settings.limits.request_seconds
    task = asyncio.create_task(work())
    closed = asyncio.create_task(_disconnected(request))
    try:
        await asyncio.wait({task, closed}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        if closed.done():
            raise ApiError(CLIENT_CLOSED, "the client disconnected")
        raise ApiError(504, f"no answer within {seconds:g} s")
    finally:
        closed.cancel()
        task.cancel()
        if costs:
            await asyncio.to_thread(service.budget.add, owner, usage.cost)


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def select(
    request: Request,
    policy: str,
    rewarder: str,
    rule: str | None,
    messages: Conversation,
    n: int,
    seed: int,
    usage: Usage,
) -> tuple[Choice, list[Candidate]]:
    """Sample n candidates and choose one."""
    selector, limits = selector_of(request), request.app.state.service.settings.limits
    cards = [selector.policy(policy).card, *selector.cards(rewarder)]
    rule_name = selector.rule(rewarder, rule)
    if RULES[rule_name].answers and not messages.options:
        raise ApiError(422, f"the rule {rule_name} needs `options`: it counts answer letters")
    if n > limits.candidates:
        raise ApiError(422, f"n is {n}", f"at most {limits.candidates}")
    scale = selector.scale(policy, rewarder, rule_name)

    async def work() -> tuple[Choice, list[Candidate]]:
        rows = await selector.sample(policy, messages, n, seed, usage)
        answers = [row.answer if messages.options else None for row in rows]
        texts = [row.text for row in rows]
        choice = await selector.choose(
            rewarder, rule_name, messages, texts, usage, answers, scale, policy
        )
        return choice, rows

    return await run_models(request, cards, work, usage)


def judging_rule(selector: Selector, rewarder: str, rule: str | None) -> str:
    """Return the rule for given responses, which have no sampled answers to count."""
    name = selector.rule(rewarder, rule)
    if RULES[name].answers:
        raise ApiError(422, f"the rule {name} counts sampled answers", "use /v1/best-of-n")
    return name


def check_shown(
    selector: Selector, rewarder: str, texts: int, characters: int, limits: Limits
) -> None:
    """Refuse texts that a judge would read again and again for minutes."""
    shown = sum(
        characters
        * selector.rewarder(name).card.votes
        * (2 * (texts - 1) if selector.kind(name) == "preferences" else 1)
        for name in selector.members(rewarder)
    )
    if shown > limits.shown_chars:
        raise ApiError(
            413,
            f"{rewarder} would be shown {shown:,} characters",
            f"at most {limits.shown_chars:,}: send less",
        )


def _judgements(choice: Choice) -> list[dict[str, Any]]:
    """Raw judgements; `shown` holds the candidates' indices in the order shown."""
    index: dict[str, int] = {}
    for i, text in enumerate(choice.texts):
        index.setdefault(text_key(text), i)
    fields = ("rewarder", "vote", "outcome", "score", "text", "error", "num_tokens")
    return [
        {"shown": [index[key] for key in shown_of(row)]}
        | {name: getattr(row, name) for name in fields}
        for row in choice.judgements
    ]
