"""Create, open, lock and salvage the SQLite file of a run."""

import contextlib
import fcntl
import os
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from bon.core.errors import BonError
from bon.core.files import SqliteErrors
from bon.core.ledger import LEDGER, check_ledger

DATABASE = "run.sqlite"
SCHEMA_VERSION = 2
"""Rises where the same card gives other keys, too: rows under the old ones are bought again."""
CACHE_KIB = 32 * 1024
CHECKPOINT_KIB = 32 * 1024
TABLES = ("meta", "questions", "pairs", "bad_rows", "candidates", "judgements", "spent")
PAGE = 8192
"""Page size in bytes; smaller pages cost more to write."""

SCHEMA = """
CREATE TABLE spent (
  spec TEXT PRIMARY KEY, busy REAL NOT NULL, waited REAL NOT NULL, loading REAL NOT NULL,
  read INTEGER NOT NULL, cached INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE questions (
  seq INTEGER PRIMARY KEY, key TEXT UNIQUE NOT NULL, active INTEGER NOT NULL,
  leaked INTEGER NOT NULL DEFAULT 0, data TEXT NOT NULL);
CREATE TABLE pairs (
  seq INTEGER PRIMARY KEY, key TEXT UNIQUE NOT NULL, benchmark TEXT NOT NULL,
  active INTEGER NOT NULL, leaked INTEGER NOT NULL DEFAULT 0, data TEXT NOT NULL);
CREATE INDEX questions_active ON questions (active);
CREATE INDEX pairs_active ON pairs (active);
CREATE TABLE bad_rows (
  dataset TEXT NOT NULL, id TEXT NOT NULL, reason TEXT NOT NULL, UNIQUE (dataset, id, reason));
CREATE TABLE candidates (
  key TEXT PRIMARY KEY NOT NULL, question TEXT NOT NULL, policy TEXT NOT NULL, spec TEXT NOT NULL,
  "index" INTEGER NOT NULL, text TEXT NOT NULL, text_key TEXT NOT NULL, answer TEXT,
  outcome TEXT NOT NULL, seed INTEGER NOT NULL, logprob REAL, num_tokens INTEGER NOT NULL,
  num_prompt_tokens INTEGER NOT NULL, finish TEXT NOT NULL, seconds REAL NOT NULL,
  cost REAL NOT NULL, error TEXT NOT NULL);
CREATE INDEX candidates_by_question ON candidates (spec, question, "index");
CREATE INDEX candidates_failed ON candidates (spec) WHERE outcome = 'error';
CREATE TABLE judgements (
  key TEXT PRIMARY KEY NOT NULL, rewarder TEXT NOT NULL, spec TEXT NOT NULL,
  item_kind TEXT NOT NULL, item TEXT NOT NULL, first TEXT NOT NULL, second TEXT,
  vote INTEGER NOT NULL, outcome TEXT NOT NULL, score REAL, text TEXT NOT NULL,
  shown TEXT NOT NULL, prompt_hash TEXT NOT NULL, num_tokens INTEGER NOT NULL,
  num_prompt_tokens INTEGER NOT NULL, seconds REAL NOT NULL, cost REAL NOT NULL,
  error TEXT NOT NULL);
CREATE INDEX judgements_by_item ON judgements (spec, item);
CREATE INDEX judgements_failed ON judgements (spec) WHERE outcome = 'error';
"""


def guard(path: Path) -> SqliteErrors:
    """Convert SQLite errors to BonError."""
    return SqliteErrors(path, f"save every row that can be read: bon doctor {path.parent} --repair")


def open_database(path: Path, *, readonly: bool = False) -> sqlite3.Connection:
    """Open the database of a run; create it if absent, unless `readonly`.

    Raises:
        BonError: the database is missing, empty, damaged or of another version.
    """
    if path.is_file():
        if path.stat().st_size == 0:
            fix = "put a copy of it back, or delete it to start anew"
            raise BonError(f"{path} is empty (0 bytes): it held the rows of this run", fix)
    elif readonly:
        raise BonError(f"no run in {path.parent}", "give the directory that `bon run` wrote")
    else:
        create(path)
    with guard(path):
        if readonly:
            db = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=30)
        else:
            db = sqlite3.connect(path, timeout=30)
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")  # the ledger forgets replies once filed
            page = db.execute("PRAGMA page_size").fetchone()[0]
            db.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_KIB * 1024 // page}")
        # Keys are hashes: inserts touch every page of their index.
        db.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        version = db.execute("PRAGMA user_version").fetchone()[0]
    if version != SCHEMA_VERSION:
        db.close()
        problem = f"{path} has schema version {version}, this is version {SCHEMA_VERSION}"
        raise BonError(problem, "use the version of bon that wrote it, or a new --out directory")
    return db


