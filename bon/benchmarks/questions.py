"""Any set of questions with free answers, as JSONL or parquet; rows with options keep letters.

`answer` is a text, a number or a list of them, of which any is right; `aliases` are more of them. A
`rubric` in its place is for a grader that is a model.
`grader`, `tolerance` and `unit` may be columns; the experiment's `grader` and `tolerance` hold for
rows without.
"""

from typing import Any

from bon.benchmarks.base import IMAGE_COLUMNS, Adapter, Context, Form, Row, RowError
from bon.benchmarks.multiple_choice import read_letter, read_options
from bon.core.records import BY_MODEL, Question
from bon.graders import Gold, value
from bon.graders.numbers import tolerance_of

ROLES = (
    "id", "subject", "difficulty", "cluster", "aliases", "grader", "tolerance", "unit", "options",
    "rubric",
)  # fmt: skip


def convert(context: Context, row: Row) -> Question:
    """Convert a row to a question, with letters if it has options."""
    if row.has("options"):
        options = read_options(row)
        letter, images = read_letter(row.get("answer"), options), context.read_images(row)
        cluster = row.text("cluster")
        return context.question(row, row.need("question"), options, letter, images, cluster=cluster)
    return free(context, row, row.need("question"), row.text("grader") or context.spec.grader)


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


ADAPTER = Adapter(
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
    convert=convert,
    grader="exact",
)
