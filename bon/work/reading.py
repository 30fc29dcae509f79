"""The model that reads answers (`extractor: llm`, `reading: CARD`).

It is asked for the final answer of each distinct response that the strict rules leave unread, and
for no other. A reading is stored, priced and resumed like a judgement, under a spec of its own.
"""

import re
from collections.abc import Iterable

from bon.core.records import BY_MODEL, Candidate, Question
from bon.experiment.required_form import clean
from bon.formats.score_tables import WITHOUT_TEXT
from bon.graders import grades_of
from bon.policies.answer_extraction import NUMBERS
from bon.policies.extractors import extract_answer, withheld
from bon.storage.store import Store
from bon.work.setup import Setup

ASKED = "SELECT DISTINCT item, first FROM judgements WHERE spec = ?"
"""Item and text key of what a model was asked to grade or read."""
_NUMBER = re.compile(r"[-+]?[\d.]*\d")
_GROUPED = re.compile(r"(?<=\d),(?=\d{3})")


def unread(question: Question, pool: Iterable[Candidate]) -> list[Candidate]:
    """Return the responses whose answer nobody has read; none where whole ones are graded."""
    if question.graded_whole:
        return []
    rows = [
        row
        for row in pool
        if row.outcome != "error" and row.finish != WITHOUT_TEXT
        if row.text.strip() and not withheld(row.text)
    ]
    grades = zip(rows, grades_of(question, rows), strict=True)
    return [row for row, grade in grades if grade.answer is None]


def apply_readings(setup: Setup, store: Store, questions: Iterable[str]) -> None:
    """Give responses to these questions that are unread the answers that the model has read."""
    reader = setup.reader
    if reader is None:
        return
    for question in filter(None, map(store.question, questions)):
        replies = {
            row.first: row.text
            for row in store.judgements(reader.spec, question.key)
            if row.outcome == "scored"
        }
        for policy in setup.policies if replies else ():
            if policy.card.extractor == BY_MODEL:
                rows = unread(question, store.candidates(policy.spec, question.key))
                found = [
                    (reading(question, row.text, replies[row.text_key]), row.key)
                    for row in rows
                    if row.text_key in replies
                ]
                store.set_answers((answer, "parsed", key) for answer, key in found if answer)


def reading(question: Question, response: str, reply: str) -> str | None:
    """Return the answer that a reply says the response gives.

    None where it says none, or one without options that does not stand in the response: the model
    has then answered itself.
    """
    answer = extract_answer(reply, question.options, "strict", grader=question.grader).letter
    if answer is None or question.options:
        return answer
    said, text = _plain(answer), _plain(response)
    if question.grader in NUMBERS and (number := _NUMBER.search(said)):
        said = number[0]
    stands = re.search(rf"(?<![\w.-]){re.escape(said)}(?!\w|\.\d)", text)
    return answer if said != "none given" and stands else None


def _plain(text: str) -> str:
    return " ".join(_GROUPED.sub("", clean(text)).casefold().split())


def reader_note(setup: Setup, store: Store) -> str:
    """Return how many responses the model has read, for the report."""
    assert setup.reader is not None
    asked = store.count("judgements", "spec = ?", (setup.reader.spec,))
    return (
        f"{asked:,} distinct responses that the strict rules leave unread were shown to a model, "
        f"{setup.reader.card.name}, which reads answers: `bon regrade RUN --labels` measures its "
        "error"
    )
