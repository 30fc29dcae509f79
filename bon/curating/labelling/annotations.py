"""Annotations, kept as events in SQLite: the last row of an annotator and item counts."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path

CANNOT = "cannot"
TIE = "tie"
WITHDRAWN = "withdrawn"


@dataclass(frozen=True, slots=True)
class Annotation:
    """One answer of one annotator.

    choice: canonical index of the better response ("0", "1", …), "tie", "cannot" or "withdrawn".
    shown: the order in which the responses were shown.
    first: the choice before a draft was shown (empty: no draft).
    seconds: time from showing to choosing. time: UTC, ISO 8601.
    event: the sender's id, under which an answer is stored once (empty: none).
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
    event: str = ""


_COLUMNS = tuple(field.name for field in fields(Annotation))
_NAMES = ", ".join(_COLUMNS)
_LISTS = ("shown", "tags")


@contextmanager
def _open(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the database; every commit is flushed to disk."""
    connection = sqlite3.connect(path, timeout=30)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(
            f"CREATE TABLE IF NOT EXISTS annotations (number INTEGER PRIMARY KEY, {_NAMES})"
        )
        connection.execute(
            "CREATE UNIQUE INDEX IF NOT EXISTS sent ON annotations (annotator, event) "
            "WHERE event != ''"
        )
        yield connection
    finally:
        connection.close()


def add(path: Path, *rows: Annotation) -> None:
    """Store annotations, all or none; they are on disk when this returns."""
    values = [[getattr(row, name) for name in _COLUMNS] for row in rows]
    for row in values:
        for name in _LISTS:
            row[_COLUMNS.index(name)] = json.dumps(row[_COLUMNS.index(name)])
    marks = ", ".join("?" * len(_COLUMNS))
    with _open(path) as connection, connection:
        connection.executemany(
            f"INSERT OR IGNORE INTO annotations ({_NAMES}) VALUES ({marks})", values
        )


def history(path: Path) -> list[Annotation]:
    """Return every event, oldest first."""
    if not path.is_file():
        return []
    with _open(path) as connection:
        rows = connection.execute(f"SELECT {_NAMES} FROM annotations ORDER BY number").fetchall()
    records = [dict(zip(_COLUMNS, row, strict=True)) for row in rows]
    return [
        Annotation(**row | {name: tuple(json.loads(row[name])) for name in _LISTS})
        for row in records
    ]


def current(path: Path) -> list[Annotation]:
    """Return the annotations that count, in the order of their first event."""
    last = {(row.annotator, row.item): row for row in history(path)}
    return [row for row in last.values() if row.choice != WITHDRAWN]
