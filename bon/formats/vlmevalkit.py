"""Predictions of VLMEvalKit, `.xlsx`, `.tsv` and `.json`: one candidate per question and file.

A file has options but no images, which `--questions` adds. An `.xlsx` needs openpyxl.
"""

import csv
import math
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bon.benchmarks.base import BadRow, RowError, lettered
from bon.benchmarks.rows import RawRow
from bon.core.errors import BonError
from bon.core.files import open_zip
from bon.core.text import LETTERS
from bon.formats.base import Format, allow_long_cells, columns_of, file_rows

_COLUMNS = {"index", "question", "answer", "prediction", "A", "B"}
_FAILED = "Failed to obtain answer"


def recognises(path: Path) -> bool:
    """By suffix and columns."""
    if path.suffix in (".xlsx", ".pkl"):
        return True
    if path.suffix == ".tsv" and path.is_file():
        with path.open(encoding="utf-8", errors="replace") as file:
            return set(file.readline().rstrip("\r\n").split("\t")) >= _COLUMNS
    return path.suffix == ".json" and columns_of(path) >= _COLUMNS


def rows(path: Path) -> Iterator[RawRow]:
    """Yield one row per question; a repeated index is the same row."""
    seen: set[str] = set()
    for number, row in enumerate(_read(path), start=1):
        if isinstance(row, BadRow):
            yield path.parent, row
            continue
        values = {name: _cell(value) for name, value in row.items()}
        index = values.get("index")
        if index is None or "prediction" not in values:
            yield path.parent, BadRow(f"row-{number}", "has no index or no prediction")
        elif str(index) not in seen:
            seen.add(str(index))
            try:
                yield path.parent, _row(values)
            except RowError as error:
                yield path.parent, BadRow(str(index), str(error))


def _row(values: Mapping[str, Any]) -> dict[str, Any]:
    text = values["prediction"]
    failed = text is None or str(text).startswith(_FAILED)
    hit = values.get("hit")
    return {
        "id": str(values.get("id") or values["index"]),
        "question": str(values.get("question") or ""),
        "options": list(lettered([values.get(letter) for letter in LETTERS])),
        "answer": values.get("answer"),
        "subject": values.get("category"),
        "response": [None if failed else str(text)],
        "correct": [bool(hit) if hit in (0, 1) else None],  # of a judged file
    }


def _cell(value: Any) -> Any:
    """Return None for an empty cell: pandas writes NaN."""
    if value == "" or (isinstance(value, float) and math.isnan(value)):
        return None
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _read(path: Path) -> Iterator[dict[str, Any] | BadRow]:
    if path.suffix == ".pkl":
        raise BonError(
            f"{path} is a pickle, which can run any code when it is read",
            "let VLMEvalKit write a table: PRED_FORMAT=tsv",
        )
    if path.suffix == ".xlsx":
        yield from _xlsx(path)
    elif path.suffix == ".tsv":
        yield from _tsv(path)
    else:
        yield from (row for _, row in file_rows(path))


def _tsv(path: Path) -> Iterator[dict[str, Any] | BadRow]:
    """Yield rows; without a final newline, the last row is truncated."""
    allow_long_cells()
    with path.open(newline="", encoding="utf-8", errors="replace") as file:
        table = list(csv.DictReader(file, delimiter="\t"))
    complete = path.read_bytes()[-1:] == b"\n"
    for number, row in enumerate(table, start=1):
        cut = None in row or None in row.values() or (number == len(table) and not complete)
        yield BadRow(f"row-{number}", "is cut off") if cut else row


def _xlsx(path: Path) -> Iterator[dict[str, Any]]:
    import pandas as pd

    try:
        with open_zip(path):
            book = pd.read_excel(path, dtype=object, keep_default_na=False)
    except ImportError:
        raise BonError(
            "reading .xlsx needs the package openpyxl", "pip install 'bon[interop]'"
        ) from None
    except (zipfile.BadZipFile, KeyError, ValueError, EOFError, OSError, SyntaxError) as error:
        raise BonError(f"{path} is not a complete workbook: {error}", "copy it again") from None
    yield from book.to_dict("records")  # type: ignore[misc]  # its columns are texts


FORMAT = Format(
    "vlmevalkit",
    "Predictions of VLMEvalKit",
    "MODEL_DATASET.xlsx (pip install 'bon[interop]'), .tsv or .json; several runs are candidates; "
    "--questions adds the images",
    "answers",
    recognises,
    rows,
    imageless=True,
)
