"""The online selector: score, rank, best of n."""

from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from bon.choosing.opinion import shown_of
from bon.choosing.rules import RULES
from bon.policies.ask import text_key
from bon.service.api.answering import answered, selector_of
from bon.service.api.chatting import (
    EXAMPLE_MESSAGES,
    Messages,
    as_question,
    check_text,
    conversation,
)
from bon.service.api.common import Parts, Problem, Submitter
from bon.service.api.validations import ERRORS as COMMON_ERRORS
from bon.service.online import Choice, Conversation, Selector, Usage
from bon.service.settings import Settings

router = APIRouter(prefix="/v1", tags=["online"])
T = TypeVar("T")
ERRORS: dict[int | str, dict[str, Any]] = {
    **COMMON_ERRORS,
    502: {"description": "The model failed."},
    503: {"description": "No online models."},
    504: {"description": "Not in time."},
}
Option = Annotated[str, Field(max_length=10_000)]


class Closed(BaseModel):
    """Unknown fields are an error."""

    model_config = ConfigDict(extra="forbid")


class ScoreRequest(Closed):
    """Judge given candidates."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "rewarder": "judge",
                    "messages": EXAMPLE_MESSAGES,
                    "candidates": ["It is red.", "It is blue."],
                }
            ]
        },
    )
    rewarder: str = Field(max_length=200)
    messages: Messages
    candidates: list[str] = Field(min_length=1)
    options: list[Option] = Field(default_factory=list, max_length=26)
    rule: str | None = Field(None, max_length=50)


class BestOfNRequest(Closed):
    """Sample n candidates of a policy and let a rewarder choose."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "policy": "policy",
                    "rewarder": "judge",
                    "messages": EXAMPLE_MESSAGES,
                    "options": ["Red", "Green", "Blue"],
                    "n": 4,
                }
            ]
        },
    )
    policy: str = Field(max_length=200)
    rewarder: str = Field(max_length=200)
    messages: Messages
    options: list[Option] = Field(default_factory=list, max_length=26)
    n: int = Field(8, ge=1)
    rule: str | None = Field(None, max_length=50)
    seed: int = Field(0, ge=0, lt=2**63)


async def score_candidates(
    asked: ScoreRequest, request: Request, settings: Settings
) -> dict[str, Any]:
    """A number for each candidate, in their order, with every judgement."""
    usage = Usage()
    choice = await _judge(asked, request, settings, usage)
    return {
        "rewarder": asked.rewarder,
        "scores": choice.ranking.scores,
        "judgements": judgements(choice),
        "usage": usage.shown(),
    }


@router.post("/rank", responses=ERRORS)
async def rank(
    asked: ScoreRequest, request: Request, service: Parts, _: Submitter
) -> dict[str, Any]:
    """The candidates from best to worst under a rule."""
    usage = Usage()
    choice = await _judge(asked, request, service.settings, usage)
    return {
        "rewarder": asked.rewarder,
        "rule": choice.ranking.rule,
        "chosen": choice.ranking.best,
        "order": choice.ranking.order,
        "scores": choice.ranking.scores,
        "probabilities": choice.ranking.probabilities,
        "judgements": judgements(choice),
        "usage": usage.shown(),
    }


@router.post("/best-of-n", responses=ERRORS)
async def best_of_n(
    asked: BestOfNRequest, request: Request, service: Parts, _: Submitter
) -> dict[str, Any]:
    """The chosen answer, with all candidates and their judgements.

    With `options` the question is asked with the policy's own prompt and its answer letters are
    read, as in the validation of that policy; without, the messages go to it as they are.
    """
    selector = selector_of(request)
    usage = Usage()
    messages = await conversation(asked.messages, service.settings)
    if asked.options:
        policy_of(selector, asked.policy)
        messages = as_question(messages, asked.options, asked.policy, selector, service.settings)
    choice, candidates = await select(
        request,
        policy=asked.policy,
        rewarder=asked.rewarder,
        rule=asked.rule,
        messages=messages,
        n=asked.n,
        seed=asked.seed,
        usage=usage,
    )
    return {
        "policy": asked.policy,
        "rewarder": asked.rewarder,
        "rule": choice.ranking.rule,
        "n": asked.n,
        "chosen": choice.ranking.best,
        "answer": choice.answers[choice.ranking.best],
        "text": choice.texts[choice.ranking.best],
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
            for row, answer, score, probability in zip(
                candidates,
                choice.answers,
                choice.ranking.scores,
                choice.ranking.probabilities,
                strict=True,
            )
        ],
        "judgements": judgements(choice),
        "usage": usage.shown(),
    }


