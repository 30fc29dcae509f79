"""One policy on one question: sample the missing candidates and read their answers."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from bon.core.errors import BonError, one_line
from bon.core.keys import content_key, content_keys, item_seed
from bon.core.records import AnswerOutcome, Candidate, travels
from bon.engines.base import Engine, GenerateRequest, Message
from bon.experiment.config import PolicyCard
from bon.policies.reader import read_answer


@travels
@dataclass(frozen=True, slots=True)
class Ask:
    """A question as a policy is asked it: rendered, with the places still to be filled."""

    question: str
    messages: tuple[Message, ...]
    options: tuple[str, ...]
    answer: str | None
    missing: tuple[int, ...]


@lru_cache(maxsize=1024)
def text_key(text: str) -> str:
    """Identical texts are one response; a bare letter is the text of many."""
    return content_key("text", text)


def candidate_key(spec: str, question: str, index: int) -> str:
    """Identity of a candidate."""
    return candidate_keys(spec, question, (index,))[0]


def candidate_keys(spec: str, question: str, indices: Iterable[int]) -> list[str]:
    """Identities of candidates of one question."""
    return content_keys("candidate", spec, question, last=indices)


async def sample(
    engine: Engine, card: PolicyCard, spec: str, retries: int, ask: Ask
) -> list[Candidate]:
    """One candidate for each missing index; a failing engine gives rows of outcome `error`."""
    seeds = _seeds(spec, ask)
    letters = tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ"[: len(ask.options)])
    request = GenerateRequest(
        ask.messages, card.sampling, seeds, choices=letters, expected=ask.answer
    )
    error = ""
    for _ in range(retries + 1):
        try:
            generation = await engine.generate(request)
            break
        except BonError:
            raise
        except Exception as failure:
            error = one_line(failure)
    else:
        return give_up(card, spec, ask, error)
    keys = candidate_keys(spec, ask.question, ask.missing)
    texts = {drawn.text for drawn in generation.samples}  # many of them are the same
    known = {text: (text_key(text), *read(text, ask.options, card.reader)) for text in texts}
    cost = generation.cost / len(seeds)
    rows = []
    for key, index, one_seed, drawn in zip(
        keys, ask.missing, seeds, generation.samples, strict=True
    ):
        shared, answer, outcome = known[drawn.text]
        rows.append(
            Candidate(  # by place, in half the time that names take
                key,
                ask.question,
                card.name,
                spec,
                index,
                drawn.text,
                shared,
                answer,
                outcome,
                one_seed,
                drawn.logprob,
                drawn.num_tokens,
                generation.num_prompt_tokens,
                drawn.finish,
                cost=cost,
            )
        )
    return rows


def give_up(card: PolicyCard, spec: str, ask: Ask, error: str) -> list[Candidate]:
    """The missing candidates of a question as rows of outcome `error`."""
    return [
        Candidate(
            key=key,
            question=ask.question,
            policy=card.name,
            spec=spec,
            index=index,
            text="",
            text_key=text_key(""),
            answer=None,
            outcome="error",
            seed=seed,
            error=error,
        )
        for key, index, seed in zip(
            candidate_keys(spec, ask.question, ask.missing),
            ask.missing,
            _seeds(spec, ask),
            strict=True,
        )
    ]


def _seeds(spec: str, ask: Ask) -> tuple[int, ...]:
    # Consecutive, so that an engine that counts up from one seed serves all n in one request.
    first = item_seed(spec, ask.question)
    return tuple(first + index for index in ask.missing)


def read(text: str, options: Sequence[str], mode: str) -> tuple[str | None, AnswerOutcome]:
    """The answer letter of a text and how reading it went."""
    reading = read_answer(text, options, "strict" if mode == "strict" else "official")
    return reading.letter, reading.outcome
