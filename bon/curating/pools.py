"""Candidate pools: the distinct right and wrong texts of each question, after the filters.

A question of several runs is one pool; equal texts are one text, whichever policy wrote them.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from bon.analysis.results.record import Record
from bon.benchmarks.leaks import find_leaks, plain
from bon.core.keys import content_key
from bon.core.records import Candidate, ImageRef, Question
from bon.curating.items import Split
from bon.curating.judged_runs import JudgedRun
from bon.formats.score_tables import WITHOUT_TEXT
from bon.graders import grades_of

T = TypeVar("T")


class FilterCount(Record):
    """Number of rows before and after a filter."""

    filter: str
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class PooledText:
    """One text that answers a question, and the policies that wrote it."""

    key: str
    text: str
    answer: str
    correct: bool
    policies: tuple[str, ...]


@dataclass(frozen=True)
class QuestionPool:
    """A question and its texts, sorted by key; `votes`: candidates per answer, by policy."""

    question: Question
    texts: tuple[PooledText, ...]
    votes: dict[str, Counter[str]]

    @property
    def right(self) -> list[int]:
        """Indices of the right texts."""
        return [index for index, text in enumerate(self.texts) if text.correct]

    @property
    def wrong(self) -> list[int]:
        """Indices of the wrong texts."""
        return [index for index, text in enumerate(self.texts) if not text.correct]


@dataclass
class Pools:
    """Pools by question key, and what each filter left."""

    by_question: dict[str, QuestionPool] = field(default_factory=dict)
    counts: list[FilterCount] = field(default_factory=list)

    def keep(self, name: str, rows: Iterable[T], test: Callable[[T], bool]) -> list[T]:
        """Apply a filter and count what it leaves."""
        rows = list(rows)
        kept = [row for row in rows if test(row)]
        self.counts.append(FilterCount(filter=name, before=len(rows), after=len(kept)))
        return kept


def build_pools(runs: Sequence[JudgedRun]) -> Pools:
    """Build the filtered pools of the runs."""
    pools = Pools()
    questions = _questions(runs, pools)
    rows = _candidates({question.key for question in questions}, runs, pools)
    built = [_pool(question, rows.get(question.key, [])) for question in questions]
    mixed = pools.keep(
        "questions with a right and a wrong answer",
        built,
        lambda pool: bool(pool.right and pool.wrong),
    )
    pools.by_question = {pool.question.key: pool for pool in mixed}
    return pools


def signature(texts: Iterable[str], images: Iterable[ImageRef]) -> str:
    """Return a key of a question's text (with its options) and images, whichever set holds it."""
    return content_key("question of", plain("\n".join(texts)), sorted(i.sha256 for i in images))


def signature_of(question: Question) -> str:
    """Return the signature of a question of a run."""
    return signature([question.text, *question.options], question.images)


def split_of(signature: str, seed: int, held_out: float) -> Split:
    """Assign a question to a split by a seeded hash of its signature."""
    share = int(content_key("split", seed, signature)[:12], 16) / 16**12
    return "held-out" if share < held_out else "public"


def _questions(runs: Sequence[JudgedRun], pools: Pools) -> list[Question]:
    asked = {q.key: q for run in reversed(runs) for q in run.store.questions()}
    rows = [asked[key] for key in sorted(asked)]
    rows = pools.keep("questions with a gold answer", rows, lambda q: q.answer is not None)
    every = {question.key: question for question in rows}
    pairs = (pair for run in runs for _, pair in run.store.pairs())
    leaked = {leak.question for leak in find_leaks(list(every.values()), pairs)}
    first = {signature_of(question): question.key for question in reversed(rows)}
    copies = every.keys() - first.values()
    rows = pools.keep(
        "questions with their images", rows, lambda q: all(Path(i.path).is_file() for i in q.images)
    )
    rows = pools.keep("questions that occur once", rows, lambda q: q.key not in copies)
    return pools.keep("questions of no reward benchmark", rows, lambda q: q.key not in leaked)


def _candidates(
    questions: set[str], runs: Sequence[JudgedRun], pools: Pools
) -> dict[str, list[Candidate]]:
    unique = {
        row.key: row
        for run in runs
        for question in run.store.questions()
        if question.key in questions
        for row in run.setup.candidates(run.store, question.key)
    }
    rows = pools.keep(
        "answers with a text",
        unique.values(),
        lambda row: row.outcome != "error" and row.finish != WITHOUT_TEXT,
    )
    rows = pools.keep("answers that were extracted", rows, lambda row: row.outcome == "parsed")
    rows = pools.keep("answers that were not cut off", rows, lambda row: row.finish != "length")
    by_question: dict[str, list[Candidate]] = {}
    for row in rows:
        by_question.setdefault(row.question, []).append(row)
    return by_question


def _pool(question: Question, rows: Sequence[Candidate]) -> QuestionPool:
    by_text: dict[str, list[Candidate]] = {}
    credit: dict[str, set[float]] = {}
    answers: dict[str, str] = {}
    votes: dict[str, Counter[str]] = {}
    for row, grade in zip(rows, grades_of(question, rows), strict=True):
        by_text.setdefault(row.text_key, []).append(row)
        credit.setdefault(row.text_key, set()).add(grade.credit)
        answers.setdefault(row.text_key, grade.answer or "")
        if grade.answer is not None:
            votes.setdefault(row.policy, Counter())[grade.answer] += 1
    texts = tuple(
        PooledText(
            key,
            copies[0].text,
            answers[key],
            credit[key] == {1},
            tuple(sorted({row.policy for row in copies})),
        )
        for key, copies in sorted(by_text.items())
        if credit[key] in ({0}, {1})  # partly right, or read in two ways: in no pair
    )
    return QuestionPool(question, texts, votes)
