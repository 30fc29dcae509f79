"""The interface of formats, and the tables that anybody can write (JSONL, Parquet, JSON, CSV).

Whatever wrote a file, its rows come out as one of a few tables: bon.formats.answers reads
`answers`, bon.formats.score_tables the others.
"""

import csv
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from bon.benchmarks.base import BadRow
from bon.benchmarks.rows import READERS, RawRow, local_files
from bon.core.errors import BonError

Table = Literal["answers", "candidates", "scores", "pairs", "pair scores", "verdicts"]
"""The content of rows; `answers` have texts, the others need none."""


@dataclass(frozen=True, slots=True)
class Format:
    """One kind of file.

    needs: what a user has to provide, in one line.
    recognises: whether a file is of this format, by its name and beginning.
    rows: the rows of its table, each with the folder that image paths start from.
    bare: rows lack question and options, which bon.formats.question_join adds.
    imageless: rows lack the images of their questions, which it can add.
    required, without: columns of a table (`a|b`: either), and those that it has not.
    """

    name: str
    title: str
    needs: str
    table: Table
    recognises: Callable[[Path], bool]
    rows: Callable[[Path], Iterator[RawRow]]
    bare: bool = False
    imageless: bool = False
    required: tuple[str, ...] = ()
    without: frozenset[str] = frozenset()

    def fits(self, columns: set[str]) -> bool:
        """Whether a table's columns are those of this format."""
        return not columns & self.without and all(
            columns & set(choice.split("|")) for choice in self.required
        )

    def renamed(self, columns: Mapping[str, str]) -> "Format":
        """Return the format with rows whose columns are renamed to their roles."""

        def rows(path: Path) -> Iterator[RawRow]:
            for folder, row in self.rows(path):
                if isinstance(row, dict):
                    other = {name: v for name, v in row.items() if name not in columns.values()}
                    row = other | {role: row[name] for role, name in columns.items() if name in row}
                yield folder, row

        return replace(self, rows=rows)


def file_rows(path: Path) -> Iterator[RawRow]:
    """Yield rows of a JSONL, Parquet, JSON or CSV file, or of a folder of the first three."""
    if path.suffix == ".csv" and path.is_file():
        yield from ((path.parent, row) for row in _csv(path))
        return
    for file in local_files(path, None, None):
        for row in READERS[file.suffix](file):
            yield file.parent, row


def columns_of(path: Path) -> set[str]:
    """Return the columns of a file's first readable row; empty without one."""
    try:
        return set(next((row for _, row in file_rows(path) if isinstance(row, dict)), {}))
    except BonError:
        return set()


def starts_with(path: Path, *words: bytes) -> bool:
    """Whether a JSON file has all these words near its beginning."""
    if path.suffix != ".json" or not path.is_file():
        return False
    with path.open("rb") as file:
        start = file.read(4096)
    return all(word in start for word in words)


def allow_long_cells() -> None:
    """Raise the csv limit of 128 K characters: a chain of thought may be longer."""
    csv.field_size_limit(min(sys.maxsize, 2**31 - 1))


def _csv(path: Path) -> Iterator[dict[str, Any] | BadRow]:
    """Yield rows of texts; an empty cell is None."""
    allow_long_cells()
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            for number, row in enumerate(csv.DictReader(file), start=1):
                if None in row or None in row.values():
                    yield BadRow(f"row-{number}", "has more or fewer cells than the header")
                else:
                    yield {name: value if value else None for name, value in row.items()}
    except (UnicodeDecodeError, csv.Error) as error:
        raise BonError(f"{path} is not CSV in UTF-8: {error}", "save it as UTF-8") from None


def _table(
    name: str, table: Table, title: str, needs: str, *required: str, without: str = ""
) -> Format:
    """A table known by columns of its first row."""

    def recognises(path: Path) -> bool:
        return form.fits(columns_of(path))

    form = Format(
        name, title, needs, table, recognises, file_rows,
        required=required, without=frozenset(without.split()),
    )  # fmt: skip
    return form


TABLES = (
    _table(
        "pair_scores", "pair scores", "Scores of preference pairs",
        "rewarder, pair, chosen, rejected: a number, or a list with one number per step",
        "rewarder", "pair", "chosen", "rejected",
    ),
    _table(
        "scores", "scores", "Scores of candidates",
        "rewarder, question and candidate, score (correct if no other table has it), "
        "or rewarder, question, scores",
        "rewarder", "question", "score|scores",
    ),
    _table(
        "verdicts", "verdicts", "Verdicts on two responses",
        "rewarder, question or pair (or item), first, second (numbers of candidates, or chosen and "
        "rejected), outcome: first, second, tie, unparsed or error",
        "rewarder", "item|question|pair", "first", "second", "outcome",
    ),
    _table(
        "candidates", "candidates", "Correctness of candidates, without texts",
        "id, question, candidates: a list of {correct, answer?}, or question, candidate, correct",
        "id|question", "candidates|correct", without="rewarder response",
    ),
    _table(
        "answers", "answers", "Sampled answers",
        "id, question, options (unless the answer is free), answer, response",
        "options|answer", "response",
    ),
    _table(
        "pairs", "pairs", "Preference pairs, without texts",
        "id, question or prompt; optionally group",
        "id", "question|prompt",
        without="rewarder response options candidates correct",
    ),
)  # fmt: skip
