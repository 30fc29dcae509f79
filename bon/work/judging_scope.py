"""Which questions are judged, in which order, and how far a race goes.

Only the driver knows the right answers; workers get codes, rewarders nothing.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from bon.choosing.race import EarlyStopping
from bon.core.keys import item_seed
from bon.core.records import BY_MODEL, Candidate, Question
from bon.experiment.config import Judging
from bon.graders import graded_key, grades_of


def to_judge(
    question: Question, candidates: Iterable[Candidate], judging: Judging, subset: float = 1.0
) -> list[Candidate]:
    """Return the candidates to judge.

    Empty if the question is outside the drawn `subset` or no choice matters (`judging.skip`).
    """
    if not drawn(question.key, subset):
        return []
    usable = [row for row in candidates if row.outcome != "error"]
    if judging.skip == "nothing":
        return usable
    skipped = (constant if judging.skip == "constant" else unanimous)(question, usable)
    return [] if skipped else usable


def unanimous(question: Question, candidates: Sequence[Candidate]) -> bool:
    """Return whether the answers of all candidates are of one class."""
    return len(set(_classes(question, candidates))) == 1


def _classes(question: Question, candidates: Sequence[Candidate]) -> list[str | None]:
    """Return the class of each answer; it does not depend on which grades of a model are known."""
    if question.grader == BY_MODEL:
        known = {graded_key(question, row.answer, row.text_key): 0.0 for row in candidates}
        question = replace(question, meta={**question.meta, "grades": known})
    return [grade.answer for grade in grades_of(question, candidates)]


def constant(question: Question, candidates: Sequence[Candidate]) -> bool:
    """Return whether every choice has the same result: the same credit, or unparsed.

    Wrong and unparsed differ: `analysis.unparsed` may not count as wrong.
    """
    if question.answer is None or question.grader == BY_MODEL:  # grades may still be missing
        return unanimous(question, candidates)
    grades = grades_of(question, candidates)
    return len({(grade.answer is None, grade.credit) for grade in grades}) == 1


def stakes_of(
    question: Question,
    candidates: Sequence[Candidate],
    judging: Judging,
) -> EarlyStopping | None:
    """Return the stopping rule of a race or knockout; None if all comparisons are made."""
    raced = judging.design == "race" and not drawn(question.key, judging.complete)
    if not raced and judging.design != "knockout":
        return None
    labels = {
        row.text_key: answer or ""
        for row, answer in zip(candidates, _classes(question, candidates), strict=True)
    }
    codes = {label: code for code, label in enumerate(dict.fromkeys(labels.values()))}
    return EarlyStopping(
        Counter(row.text_key for row in candidates),
        {key: codes[label] for key, label in labels.items()},
    )


def drawn(question: str, share: float) -> bool:
    """Return whether a question key is in a seeded share; larger shares contain smaller ones."""
    return share >= 1.0 or item_seed("judged in full", question) % 1_000_000 < share * 1_000_000
