"""One policy on one question: sample the missing candidates and extract their answers."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from bon.core.errors import one_line
from bon.core.keys import content_key, item_seed, text_key
from bon.core.records import Candidate
from bon.core.text import option_letters
from bon.engines.base import Engine, GenerateRequest, Generation, Message, Sample, call_for_all
from bon.experiment.config import PolicyCard
from bon.policies.extractors import extract_answer, was_cut


@dataclass(frozen=True)  # no slots: they pickle in twice the time
class Ask:
    """A rendered question and the indices of its missing candidates.

    `options` are empty where the answer is free: `grader` and text (`asked`) say what is read.
    `answer_key`: the correct answer, for a policy on the echo engine only; None for all others.
    """

    question: str
    messages: tuple[Message, ...]
    options: tuple[str, ...]
    missing: tuple[int, ...]
    answer_key: str | None = None
    grader: str = ""
    asked: str = ""


def candidate_key(spec: str, question: str, index: int) -> str:
    """Return the key of a candidate."""
    return content_key("candidate", spec, question, index)


async def sample(
    engine: Engine, card: PolicyCard, spec: str, retries: int, ask: Ask
) -> list[Candidate]:
    """Sample one candidate per missing index; a failing engine gives rows of outcome `error`."""
    letters = tuple(option_letters(ask.options)) if ask.options else ()
    # Consecutive, so that vLLM draws all samples of one request from the first seed.
    first = item_seed(spec, ask.question)

    async def call(seeds: tuple[int, ...]) -> list[Candidate]:
        request = GenerateRequest(ask.messages, card.sampling, seeds, choices=letters)
        return _rows(card, spec, ask, first, seeds, await engine.generate(request))

    seeds = tuple([first + index for index in ask.missing])
    rows, left, failure = await call_for_all(call, seeds, retries)
    if failure is None:
        return rows
    failed = Generation((Sample("", 0, finish="error"),) * len(left), 0)
    return rows + [
        row._replace(answer=None, outcome="error", finish="", error=one_line(failure))
        for row in _rows(card, spec, ask, first, left, failed)
    ]


def _rows(
    card: PolicyCard, spec: str, ask: Ask, first: int, seeds: Sequence[int], generation: Generation
) -> list[Candidate]:
    replies = [(s.text, was_cut(s.finish, s.num_tokens)) for s in generation.samples]
    asked = partial(
        extract_answer,
        options=ask.options, mode=card.extractor, grader=ask.grader, question=ask.asked,
    )  # fmt: skip
    # Many are the same.
    answers = {row: (text_key(row[0]), *asked(row[0], cut=row[1])) for row in set(replies)}
    cost = generation.cost / len(seeds)
    read, rows = generation.num_prompt_tokens, []
    for seed, sample, reply_read in zip(seeds, generation.samples, replies, strict=True):
        shared_key, answer, outcome = answers[reply_read]
        # By position: twice as fast as by name.
        index = seed - first
        name = candidate_key(spec, ask.question, index), ask.question, card.name, spec, index
        reply = sample.text, shared_key, answer, outcome, seed, sample.logprob, sample.num_tokens
        rows.append(Candidate(*(name + reply), read, sample.finish, cost=cost))
    return rows
