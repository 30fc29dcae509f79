"""Any set of questions with named columns, as JSONL or parquet: with options, or free answers.

`options` is a list, a list written as a string, or several columns ("A,B,C,D"); the `answer` is
then an option letter, an index from 0, or the text of one option. A free `answer` is a text, a
number or a list of them, of which any is right; `aliases` are more of them. A `rubric` in its place
is for a grader that is a model. `grader`, `tolerance` and `unit` may be columns; the experiment's
`grader` and `tolerance` hold for rows without.
"""

from typing import Any

from bon.benchmarks.base import (
    IMAGE_COLUMNS,
    Adapter,
    Context,
    Form,
    Row,
    RowError,
    columns_in,
    lettered,
    parse_options,
)
from bon.core.errors import BonError
from bon.core.records import BY_MODEL, Question
from bon.core.text import option_letters
from bon.graders import Gold, value
from bon.graders.numbers import tolerance_of

LABELS = ("id", "subject", "difficulty", "cluster")
ROLES = (*LABELS, "aliases", "grader", "tolerance", "unit", "options", "rubric")


def _choice(context: Context, row: Row) -> Question:
    """Convert a row with options."""
    options = read_options(row)
    answer = row.get("answer")
    if isinstance(answer, int) and not isinstance(answer, bool):
        context.seen.add({0: "first", len(options): "beyond"}.get(answer, "between"))
    letter, images = read_letter(answer, options), context.read_images(row)
    cluster = row.text("cluster")
    return context.question(row, row.need("question"), options, letter, images, cluster=cluster)


def _free_or_choice(context: Context, row: Row) -> Question:
    """Convert a row to a question, with letters if it has options."""
    if row.has("options"):
        return _choice(context, row)
    return free(context, row, row.need("question"), row.text("grader") or context.spec.grader)


def read_options(row: Row) -> tuple[str, ...]:
    """Return the options of a row, without empty columns at the end."""
    columns = columns_in("options", row.columns["options"])
    if len(columns) == 1:
        return parse_options(row.get("options"))
    return lettered([row.values.get(column) for column in columns])


def read_letter(answer: Any, options: tuple[str, ...]) -> str:
    """Return the letter of the right option."""
    letters = option_letters(options)
    if isinstance(answer, int) and not isinstance(answer, bool) and 0 <= answer < len(letters):
        return letters[answer]
    if isinstance(answer, str):
        if len(answer.strip()) == 1 and answer.strip() in letters:
            return answer.strip()
        if options.count(answer) == 1:
            return letters[options.index(answer)]
    raise RowError(f"its answer {answer!r} is not one of its {len(options)} options")


def _check(context: Context) -> None:
    """Refuse answers that count from 1."""
    if context.seen == {"between", "beyond"}:
        raise BonError(
            f"{context.spec.title}: the answers are numbers that seem to count from 1: none is 0, "
            "and some equal the number of options",
            "numbers count from 0 here: subtract 1, or write letters (A, B, …)",
        )


def free(
    context: Context,
    row: Row,
    text: str,
    grader: str,
    tolerance: str | float = "",
    also: str = "",
) -> Question:
    """Return a question without options; RowError if its grader cannot read the right answer."""
    grader = grader or "exact"
    rubric = row.text("rubric").strip() if grader == BY_MODEL else ""
    answers = [rubric] if rubric else [*_texts(row.get("answer")), *_texts(row.get("aliases"))]
    if not answers:
        raise RowError("it has no answer")
    tolerance = row.text("tolerance") or tolerance or context.spec.tolerance
    gold = Gold(tuple(answers), str(tolerance), row.text("unit"))
    try:
        tolerance_of(gold.tolerance)
    except ValueError:
        raise RowError(f"its tolerance {gold.tolerance!r} is no number or percentage") from None
    if grader != BY_MODEL and value(grader, answers[0], gold) is None:
        raise RowError(f"grader {grader!r} cannot read its answer {answers[0]!r}")
    return context.question(
        row, text, (), answers[0], context.read_images(row), also,
        grader=grader, aliases=answers[1:], tolerance=gold.tolerance, unit=gold.unit,
        rubric=bool(rubric), cluster=row.text("cluster"),
    )  # fmt: skip


def _texts(value: Any) -> list[str]:
    """Return the texts of an answer or of a list of answers; none for an empty one."""
    values = value if isinstance(value, list | tuple) else [value]
    return [str(one).strip() for one in values if one is not None and str(one).strip()]


MULTIPLE_CHOICE = Adapter(
    kind="questions",
    title="Any multiple-choice set",
    licence="as the data",
    forms=(
        Form(
            need={"question": "question", "options": "options", "answer": "answer"},
            may={"image": IMAGE_COLUMNS} | {role: role for role in LABELS},
        ),
    ),
    convert=_choice,
    check=_check,
)
OPEN_ENDED = Adapter(
    kind="questions",
    title="Any set with free answers",
    licence="as the data",
    forms=tuple(
        Form(
            need={"question": "question", gold: gold},
            may={"image": IMAGE_COLUMNS} | {role: role for role in ROLES},
        )
        for gold in ("answer", "rubric")
    ),
    convert=_free_or_choice,
    grader="exact",
)