# ------------------------------------------------------------------ inside


def policy_of(selector: Selector, name: str) -> None:
    """Check a policy's name."""
    try:
        selector.policy(name)
    except LookupError as error:
        raise Problem(404, str(error.args[0])) from None


def check_rule(selector: Selector, rewarder: str, rule: str | None) -> str:
    """Check a rewarder's name and the rule."""
    if rewarder not in selector.rewarders:
        try:
            selector.rewarder(rewarder)
        except LookupError as error:
            raise Problem(404, str(error.args[0])) from None
    try:
        return selector.rule(rewarder, rule)
    except LookupError as error:
        raise Problem(422, str(error.args[0])) from None


async def select(
    request: Request,
    *,
    policy: str,
    rewarder: str,
    rule: str | None,
    messages: Conversation,
    n: int,
    seed: int,
    usage: Usage,
) -> tuple[Choice, list[Any]]:
    """Sample and choose; the one way in which both APIs do it."""
    selector, settings = selector_of(request), request.app.state.service.settings
    policy_of(selector, policy)
    chosen_by = check_rule(selector, rewarder, rule)
    if RULES[chosen_by].answers and not messages.options:
        raise Problem(422, f"the rule {chosen_by} needs `options`: it counts answer letters")
    if n > settings.limits.candidates:
        raise Problem(422, f"n is {n}", f"at most {settings.limits.candidates}")

    try:
        scale = selector.scale(policy, rewarder, chosen_by)
    except LookupError as error:
        raise Problem(422, str(error.args[0])) from None

    async def work() -> tuple[Choice, list[Any]]:
        rows = await selector.sample(policy, messages, n, seed, usage)
        answers = [row.answer if messages.options else None for row in rows]
        texts = [row.text for row in rows]
        choice = await selector.choose(rewarder, chosen_by, messages, texts, usage, answers, scale)
        return choice, rows

    cards = [selector.policy(policy).card, selector.rewarder(rewarder).card]
    return await answered(request, cards, work, usage)


async def _judge(asked: ScoreRequest, request: Request, settings: Settings, usage: Usage) -> Choice:
    selector = selector_of(request)
    rule = check_rule(selector, asked.rewarder, asked.rule)
    if RULES[rule].answers:
        raise Problem(422, f"the rule {rule} counts sampled answers", "use /v1/best-of-n")
    if len(asked.candidates) > settings.limits.candidates:
        most = settings.limits.candidates
        raise Problem(413, f"{len(asked.candidates)} candidates", f"at most {most}")
    for text in asked.candidates:
        check_text(text, "a candidate", settings)
    characters, most = sum(map(len, asked.candidates)), settings.limits.shown_chars
    check_shown(selector, asked.rewarder, len(asked.candidates), characters, most)
    messages = await conversation(asked.messages, settings)
    if asked.options:
        messages = as_question(messages, asked.options, None, selector, settings)
    return await answered(
        request,
        [selector.rewarder(asked.rewarder).card],
        lambda: selector.choose(asked.rewarder, rule, messages, asked.candidates, usage),
        usage,
    )


def check_shown(selector: Selector, rewarder: str, texts: int, characters: int, most: int) -> None:
    """Refuse what would have a judge read the same texts again and again for minutes."""
    times = 2 * (texts - 1) if selector.kind(rewarder) == "preferences" else 1
    shown = characters * times * selector.rewarder(rewarder).card.votes
    if shown > most:
        raise Problem(
            413, f"{rewarder} would be shown {shown:,} characters", f"at most {most:,}: send less"
        )


def judgements(choice: Choice) -> list[dict[str, Any]]:
    """The raw judgements; `shown` are places of candidates in the order they were shown."""
    places: dict[str, int] = {}
    for at, text in enumerate(choice.texts):
        places.setdefault(text_key(text), at)
    return [
        {
            "shown": [places[key] for key in shown_of(row)],
            "vote": row.vote,
            "outcome": row.outcome,
            "score": row.score,
            "text": row.text,
            "error": row.error,
            "num_tokens": row.num_tokens,
        }
        for row in choice.judgements
    ]
