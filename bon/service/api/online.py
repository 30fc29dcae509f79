"""The online selector: score, rank."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, TypeVar

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from bon.choosing.opinion import shown_of
from bon.choosing.rules import RULES
from bon.core.keys import text_key
from bon.experiment.config import Card
from bon.service.api.common import ONLINE_ERRORS, Submitter
from bon.service.api.messages import Messages, Options, check_text, conversation
from bon.service.errors import ApiError
from bon.service.online.backend import charged_to
from bon.service.online.selector import Choice, Selector, Usage
from bon.service.server.state import Service

router = APIRouter(prefix="/v1", tags=["online"], responses=ONLINE_ERRORS)
T = TypeVar("T")
MAX_CANDIDATES = 64
"""Of one online request: a judge of pairs reads them 4,032 times."""
SHOWN_CHARS = 100_000_000
"""Of candidates, as often as the comparisons of a group show them: minutes of a small judge."""
CLIENT_CLOSED = 499
"""The status in logs of a request whose client hung up; nobody receives it."""


class ScoreRequest(BaseModel):
    """Judge given candidates."""

    model_config = ConfigDict(extra="forbid")
    rewarder: str = Field(max_length=200)
    messages: Messages
    candidates: list[str] = Field(min_length=1)
    options: Options = Field(default_factory=list)
    rule: str | None = Field(None, max_length=50)


@router.post("/score")
@router.post("/rank")
async def rank(body: ScoreRequest, request: Request, identity: Submitter) -> dict[str, Any]:
    """Score the candidates and rank them from best to worst, with every judgement."""
    selector, usage = selector_of(request), Usage()
    rewarder, texts = body.rewarder, body.candidates
    rule = judging_rule(selector, rewarder, body.rule)
    if len(texts) > MAX_CANDIDATES:
        raise ApiError(413, f"{len(texts)} candidates", f"at most {MAX_CANDIDATES}")
    for text in texts:
        check_text(text, "a candidate")
    check_shown(selector, rewarder, len(texts), sum(map(len, texts)))
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
        "judgements": judgements_of(choice),
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
) -> T:
    """Run the work within the time limit and the owner's budget, while its client waits."""
    service: Service = request.app.state.service
    owner, budget = request.scope["identity"].name, service.budget
    if any(card.is_paid for card in cards) and not await asyncio.to_thread(budget.left, owner):
        raise ApiError(402, "your share of this server's money is spent", "ask its operator")
    seconds = service.settings.limits.request_seconds

    async def disconnected() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    with charged_to(budget.account(owner)):
        task = asyncio.create_task(work())
    closed = asyncio.create_task(disconnected())
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


def judging_rule(selector: Selector, rewarder: str, rule: str | None) -> str:
    """Return the rule for given responses, which have no sampled answers to count."""
    name = selector.rule(rewarder, rule)
    if RULES[name].answers:
        raise ApiError(422, f"the rule {name} counts sampled answers", "use /v1/chat/completions")
    return name


def check_shown(selector: Selector, rewarder: str, texts: int, characters: int) -> None:
    """Refuse texts that a judge would read again and again for minutes."""
    shown = 0
    for name in selector.members(rewarder):
        times = 2 * (texts - 1) if selector.kind(name) == "preferences" else 1
        shown += characters * selector.rewarder(name).card.votes * times
    if shown > SHOWN_CHARS:
        fix = f"at most {SHOWN_CHARS:,}: send less"
        raise ApiError(413, f"{rewarder} would be shown {shown:,} characters", fix)


def judgements_of(choice: Choice) -> list[dict[str, Any]]:
    """Return raw judgements; `shown` holds the candidates' indices in the order shown."""
    keys = [*map(text_key, choice.texts)]
    index = {key: keys.index(key) for key in keys}
    fields = ("rewarder", "vote", "outcome", "score", "text", "error", "num_tokens")
    return [
        {"shown": [index[key] for key in shown_of(row)]}
        | {name: getattr(row, name) for name in fields}
        for row in choice.judgements
    ]
