"""Graders: what an answer to a question without options is worth, and which answers are equal.

A grader is a function of an answer and the right ones. It returns a value from 0 (wrong) to 1
(right), or None for an answer that it cannot read; it never guesses. Values between are partial
credit. Answers that are worth 1 to each other are one class, which a vote counts as one.
Right answers are needed for values only: classes do not depend on them.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from importlib.util import find_spec
from typing import NamedTuple

from bon.core.errors import BonError, one_line
from bon.core.keys import text_key
from bon.core.records import BY_MODEL, GIVEN, LMMS_EVAL, RIGHT_FROM, Candidate, Question
from bon.core.registry import Registry
from bon.graders.quantities import PERCENT


class Gold(NamedTuple):
    """The right answers; `tolerance` is absolute, or relative as in "5%"; `unit` of numbers."""

    answers: tuple[str, ...]
    tolerance: str = ""
    unit: str = ""


_PERCENT = re.compile(f"percent|{PERCENT}", re.IGNORECASE)
_ABOVE_ONE = re.compile(r"0*(?:[2-9]|[1-9]\d+)(?:\.\d+)?")
Grader = Callable[[str, Gold], float | None]

GRADERS: Registry[Grader] = Registry(
    "grader",
    "bon.graders",
    lambda part: callable(part) and not isinstance(part, type),
    {
        "exact": "bon.graders.texts:exact",
        "f1": "bon.graders.texts:f1",
        "anls": "bon.graders.texts:anls",
        "vqa": "bon.graders.texts:vqa",
        "number": "bon.graders.numbers:number",
        "relaxed": "bon.graders.numbers:relaxed",
        "math": "bon.graders.mathematics:math",
        "items": "bon.graders.structures:items",
        "iou": "bon.graders.structures:iou",
    },
    families={LMMS_EVAL: "bon.graders.lmms_eval:scorer"},
)
"""Every grader by the name that an experiment gives; options with letters need none."""


class Grade(NamedTuple):
    """The class of an answer, None if it is unread, and its credit from 0 to 1."""

    answer: str | None
    credit: float

    @property
    def right(self) -> bool:
        """Whether it counts as right, where only right and wrong are told apart."""
        return self.credit >= RIGHT_FROM


def grader_of(name: str) -> Grader:
    """Return a grader; BonError for an unknown one, or one that lacks a package."""
    if name == BY_MODEL:
        raise BonError("a model grades within a run", "set `grading: CARD` in the experiment")
    if not is_usable(name):
        raise BonError("grader 'math' needs the package math-verify", "pip install 'bon[math]'")
    return GRADERS[name]


def is_usable(name: str) -> bool:
    """Return whether the packages of a grader are installed."""
    return name != "math" or find_spec("math_verify") is not None


@lru_cache(maxsize=1 << 17)
def value(name: str, answer: str, gold: Gold) -> float | None:
    """Return what an answer is worth, from 0 to 1; None if unread; BonError if the grader fails."""
    grade = grader_of(name)
    try:
        worth = grade(answer, gold)
    except BonError:
        raise
    except Exception as error:
        raise BonError(f"grader {name!r} fails on {answer[:80]!r}: {one_line(error)}") from None
    if worth is not None and not 0 <= worth <= 1:
        raise BonError(f"grader {name!r} gives {worth!r}", "return a number from 0 to 1, or None")
    return worth


def gold_of(question: Question) -> Gold:
    """Return the right answers of a question without options."""
    meta, answer = question.meta, question.answer
    answers = () if answer is None else (answer, *meta.get("aliases", ()))
    unit = str(meta.get("unit", ""))
    if not unit and _PERCENT.search(question.text) and all(map(_ABOVE_ONE.fullmatch, answers)):
        unit = "%"  # "what percentage": 25, which 25% is as well
    return Gold(answers, str(meta.get("tolerance", "")), unit)


Reply = tuple[str, str | None]
"""The key and the text of a response; None where only its answer is known."""


def grades(
    question: Question, answers: Sequence[str | None], replies: Sequence[Reply] = ()
) -> list[Grade]:
    """Return the grades of answers to a question, None for replies without one.

    The class of an answer is named by its most frequent member. `replies`: the responses, where
    whole ones are graded.
    """
    name = question.grader
    if question.graded_whole:
        whole = [(text_key(answer or ""), answer) for answer in answers]
        return _of_replies(question, answers, replies or whole)
    if not name:
        return [Grade(a, float(a is not None and a == question.answer)) for a in answers]
    gold = gold_of(question)
    counts = Counter(answer for answer in answers if answer is not None)
    graded: dict[str | None, Grade] = {None: Grade(None, 0.0)}
    leaders: list[str] = []
    for answer, _ in counts.most_common():
        worth = value(name, answer, gold if gold.answers else gold._replace(answers=(answer,)))
        if worth is None:
            graded[answer] = Grade(None, 0.0)
            continue
        equal = (leader for leader in leaders if _equal(name, answer, leader, gold))
        leader = next(equal, answer)
        if leader == answer:
            leaders.append(answer)
        graded[answer] = Grade(leader, float(worth) if gold.answers else 0.0)
    return [graded[answer] for answer in answers]


def grades_of(question: Question, candidates: Sequence[Candidate]) -> list[Grade]:
    """Return the grades of candidates of one question; only the driver can."""
    read = [row.answer if row.outcome == "parsed" else None for row in candidates]
    return grades(question, read, [(row.text_key, row.text) for row in candidates])


def graded_key(question: Question, answer: str | None, text: str) -> str:
    """Return the key of what a model grades: the final answer, or else the text of this key."""
    return text if answer is None or question.meta.get("rubric") else text_key(answer)


def _of_replies(
    question: Question, answers: Sequence[str | None], replies: Sequence[Reply]
) -> list[Grade]:
    """Return grades of whole replies; equal final answers, or else equal texts, are one class."""
    known = question.meta.get("grades", {})
    gold = gold_of(question)

    def credit(answer: str | None, key: str, text: str | None) -> float | None:
        if question.grader == GIVEN:
            return float(known.get(key, 0))
        if question.grader == BY_MODEL:
            grade: float | None = known.get(graded_key(question, answer, key))
            return grade
        return None if text is None else value(question.grader, text, gold)

    plain = replace(question, answer=None, meta={"grader": "exact"})
    rows = [(answer, *reply) for answer, reply in zip(answers, replies, strict=True)]
    classes = grades(plain, [answer or key for answer, key, _ in rows])
    credits = [credit(*row) for row in rows]
    return [
        Grade(None, 0.0) if worth is None else Grade(one.answer, worth)
        for one, worth in zip(classes, credits, strict=True)
    ]


def is_right(question: Question, answer: str | None) -> bool:
    """Return whether an answer is right."""
    return grades(question, [answer])[0].right


def _equal(name: str, answer: str, other: str, gold: Gold) -> bool:
    pairs = ((answer, other), (other, answer))
    return all((value(name, a, gold._replace(answers=(b,))) or 0) >= 1 for a, b in pairs)
