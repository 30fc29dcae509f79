"""Salvage a damaged database: copy every readable row, from both ends of a table."""

import shutil
import sqlite3
from datetime import datetime
from pathlib import Path

from bon.core.errors import BonError
from bon.storage.database import DATABASE, create, open_database, take_lock

TABLES = ("meta", "questions", "pairs", "bad_rows", "candidates", "judgements", "spent")


def damage_of(directory: Path) -> str:
    """Describe the damage of a run's database; empty for a sound one.

    Raises BonError if it is no database at all.
    """
    try:
        db = open_database(directory / DATABASE, readonly=True)
        problems = [text for (text,) in db.execute("PRAGMA integrity_check(20)")]
        db.close()
    except sqlite3.DatabaseError as error:
        problems = [str(error)]
    return "" if problems == ["ok"] else " ".join(problems[0].split())


def repair(directory: Path) -> Path:
    """Salvage the database of a run and return the folder with its backup."""
    with take_lock(directory):
        folder = directory / f"backup-{datetime.now():%Y%m%dT%H%M%S.%f}"
        folder.mkdir()
        for part in (directory / DATABASE, directory / f"{DATABASE}-wal"):
            if part.exists():
                shutil.copy2(part, folder / part.name)
        salvage(directory / DATABASE)
    return folder


def salvage(database: Path) -> None:
    """Replace a damaged database by one of its readable rows.

    Raises:
        BonError: no row can be read; the file is not changed.
    """
    fresh = database.with_name(f".{database.name}.salvage")
    create(fresh)
    old, new = sqlite3.connect(database), sqlite3.connect(fresh)
    old.text_factory = lambda text: text.decode("utf-8", "replace")
    try:
        for table in TABLES:
            order = "spec" if table == "spent" else "rowid"
            _copy(old, new, table, order) or _copy(old, new, table, f"{order} DESC")
        new.commit()
        saved = any(new.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() for table in TABLES)
    finally:
        old.close()
        new.close()
    if not saved:
        fresh.unlink()
        fix = "put a copy of it back, or move it aside"
        raise BonError(f"no row of {database} can be read", fix)
    for ending in ("-wal", "-shm"):
        database.with_name(database.name + ending).unlink(missing_ok=True)
    fresh.replace(database)


def _copy(old: sqlite3.Connection, new: sqlite3.Connection, table: str, order: str) -> bool:
    """Copy rows until one cannot be read; return whether all were copied."""
    try:
        names = [row[1] for row in new.execute(f"PRAGMA table_info({table})")]
        columns, places = ", ".join(f'"{n}"' for n in names), ", ".join("?" * len(names))
        rows = old.execute(f"SELECT {columns} FROM {table} ORDER BY {order}")
        for row in rows:
            new.execute(f"INSERT OR IGNORE INTO {table} ({columns}) VALUES ({places})", row)
    except sqlite3.DatabaseError:
        return False
    return True
