"""Any multiple-choice set with named columns, as JSONL or parquet.

`options` is a list, a list written as a string, or several columns ("A,B,C,D"). `answer` is
an option letter, an index from 0, or the text of one option.
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
from bon.core.records import Question
from bon.core.text import option_letters


def convert(context: Context, row: Row) -> Question:
    """Convert a row to a question."""
    options = read_options(row)
    answer = row.get("answer")
    if isinstance(answer, int) and not isinstance(answer, bool):
        context.seen.add({0: "first", len(options): "beyond"}.get(answer, "between"))
    letter, images = read_letter(answer, options), context.read_images(row)
    cluster = row.text("cluster")
    return context.question(row, row.need("question"), options, letter, images, cluster=cluster)


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


def check(context: Context) -> None:
    """Refuse answers that count from 1."""
    if context.seen == {"between", "beyond"}:
        raise BonError(
            f"{context.label}: the answers are numbers that seem to count from 1: none is 0, and "
            "some equal the number of options",
            "numbers count from 0 here: subtract 1, or write letters (A, B, …)",
        )


ADAPTER = Adapter(
    kind="questions",
    title="Any multiple-choice set",
    licence="as the data",
    forms=(
        Form(
            need={"question": "question", "options": "options", "answer": "answer"},
            may={"image": IMAGE_COLUMNS}
            | {r: r for r in ("id", "subject", "difficulty", "cluster")},
        ),
    ),
    convert=convert,
    check=check,
)
