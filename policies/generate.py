"""One policy on one question: sample the missing candidates and extract their answers."""

from dataclasses import dataclass, replace

from bon.core.errors import one_line
from bon.core.keys import content_key, item_seed, text_key
from bon.core.records import Candidate
from bon.core.text import option_letters
from bon.engines.base import Engine, GenerateRequest, Generation, Message, Sample, call_for_all
from bon.experiment.config import PolicyCard
from bon.policies.extractors import extract_answer


@dataclass(frozen=True, slots=True)
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
    seeds = _seeds(spec, ask)
    index_of = dict(zip(seeds, ask.missing, strict=True))

    async def call(seeds: tuple[int, ...]) -> list[Candidate]:
        part = replace(ask, missing=tuple(index_of[seed] for seed in seeds))
        request = GenerateRequest(ask.messages, card.sampling, seeds, choices=letters)
        return _rows(card, spec, part, await engine.generate(request))

    rows, left, failure = await call_for_all(call, seeds, retries)
    if failure is None:
        return rows
    missing = replace(ask, missing=tuple(index_of[seed] for seed in left))
    return rows + give_up(card, spec, missing, one_line(failure))


def give_up(card: PolicyCard, spec: str, ask: Ask, error: str) -> list[Candidate]:
    """File the missing candidates of a question as rows of outcome `error`."""
    failed = Generation((Sample("", 0, finish="error"),) * len(ask.missing), 0)
    rows = _rows(card, spec, ask, failed)
    return [row._replace(answer=None, outcome="error", finish="", error=error) for row in rows]


def _rows(card: PolicyCard, spec: str, ask: Ask, generation: Generation) -> list[Candidate]:
    seeds = _seeds(spec, ask)
    texts = {sample.text for sample in generation.samples}  # many are the same
    answers = {
        text: (
            text_key(text),
            *extract_answer(
                text, ask.options, card.extractor, grader=ask.grader, question=ask.asked
            ),
        )
        for text in texts
    }
    cost = generation.cost / len(seeds)
    read, rows = generation.num_prompt_tokens, []
    for index, seed, sample in zip(ask.missing, seeds, generation.samples, strict=True):
        shared_key, answer, outcome = answers[sample.text]
        # By position: twice as fast as by name.
        name = candidate_key(spec, ask.question, index), ask.question, card.name, spec, index
        reply = sample.text, shared_key, answer, outcome, seed, sample.logprob, sample.num_tokens
        rows.append(Candidate(*(name + reply), read, sample.finish, cost=cost))
    return rows


def _seeds(spec: str, ask: Ask) -> tuple[int, ...]:
    # Consecutive, so that vLLM draws all samples of one request from the first seed.
    first = item_seed(spec, ask.question)
    return tuple(first + index for index in ask.missing)
