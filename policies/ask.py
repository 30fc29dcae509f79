"""One policy on one question: sample the missing candidates and read their answers."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from bon.config import PolicyCard
from bon.engines.base import Engine, GenerateRequest, Message
from bon.errors import BonError
from bon.keys import content_key, item_seed
from bon.policies.reader import read_answer
from bon.records import AnswerOutcome, Candidate


@dataclass(frozen=True, slots=True)
class Ask:
    """A question as a policy is asked it: rendered, with the places still to be filled."""

    question: str
    messages: tuple[Message, ...]
    options: tuple[str, ...]
    answer: str | None
    missing: tuple[int, ...]


def text_key(text: str) -> str:
    """Identical texts are one response."""
    return content_key("text", text)


def candidate_key(spec: str, question: str, seed: int | None, index: int) -> str:
    """Identity of a candidate; `seed` is the experiment's, None for greedy decoding."""
    return content_key("candidate", spec, question, seed, index)


async def sample(
    engine: Engine, card: PolicyCard, spec: str, seed: int, retries: int, ask: Ask
) -> list[Candidate]:
    """One candidate for each missing index; a failing engine gives rows of outcome `error`."""
    seeds = tuple(item_seed(seed, spec, ask.question, index) for index in ask.missing)
    letters = tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ"[: len(ask.options)])
    request = GenerateRequest(
        ask.messages, card.sampling.build(), seeds, choices=letters, expected=ask.answer
    )
    key_seed = seed if card.sampling.temperature > 0 else None
    started = time.perf_counter()
    error = ""
    for _ in range(retries + 1):
        try:
            generation = await engine.generate(request)
            break
        except BonError:
            raise
        except Exception as failure:
            error = f"{type(failure).__name__}: {' '.join(str(failure).split())}"[:500]
    else:
        return [
            Candidate(
                key=candidate_key(spec, ask.question, key_seed, index),
                question=ask.question,
                policy=card.name,
                spec=spec,
                index=index,
                text="",
                text_key=text_key(""),
                answer=None,
                outcome="error",
                seed=one_seed,
                error=error,
            )
            for index, one_seed in zip(ask.missing, seeds, strict=True)
        ]
    seconds = (time.perf_counter() - started) / len(seeds)
    rows = []
    for index, one_seed, drawn in zip(ask.missing, seeds, generation.samples, strict=True):
        answer, outcome = read(drawn.text, ask.options, card.reader)
        rows.append(
            Candidate(
                key=candidate_key(spec, ask.question, key_seed, index),
                question=ask.question,
                policy=card.name,
                spec=spec,
                index=index,
                text=drawn.text,
                text_key=text_key(drawn.text),
                answer=answer,
                outcome=outcome,
                seed=one_seed,
                logprob=drawn.logprob,
                num_tokens=drawn.num_tokens,
                num_prompt_tokens=generation.num_prompt_tokens,
                finish=drawn.finish,
                seconds=seconds,
            )
        )
    return rows


def read(text: str, options: Sequence[str], mode: str) -> tuple[str | None, AnswerOutcome]:
    """The answer letter of a text and how reading it went."""
    reading = read_answer(text, options, "strict" if mode == "strict" else "official")
    return reading.letter, reading.outcome