def create(path: Path) -> None:
    """Create an empty database atomically: a kill leaves a whole one or none."""
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.unlink(missing_ok=True)
    with guard(path):
        db = sqlite3.connect(temporary)
        try:
            db.execute(f"PRAGMA page_size = {PAGE}")
            db.executescript(SCHEMA)
            db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            db.commit()
        finally:
            db.close()
    temporary.replace(path)


class SharedDatabase:
    """One connection in autocommit mode that the threads of a process share, one at a time."""

    def __init__(self, path: Path, synchronous: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path, self._lock = path, threading.RLock()
        path.touch(mode=0o600)
        options: Any = {"timeout": 30, "check_same_thread": False, "isolation_level": None}
        self._db = sqlite3.connect(path, **options)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute(f"PRAGMA synchronous = {synchronous}")

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._db.close()

    @contextlib.contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection, for this thread alone; what is written inside is so as one."""
        with self._lock:
            if self._db.in_transaction:  # inside another
                yield self._db
                return
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
            if self._db.in_transaction:
                self._db.execute("COMMIT")

    def rows(self, statement: str, *values: Any) -> list[Any]:
        """Return the rows of one statement."""
        with self._lock:
            return list(self._db.execute(statement, values))


def take_lock(directory: Path) -> IO[str]:
    """Take the driver's lock on a run directory; closing the file releases it."""
    lock = (directory / "driver.lock").open("a+", encoding="utf-8")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.seek(0)
        owner = lock.read().strip() or "unknown"
        lock.close()
        fix = "wait for it, stop it, or choose another --out"
        raise BonError(f"another driver (process {owner}) is writing {directory}", fix) from None
    lock.truncate(0)
    lock.write(str(os.getpid()))
    lock.flush()
    return lock


# ------------------------------------------------------------------ salvage


def damage_of(directory: Path) -> str:
    """Describe the damage of a run's database or ledger; empty for sound ones.

    Raises BonError if the first is no database at all.
    """
    return _damage_of_rows(directory) or _damage_of_ledger(directory)


def _damage_of_rows(directory: Path) -> str:
    try:
        db = open_database(directory / DATABASE, readonly=True)
        problems = [text for (text,) in db.execute("PRAGMA integrity_check(20)")]
        db.close()
    except sqlite3.DatabaseError as error:
        problems = [str(error)]
    return "" if problems == ["ok"] else " ".join(problems[0].split())


def _damage_of_ledger(directory: Path) -> str:
    try:
        check_ledger(directory / LEDGER)
    except BonError as error:
        return error.message
    return ""


def repair(directory: Path) -> Path:
    """Salvage the database of a run and return the folder with its backup.

    A damaged ledger is moved there: what the run's rows cost is counted from them.
    """
    with take_lock(directory):
        folder = directory / f"backup-{datetime.now():%Y%m%dT%H%M%S.%f}"
        folder.mkdir()
        for part in (directory / DATABASE, directory / f"{DATABASE}-wal"):
            if part.exists():
                shutil.copy2(part, folder / part.name)
        if _damage_of_rows(directory):
            salvage(directory / DATABASE)
        if _damage_of_ledger(directory):
            for part in directory.glob(f"{LEDGER}*"):
                part.rename(folder / part.name)
    return folder


def salvage(database: Path) -> None:
    """Replace a damaged database by one of its readable rows; BonError if there are none."""
    fresh = database.with_name(f".{database.name}.salvage")
    create(fresh)
    old, new = sqlite3.connect(database), sqlite3.connect(fresh)
    old.text_factory = lambda text: text.decode("utf-8", "replace")
    try:
        for table in TABLES:
            order = "spec" if table == "spent" else "rowid"
            _copy(old, new, table, order) or _copy(old, new, table, f"{order} DESC")
        new.execute("DELETE FROM meta WHERE key = 'state'")  # rows may be lost
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
