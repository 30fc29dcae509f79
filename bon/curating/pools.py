"""Candidate pools: the distinct right and wrong texts of each question, after the filters.

A question of several runs is one pool; equal texts are one text, whichever policy wrote them.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Literal, TypeVar

from bon.analysis.results.record import Record
from bon.benchmarks.leaks import find_leaks, plain
from bon.core.keys import content_key
from bon.core.records import Candidate, Question
from bon.core.text import LETTERS
from bon.curating.items import Split
from bon.curating.judged_runs import JudgedRun
from bon.curating.recipe import Filters
from bon.formats.score_tables import WITHOUT_TEXT
from bon.graders import Grade, grades_of

Unit = Literal["questions", "candidates", "pairs"]
T = TypeVar("T")
Steps = Iterable[tuple[str, bool, Callable[[T], bool]]]
"""Filters: name, whether it is switched on, predicate of what it keeps."""

_WORD = re.compile(r"\w+")
_IMAGE = re.compile(r"<image(?: \d+)?>")


class FilterCount(Record):
    """Number of questions or candidates before and after a filter."""

    filter: str
    unit: Unit
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
    """A question and its texts, sorted by key; `run` is the first that contains it.

    votes: number of candidates per answer, by policy.
    """

    run: str
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

    def count(self, name: str, unit: Unit, before: int, after: int) -> None:
        """Record the counts of a filter."""
        self.counts.append(FilterCount(filter=name, unit=unit, before=before, after=after))

    def filter(self, rows: list[T], unit: Unit, steps: Steps[T]) -> list[T]:
        """Apply the filters that are switched on, one after the other."""
        for name, active, keeps in steps:
            if active:
                before, rows = len(rows), [row for row in rows if keeps(row)]
                self.count(name, unit, before, len(rows))
        return rows


def build_pools(runs: Sequence[JudgedRun], filters: Filters) -> Pools:
    """Build the filtered pools of the runs."""
    first: dict[str, tuple[str, Question]] = {}
    for run in runs:
        for question in run.store.questions():
            if question.answer is not None:
                first.setdefault(question.key, (run.name, question))
    pools = Pools()
    questions = _filter_questions([q for _, q in first.values()], runs, filters, pools)
    rows = _candidates({question.key for question in questions}, runs, filters, pools)
    built = {q.key: _pool(first[q.key][0], q, rows.get(q.key, [])) for q in questions}
    mixed = {key: pool for key, pool in built.items() if pool.right and pool.wrong}
    pools.count("no right and wrong text", "questions", len(built), len(mixed))
    pools.by_question = dict(sorted(mixed.items()))
    return pools


def signature(question: Question) -> str:
    """Return a key of text, options and images, independent of the dataset."""
    text = plain("\n".join([question.text, *question.options]))
    return content_key("question of", text, sorted(image.sha256 for image in question.images))


def split_of(question: str, seed: int, held_out: float) -> Split:
    """Assign a question to a split by a seeded hash of its signature."""
    share = int(content_key("split", seed, question)[:12], 16) / 16**12
    return "held-out" if share < held_out else "public"


def states_answer(question: Question) -> bool:
    """Whether the text, apart from the options, names the right option and no other.

    Numbers do not count: a number in a question often equals an option by chance.
    """
    text = _words(question.text)
    named = [
        index
        for index, option in enumerate(question.options)
        if re.search(r"[^\W\d_]{2}", words := _words(option)) and words in text
    ]
    return named == [LETTERS.find(question.answer or "?")]


def _words(text: str) -> str:
    return f" {' '.join(_WORD.findall(_IMAGE.sub(' ', text).lower()))} "


def _filter_questions(
    questions: Sequence[Question], runs: Sequence[JudgedRun], filters: Filters, pools: Pools
) -> list[Question]:
    seen: set[str] = set()

    def is_new(question: Question) -> bool:
        before = len(seen)
        seen.add(signature(question))
        return len(seen) > before

    pairs = chain.from_iterable(run.store.pairs() for run in runs)
    leaked = {leak.question for leak in find_leaks(questions, (pair for _, pair in pairs))}
    steps: Steps[Question] = (
        ("missing images", filters.missing_images,
         lambda q: all(Path(image.path).is_file() for image in q.images)),
        ("duplicates", filters.duplicates, is_new),
        ("leaks", filters.leaks, lambda q: q.key not in leaked),
        ("answer visible", filters.answer_visible, lambda q: not states_answer(q)),
    )  # fmt: skip
    return pools.filter(sorted(questions, key=lambda q: q.key), "questions", steps)


def _candidates(
    questions: set[str], runs: Sequence[JudgedRun], filters: Filters, pools: Pools
) -> dict[str, list[Candidate]]:
    unique = {
        row.key: row
        for run in runs
        for policy in run.setup.policies
        for question in run.store.questions()
        if question.key in questions
        for row in run.store.candidates(policy.spec, question.key, policy.card.n)
    }
    answers: defaultdict[tuple[str, str], set[str | None]] = defaultdict(set)
    for row in unique.values():
        answers[row.question, row.text_key].add(row.answer)
    steps: Steps[Candidate] = (
        ("no text", True, lambda row: row.outcome != "error" and row.finish != WITHOUT_TEXT),
        ("unread", filters.unread, lambda row: row.outcome == "parsed"),
        ("read in two ways", True, lambda row: len(answers[row.question, row.text_key]) == 1),
        ("truncated", filters.truncated, lambda row: row.finish != "length"),
    )
    rows = pools.filter(list(unique.values()), "candidates", steps)
    texts = {(row.question, row.text_key) for row in rows}
    pools.count("equal texts", "candidates", len(rows), len(texts))
    by_question: dict[str, list[Candidate]] = {}
    for row in rows:
        by_question.setdefault(row.question, []).append(row)
    return by_question


def _pool(run: str, question: Question, rows: Iterable[Candidate]) -> QuestionPool:
    by_text: dict[str, list[Candidate]] = {}
    votes: dict[str, Counter[str]] = {}
    rows = list(rows)
    grades: dict[str, Grade] = {}
    for row, grade in zip(rows, grades_of(question, rows), strict=True):
        by_text.setdefault(row.text_key, []).append(row)
        grades.setdefault(row.text_key, grade)
        if grade.answer is not None:
            votes.setdefault(row.policy, Counter())[grade.answer] += 1
    texts = tuple(
        PooledText(
            key,
            copies[0].text,
            grades[key].answer or "",
            grades[key].right,
            tuple(sorted({row.policy for row in copies})),
        )
        for key, copies in sorted(by_text.items())
        if grades[key].credit in (0, 1)  # partly right ones belong to no pair
    )
    return QuestionPool(run, question, texts, votes)
