"""Existing answers: rows with id, question, answer, response, and options unless they are free.

Several files are several candidates per question, in the order of the files. A file that answers
some question k times, in several rows or in a list, takes k candidates of every question.
"""

from collections.abc import Sequence
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
)
from bon.benchmarks.questions import free, read_options
from bon.core.errors import BonError
from bon.core.images import ImageError, ImageStore
from bon.core.keys import text_key
from bon.core.records import GIVEN, Question
from bon.core.text import LETTERS, option_letters
from bon.experiment.config import IMPORTED, DatasetSpec
from bon.formats.base import Format
from bon.formats.question_join import OF_RESPONSES
from bon.graders import gold_of
from bon.graders.mathematics import fitting

T = TypeVar("T")

FORM = Form(
    need={name: name for name in ("id", "question", "answer", "response")},
    may={
        "image": IMAGE_COLUMNS,
        "subject": "subject",
        "difficulty": "topic_difficulty",
        **{
            name: name
            for name in (
                "options", "parsed", "correct", "aliases", "grader", "tolerance", "unit", "rubric",
                "cluster", "finish", "num_tokens",
            )
        },
    },
)  # fmt: skip
"""A row without options has a free answer."""
GRADED = Form({name: name for name in ("id", "question", "response", "correct")}, FORM.may)
"""Without the right answer, the grades that a file gives its responses are final."""


@dataclass(frozen=True, slots=True)
class Text:
    """One candidate: index, source file and text (None: the call failed).

    As reported by the tool that sampled it: `parsed`, the letter it extracted, `correct`, and the
    reason why it stopped, which may be a limit.
    """

    index: int
    source: str
    text: str | None
    parsed: str | None = None
    correct: bool | None = None
    finish: str = IMPORTED
    num_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Answered:
    """A question with its candidates by index; a file that lacks it leaves a gap."""

    question: Question
    texts: tuple[Text, ...]


@dataclass(slots=True)
class Answers:
    """The contents of all files. `sources` names the file of every index.

    `grader`: the one that fits free answers for which none is named.
    """

    questions: list[Answered] = field(default_factory=list)
    sources: tuple[str, ...] = ()
    bad: list[BadRow] = field(default_factory=list)
    grader: str = ""


def own_answer(index: int) -> str:
    """Return the answer of a candidate of which only the grade is known: equal to no other."""
    return f"candidate {index}"


def labelled(right: Sequence[int]) -> dict[str, Any]:
    """Return the meta of a question of which only the right candidates are known."""
    return {"grader": "exact", "aliases": [*map(own_answer, right[1:])]}


def read_answers(
    sources: Sequence[tuple[Path, Format]],
    images: ImageStore,
    *,
    advice: str = "--columns {role}=COLUMN",
    grader: str = "",
    tolerance: str | float = "",
) -> Answers:
    """Read files of answers; equal questions with the same id are one question.

    advice: how the user names a column of another name. grader, tolerance: of answers without
    options.
    """
    spec = DatasetSpec(benchmark="answers", name="import", grader=grader, tolerance=tolerance)
    context = Context(spec, images)
    files = [file for file, _ in sources]
    names = _short_names(files)
    questions: dict[str, Question] = {}
    texts: dict[str, list[list[Text]]] = {}  # question key -> texts by file
    ungraded: set[str] = set()  # keys of free questions for which nobody named a grader
    answers = Answers()
    for number, (file, form) in enumerate(sources):
        by_role = None
        for row_number, (folder, values) in enumerate(form.rows(file)):
            if isinstance(values, BadRow):
                answers.bad.append(values)
                continue
            named = spec.model_copy(update={"columns": dict(form.columns)})
            by_role = by_role or choose_columns(named, (FORM, GRADED), values, advice)
            row = Row(values, by_role, folder, row_number)
            try:
                question = _question(context, row)
                known = questions.setdefault(question.key, question)
                known.meta.get("grades", {}).update(question.meta.get("grades", {}))
                if known.answer != question.answer:
                    raise RowError(f"its answer in {file} is not the one in an earlier file")
            except (RowError, ImageError) as error:
                answers.bad.append(BadRow(row.id, str(error)))
                continue
            if not (question.options or question.grader == GIVEN or grader or row.text("grader")):
                ungraded.add(question.key)
            own = texts.setdefault(question.key, [[] for _ in files])
            own[number] += _texts(row, names[number])
    if not questions:
        reason = f"; the first: {answers.bad[0].reason}" if answers.bad else ""
        raise BonError(
            f"no row of {', '.join(map(str, files))} could be used{reason}",
            f"fix the rows, or name their columns: {advice.format(role='ROLE')}",
        )
    widths = [max(len(own[number]) for own in texts.values()) for number in range(len(files))]
    answers.sources = tuple(
        name for name, width in zip(names, widths, strict=True) for _ in range(width)
    )
    if ungraded:
        golds = (text for key in ungraded for text in gold_of(questions[key]).answers)
        answers.grader = fitting(golds)
        for key in ungraded:
            question, grader = questions[key], answers.grader
            if grader == "math":  # numbers among formulas
                grader = fitting(gold_of(question).answers)
            questions[key] = replace(question, meta={**question.meta, "grader": grader})
    for key, question in questions.items():
        rows = [
            replace(text, index=sum(widths[:number]) + at)
            for number, own in enumerate(texts[key])
            for at, text in enumerate(own)
        ]
        answers.questions.append(Answered(question, tuple(rows)))
    return answers


def _question(context: Context, row: Row) -> Question:
    if row.get("answer") is None and row.get("correct") is not None:
        grades = {
            text_key(text.text): float(bool(text.correct))
            for text in _texts(row, "")
            if text.text is not None
        }
        text, images = row.need("question"), context.read_images(row)
        return context.question(
            row, text, (), None, images, also=row.id, grader=GIVEN, grades=grades,
            cluster=row.text("cluster"),
        )  # fmt: skip
    lettered = str(row.get("answer")).strip() in LETTERS
    if not row.has("options") or (row.get("options") in ([], "[]") and not lettered):
        grader = context.spec.grader or row.text("grader")
        return free(context, row, row.text("question"), grader, also=row.id)
    options = read_options(row)
    letter = parse_letter(row.get("answer"))
    return context.question(
        row,
        text=row.text("question"),
        options=options,
        answer=letter,
        images=context.read_images(row),
        # Without their images, two questions may be equal: the id distinguishes them.
        also=row.id,
        answer_not_in_options=letter not in option_letters(options),
        cluster=row.text("cluster"),
    )


def _texts(row: Row, source: str) -> list[Text]:
    """Return the texts of a row; lists of other roles may be shorter."""
    texts, *others = (
        value if isinstance(value, list) else [value] for value in map(row.get, OF_RESPONSES)
    )
    padded = (islice(chain(values, repeat(None)), len(texts)) for values in others)
    return [
        Text(
            0, source, _typed(str, text), _typed(str, letter), _typed(bool, right),
            _typed(str, finish) or IMPORTED, _typed(int, tokens) or 0,
        )
        for text, letter, right, finish, tokens in zip(texts, *padded, strict=True)
    ]  # fmt: skip


def _typed(kind: type[T], value: Any) -> T | None:
    """Return the value if it is of this type: published files put API errors in place of texts."""
    return value if isinstance(value, kind) else None


def _short_names(files: Sequence[Path]) -> list[str]:
    stems = [file.stem for file in files]
    return stems if len(set(stems)) == len(stems) else [str(file) for file in files]
