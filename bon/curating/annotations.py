"""What people said of the items. Every answer is on disk before it is acknowledged.

Kept as events in SQLite: an answer that is changed or undone is a new row, and the last row of a
person and an item counts.
"""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

CANNOT = "cannot"
TIE = "tie"
WITHDRAWN = "withdrawn"


@dataclass(frozen=True, slots=True)
class Annotation:
    """One answer of one person.

    `choice` is the place of the better response in the item's canonical order ("0", "1", …), or
    "tie", "cannot" or "withdrawn". `shown` is the order in which the responses were shown.
    `first` is what was chosen before a draft was shown (empty: none was). `seconds` is the time
    from showing to choosing; `time` is UTC, ISO 8601. `source` says where it was given: page,
    label-studio, argilla or jsonl. `event` is the sender's own id of the answer (empty: none):
    what is sent again under it is kept once.
    """

    item: str
    annotator: str
    choice: str
    shown: tuple[int, ...]
    tags: tuple[str, ...] = ()
    rationale: str = ""
    first: str = ""
    seconds: float | None = None
    time: str = ""
    source: str = "page"
    event: str = ""


_COLUMNS = tuple(one.name for one in fields(Annotation))
_LISTS = ("shown", "tags")


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """The database, with answers flushed to the disk at each commit."""
    connection = sqlite3.connect(path, timeout=30)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(
            "CREATE TABLE IF NOT EXISTS annotations "
            f"(number INTEGER PRIMARY KEY, {', '.join(_COLUMNS)})"
        )
        connection.execute(
            "CREATE UNIQUE INDEX IF NOT EXISTS sent ON annotations (annotator, event) "
            "WHERE event != ''"
        )
        yield connection
    finally:
        connection.close()


def add(path: Path, *rows: Annotation) -> None:
    """Keep answers, all or none; they are on disk when this returns."""
    values = [
        [
            json.dumps(getattr(row, name)) if name in _LISTS else getattr(row, name)
            for name in _COLUMNS
        ]
        for row in rows
    ]
    marks = ", ".join("?" * len(_COLUMNS))
    with _opened(path) as connection, connection:
        connection.executemany(
            f"INSERT OR IGNORE INTO annotations ({', '.join(_COLUMNS)}) VALUES ({marks})", values
        )


def history(path: Path) -> list[Annotation]:
    """Every event, oldest first."""
    if not path.is_file():
        return []
    with _opened(path) as connection:
        rows = connection.execute(
            f"SELECT {', '.join(_COLUMNS)} FROM annotations ORDER BY number"
        ).fetchall()
    return [_row(dict(zip(_COLUMNS, row, strict=True))) for row in rows]


def _row(values: dict[str, Any]) -> Annotation:
    return Annotation(**values | {name: tuple(json.loads(values[name])) for name in _LISTS})


def current(path: Path) -> list[Annotation]:
    """The answers that count: the last of each person and item, unless it was withdrawn."""
    last = {(row.annotator, row.item): row for row in history(path)}
    return [row for row in last.values() if row.choice != WITHDRAWN]
