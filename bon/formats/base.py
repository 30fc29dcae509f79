"""The interface of formats, and the tables that anybody can write (JSONL, Parquet, JSON, CSV).

Whatever wrote a file, its rows come out as one of a few tables: bon.formats.answers reads
`answers`, bon.formats.score_tables the others.
"""

import csv
import json
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from bon.benchmarks.base import BadRow
from bon.benchmarks.rows import RawRow, local_files, local_rows
from bon.core.errors import BonError
from bon.core.files import open_zip
from bon.formats import wide_scores

Table = Literal[
    "answers", "candidates", "scores", "wide scores", "pairs", "pair scores", "verdicts"
]
"""The content of rows; `answers` have texts, the others need none."""
_CANDIDATE = frozenset(("candidate", "correct", "answer"))
_PAIR = frozenset(("pair", "prompt", "group"))
ROLES: Mapping[Table, frozenset[str]] = {
    "candidates": _CANDIDATE | {"id", "question", "candidates", "subject", "difficulty"},
    "scores": _CANDIDATE | {"rewarder", "question", "score", "scores", "family"},
    "wide scores": wide_scores.ROLES | {"score"},
    "pairs": frozenset(("id", "question", "prompt", "group")),
    "pair scores": _PAIR | {"rewarder", "chosen", "rejected", "family"},
    "verdicts": _PAIR | {"rewarder", "question", "item", "first", "second", "outcome", "family"},
}
"""The columns that are read of tables without texts."""


@dataclass(frozen=True, slots=True)
class Format:
    """One kind of file.

    needs: what a user has to provide, in one line.
    recognises: whether a file is of this format, by its name and beginning; None: by the columns
        of its first row (`fits`).
    rows: the rows of its table, each with the folder that image paths start from.
    bare: rows lack question and options, which bon.formats.question_join adds.
    imageless: rows lack the images of their questions, which it can add.
    required, without: columns of a table (`a|b`: either), and those that it has not.
    columns: the column of each role that the user named.
    """

    name: str
    title: str
    needs: str
    table: Table
    recognises: Callable[[Path], bool] | None
    rows: Callable[[Path], Iterator[RawRow]]
    bare: bool = False
    imageless: bool = False
    required: tuple[str, ...] = ()
    without: frozenset[str] = frozenset()
    columns: Mapping[str, str] = field(default_factory=dict)

    def fits(self, row: Mapping[str, Any]) -> bool:
        """Whether a table with this first row is of this format."""
        return (
            not row.keys() & self.without
            and all(row.keys() & set(choice.split("|")) for choice in self.required)
            and (
                self.table != "wide scores" or "score" in row or bool(wide_scores.rewarders_in(row))
            )
        )

    def renamed(self, columns: Mapping[str, str]) -> "Format":
        """Return the format with these columns of roles, which rows of tables are renamed to."""
        if self.table == "answers":
            return replace(self, columns=columns)

        def rows(path: Path) -> Iterator[RawRow]:
            for folder, row in self.rows(path):
                yield folder, renamed(row, columns) if isinstance(row, dict) else row

        return replace(self, rows=rows, columns=columns)


def renamed(row: Mapping[str, Any], columns: Mapping[str, str]) -> dict[str, Any]:
    """Return a row whose columns have the names of their roles; several columns keep their own."""
    found = {name: cell for name, cell in row.items() if name not in columns.values()}
    if "rewarder" not in row.keys() | columns.keys() and "score" in columns:
        columns = {role: name for role, name in columns.items() if role != "score"}
        found = {name: cell for name, cell in row.items() if name not in columns.values()}
    return found | {role: row[name] for role, name in columns.items() if name in row}


def file_rows(path: Path) -> Iterator[RawRow]:
    """Yield rows of a JSONL, Parquet, JSON or CSV file, of a folder of the first three or a ZIP."""
    if path.suffix == ".csv" and path.is_file():
        yield from ((path.parent, row) for row in _csv(path))
    elif path.suffix == ".zip" and path.is_file():
        yield from ((None, row) for row in _zipped(path))
    else:
        yield from local_rows(local_files(path, None, None))


def whole_rows(path: Path, fix: str) -> Iterator[tuple[Path | None, dict[str, Any]]]:
    """Yield the rows of a file in which every row can be read; BonError with `fix` otherwise."""
    for folder, row in file_rows(path):
        if isinstance(row, BadRow):
            raise BonError(f"{path}, {row.id}: {row.reason}", fix)
        yield folder, row


def columns_of(path: Path) -> set[str]:
    """Return the columns of a file's first readable row; empty without one."""
    return set(first_row(path))


def first_row(path: Path) -> dict[str, Any]:
    """Return a file's first readable row; empty without one."""
    try:
        return next((row for _, row in file_rows(path) if isinstance(row, dict)), {})
    except BonError:
        return {}


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


def _zipped(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of every JSON file in a ZIP."""
    try:
        with open_zip(path) as archive:
            for name in sorted(archive.namelist()):
                rows = json.loads(archive.read(name)) if name.endswith(".json") else []
                yield from (row for row in rows if isinstance(row, dict))
    except (zipfile.BadZipFile, ValueError, RecursionError, OSError) as error:
        raise BonError(f"{path} is not a complete ZIP of JSON: {error}", "copy it again") from None


def _table(
    name: str, table: Table, title: str, needs: str, *required: str, without: str = ""
) -> Format:
    """A table known by columns of its first row."""
    none_of = frozenset(without.split())
    return Format(name, title, needs, table, None, file_rows, required=required, without=none_of)


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
        "wide_scores", "wide scores", "Scores in a column for each rewarder",
        "question and candidate (or candidates, or pair), then a column for each rewarder",
        "id|question|pair", without="rewarder response options",
    ),
    _table(
        "candidates", "candidates", "Correctness of candidates, without texts",
        "id, question, candidates: a list of {correct, answer?}, or question, candidate, correct",
        "id|question", "candidates|candidate", without="rewarder response",
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
