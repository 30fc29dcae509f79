"""Answers that exist already: rows with id, question, options, answer, response.

Several files are several candidates per question: the candidate's index is the place of its
file. A file that answers a question more than once, in several rows or in a list, takes as
many places for every question.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice, repeat
from pathlib import Path
from typing import Any, TypeVar

from bon.benchmarks import choose_columns
from bon.benchmarks.base import (
    IMAGE_COLUMNS,
    BadRow,
    Context,
    Form,
    Row,
    RowError,
    parse_letter,
    parse_options,
)
from bon.core.errors import BonError
from bon.core.images import ImageError, ImageStore
from bon.core.records import Question
from bon.experiment.config import DatasetSpec
from bon.experiment.letters import option_letters
from bon.formats.base import Format

T = TypeVar("T")

FORM = Form(
    need={
        "id": "id",
        "question": "question",
        "options": "options",
        "answer": "answer",
        "response": "response",
    },
    may={
        "parsed": "parsed",
        "correct": "correct",
        "reasoning": "reasoning",
        "image": IMAGE_COLUMNS,
        "subject": "subject",
        "difficulty": "topic_difficulty",
    },
)


@dataclass(frozen=True, slots=True)
class Text:
    """One candidate: its place, the file it is from, what it says (None: the call failed).

    Of the tool that sampled it, where it says so: `parsed`, the letter that it read, `correct`,
    whether it called it right, and `reasoning`, thinking that is no part of the text.
    """

    index: int
    source: str
    text: str | None
    parsed: str | None = None
    correct: bool | None = None
    reasoning: str | None = None


@dataclass(frozen=True, slots=True)
class Answered:
    """A question with its candidates by index; a file that lacks it leaves a gap."""

    question: Question
    texts: tuple[Text, ...]


@dataclass(slots=True)
class Answers:
    """Everything that the files hold. `sources` names the file of every index."""

    questions: list[Answered] = field(default_factory=list)
    sources: tuple[str, ...] = ()
    bad: list[BadRow] = field(default_factory=list)


def read_answers(
    sources: Sequence[tuple[Path, Format]],
    images: ImageStore,
    *,
    name: str = "import",
    columns: Mapping[str, str] | None = None,
    advice: str = "--columns {role}=COLUMN",
) -> Answers:
    """Read these files; questions that say the same under the same id are one question.

    `columns` says which column holds a role (FORM) where it has another name, and `advice` how the
    user names one.
    """
    spec = DatasetSpec(benchmark="answers", name=name, columns=dict(columns or {}))
    context = Context(spec, images)
    files = [file for file, _ in sources]
    questions: dict[str, Question] = {}
    said: dict[str, list[list[Text]]] = {}  # question key -> for each file, its texts
    answers = Answers()
    names = _names(files)
    for place, (file, form) in enumerate(sources):
        found = None
        for number, (folder, values) in enumerate(form.rows(file)):
            if isinstance(values, BadRow):
                answers.bad.append(values)
                continue
            found = found or choose_columns(spec, (FORM,), values, advice)
            row = Row(values, found, folder, number)
            try:
                question = _question(context, row)
                if questions.setdefault(question.key, question).answer != question.answer:
                    raise RowError(f"its answer in {file} is not the one in an earlier file")
            except (RowError, ImageError) as error:
                answers.bad.append(BadRow(row.id, str(error)))
                continue
            texts = said.setdefault(question.key, [[] for _ in files])[place]
            texts += _texts(row, names[place])
    if not questions:
        reason = f"; the first: {answers.bad[0].reason}" if answers.bad else ""
        raise BonError(
            f"no row of {', '.join(map(str, files))} could be used{reason}",
            f"mend the rows, or name their columns: {advice.format(role='ROLE')}",
        )
    widths = [max(len(texts[place]) for texts in said.values()) for place in range(len(files))]
    answers.sources = tuple(
        name for name, width in zip(names, widths, strict=True) for _ in range(width)
    )
    for key, question in questions.items():
        rows = [
            replace(text, index=sum(widths[:place]) + at)
            for place, texts in enumerate(said[key])
            for at, text in enumerate(texts)
        ]
        answers.questions.append(Answered(question, tuple(rows)))
    return answers


def _question(context: Context, row: Row) -> Question:
    options = parse_options(row.get("options"))
    letter = parse_letter(row.get("answer"))
    return context.question(
        row,
        text=row.text("question"),
        options=options,
        answer=letter,
        images=context.read_images(row),
        # Without their images, two questions may say the same: the label tells them apart.
        also=row.id,
        answer_not_in_options=letter not in option_letters(options),
    )


def _texts(row: Row, source: str) -> list[Text]:
    """The texts of a row, with what is said of each; a list that is too short says nothing."""
    texts, *beside = (
        value if isinstance(value, list) else [value]
        for value in map(row.get, ("response", "parsed", "correct", "reasoning"))
    )
    return [
        Text(0, source, _of(str, text), _of(str, letter), _of(bool, right), _of(str, thought))
        for text, letter, right, thought in zip(
            texts, *(islice(chain(one, repeat(None)), len(texts)) for one in beside), strict=True
        )
    ]


def _of(kind: type[T], value: Any) -> T | None:
    """The value where it is of this kind: published files put API errors in the place of texts."""
    return value if isinstance(value, kind) else None


def _names(files: Sequence[Path]) -> list[str]:
    """Short names of the files that tell them apart."""
    stems = [file.stem for file in files]
    return stems if len(set(stems)) == len(stems) else [str(file) for file in files]
