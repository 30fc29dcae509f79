"""The pools: of each question its different candidate texts, right and wrong, after the filters.

Every filter says how much came in and how much it left. A question that several runs ask is one
pool: equal texts are one text, whoever wrote it.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from bon.benchmarks.leaks import find_leaks, plain
from bon.core.keys import content_key
from bon.core.records import Candidate, Question
from bon.curating.items import Split
from bon.curating.judged_runs import JudgedRun
from bon.curating.proposal import FilterCount, Unit
from bon.curating.wanted import Filters
from bon.experiment.letters import LETTERS
from bon.formats.tabled import WITHOUT_TEXT
from bon.running.work import CandidatePool

_WORD = re.compile(r"\w+")
_IMAGE = re.compile(r"<image(?: \d+)?>")


@dataclass(frozen=True, slots=True)
class PooledText:
    """One text that answers a question, and every policy that gave it."""

    key: str
    text: str
    answer: str
    correct: bool
    policies: tuple[str, ...]


@dataclass(frozen=True)
class QuestionPool:
    """A question with its texts, sorted by their keys; `run` is the first that asks it.

    `votes`: of each policy how many of its candidates gave each answer.
    """

    run: str
    question: Question
    texts: tuple[PooledText, ...]
    votes: dict[str, Counter[str]]

    @property
    def right(self) -> list[int]:
        """Places of the right texts."""
        return [place for place, one in enumerate(self.texts) if one.correct]

    @property
    def wrong(self) -> list[int]:
        """Places of the wrong texts."""
        return [place for place, one in enumerate(self.texts) if not one.correct]


@dataclass
class Pools:
    """What can be drawn from, by question key, and how it came to be."""

    by_question: dict[str, QuestionPool]
    counts: list[FilterCount] = field(default_factory=list)

    def count(self, name: str, unit: Unit, before: int, after: int) -> None:
        """Note what a filter did."""
        self.counts.append(FilterCount(filter=name, unit=unit, before=before, after=after))


def pools(runs: Sequence[JudgedRun], wanted: Filters) -> Pools:
    """The pools of the runs, filtered."""
    asked: dict[str, tuple[str, Question]] = {}
    for run in runs:
        for question in run.store.questions():
            if question.answer is not None:
                asked.setdefault(question.key, (run.name, question))
    found = Pools({})
    questions = _questions([question for _, question in asked.values()], runs, wanted, found)
    rows = _candidates({question.key for question in questions}, runs, wanted, found)
    for question in questions:
        name, _ = asked[question.key]
        found.by_question[question.key] = _pool(name, question, rows.get(question.key, []))
    mixed = {key: one for key, one in found.by_question.items() if one.right and one.wrong}
    found.count("no right and wrong text", "questions", len(found.by_question), len(mixed))
    found.by_question = dict(sorted(mixed.items()))
    return found


def signature(question: Question) -> str:
    """The same for questions with the same text, options and images, whatever their dataset."""
    said = plain("\n".join([question.text, *question.options]))
    return content_key("question of", said, sorted(image.sha256 for image in question.images))


def split_of(question: Question, seed: int, held_out: float) -> Split:
    """Where a question belongs, by a seeded hash of what it says: its copies go with it."""
    share = int(content_key("split", seed, signature(question))[:12], 16) / 16**12
    return "held-out" if share < held_out else "public"


def says_answer(question: Question) -> bool:
    """Whether its text, options apart, names the right option and no other.

    Numbers are not names: what a question counts with is often an option by chance.
    """
    text = _words(question.text)
    right = LETTERS.find(question.answer or "?")
    named = [place for place, option in enumerate(question.options) if _within(option, text)]
    return named == [right]


def _within(option: str, text: str) -> bool:
    words = _words(option)
    return bool(re.search(r"[^\W\d_]{2}", words)) and words in text


def _words(text: str) -> str:
    return f" {' '.join(_WORD.findall(_IMAGE.sub(' ', text).lower()))} "


def _questions(
    questions: Sequence[Question], runs: Sequence[JudgedRun], wanted: Filters, found: Pools
) -> list[Question]:
    seen: set[str] = set()

    def new(question: Question) -> bool:
        mark = signature(question)
        known = mark in seen
        seen.add(mark)
        return not known

    pairs = chain.from_iterable(run.store.pairs() for run in runs)
    leaked = {leak.question for leak in find_leaks(questions, (pair for _, pair in pairs))}
    steps: list[tuple[str, bool, Callable[[Question], bool]]] = [
        ("missing images", wanted.missing_images, _has_images),
        ("duplicates", wanted.duplicates, new),
        ("leaks", wanted.leaks, lambda question: question.key not in leaked),
        ("answer visible", wanted.answer_visible, lambda question: not says_answer(question)),
    ]
    kept = sorted(questions, key=lambda question: question.key)
    for name, asked, keeps in steps:
        if asked:
            before, kept = len(kept), [question for question in kept if keeps(question)]
            found.count(name, "questions", before, len(kept))
    return kept


def _has_images(question: Question) -> bool:
    return all(Path(image.path).is_file() for image in question.images)


def _candidates(
    questions: set[str], runs: Sequence[JudgedRun], wanted: Filters, found: Pools
) -> dict[str, list[Candidate]]:
    once = {
        row.key: row
        for run in runs
        for policy in run.setup.policies
        for pool in [CandidatePool(run.store, policy)]
        for question in run.store.questions()
        if question.key in questions
        for row in pool.candidates(question)
    }
    kept = list(once.values())
    read: dict[tuple[str, str], set[str | None]] = {}
    for row in kept:
        read.setdefault((row.question, row.text_key), set()).add(row.answer)
    steps: list[tuple[str, bool, Callable[[Candidate], bool]]] = [
        ("no text", True, lambda row: row.outcome != "error" and row.finish != WITHOUT_TEXT),
        ("unread", wanted.unread, lambda row: row.outcome == "parsed"),
        ("read in two ways", True, lambda row: len(read[row.question, row.text_key]) == 1),
        ("truncated", wanted.truncated, lambda row: row.finish != "length"),
    ]
    for name, asked, keeps in steps:
        if asked:
            before, kept = len(kept), [row for row in kept if keeps(row)]
            found.count(name, "candidates", before, len(kept))
    texts = {(row.question, row.text_key) for row in kept}
    found.count("equal texts", "candidates", len(kept), len(texts))
    by_question: dict[str, list[Candidate]] = {}
    for row in kept:
        by_question.setdefault(row.question, []).append(row)
    return by_question


def _pool(run: str, question: Question, rows: Iterable[Candidate]) -> QuestionPool:
    by_text: dict[str, list[Candidate]] = {}
    votes: dict[str, Counter[str]] = {}
    for row in rows:
        by_text.setdefault(row.text_key, []).append(row)
        if row.outcome == "parsed" and row.answer is not None:
            votes.setdefault(row.policy, Counter())[row.answer] += 1
    texts = tuple(
        PooledText(
            key,
            copies[0].text,
            copies[0].answer or "",
            copies[0].outcome == "parsed" and copies[0].answer == question.answer,
            tuple(sorted({row.policy for row in copies})),
        )
        for key, copies in sorted(by_text.items())
    )
    return QuestionPool(run, question, texts, votes)
