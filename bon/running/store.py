"""A run's tables: one SQLite file, one writer, content-hash keys, crash-safe.

Every row is inserted under its key with INSERT OR IGNORE, in batches committed together, so
a `kill -9` loses at most what was not yet committed and nothing is ever doubled. Rows are
never deleted by a run: changed settings get new keys, and the ones that an analysis reads are
chosen by the `spec` of today's cards.
"""

import json
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from operator import attrgetter
from pathlib import Path
from types import TracebackType
from typing import IO, Any, cast

from bon.core.errors import BonError
from bon.core.images import ImageStore
from bon.core.records import Candidate, Effort, ImageRef, Judgement, PreferencePair, Question
from bon.core.text import unicode_only
from bon.running.database import DATABASE, failure, guard, open_database, take_lock
from bon.running.door import readable, sound_candidate, sound_judgement

COMMIT_ROWS = 2000
COMMIT_SECONDS = 0.5

_CANDIDATE_COLUMNS = Candidate._fields
_JUDGEMENT_COLUMNS = Judgement._fields
_EFFORT_COLUMNS = tuple(field.name for field in fields(Effort))


def _names(columns: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in columns)


def _insert(table: str, columns: Sequence[str]) -> str:
    marks = ", ".join("?" * len(columns))
    return f"INSERT OR IGNORE INTO {table} ({_names(columns)}) VALUES ({marks})"


_INSERT_CANDIDATE = _insert("candidates", _CANDIDATE_COLUMNS)
_INSERT_JUDGEMENT = _insert("judgements", _JUDGEMENT_COLUMNS)
_CANDIDATES_OF = (
    f"SELECT {_names(_CANDIDATE_COLUMNS)} FROM candidates "
    'WHERE spec = ? AND question = ? ORDER BY "index"'
)
_JUDGEMENTS_OF = f"SELECT {_names(_JUDGEMENT_COLUMNS)} FROM judgements WHERE spec = ? AND item = ?"
_ADD_EFFORT = (
    f"INSERT INTO spent (spec, {', '.join(_EFFORT_COLUMNS)}) VALUES (?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (spec) DO UPDATE SET "
    + ", ".join(f"{name} = {name} + excluded.{name}" for name in _EFFORT_COLUMNS)
)
_EFFORT: Callable[[Any], tuple[Any, ...]] = attrgetter(*_EFFORT_COLUMNS)
_SHOWN = _JUDGEMENT_COLUMNS.index("shown")
_SECONDS = -3
"""`seconds`, `cost` and `error` end both kinds of rows."""


class Store:
    """One run directory. `readonly` opens it beside a running driver."""

    def __init__(self, directory: Path, *, readonly: bool = False) -> None:
        self.directory = directory
        self.readonly = readonly
        self.path = directory / DATABASE
        self.images = ImageStore(directory / "images")
        self._lock: IO[str] | None = None
        self._pending_rows = 0
        self._last_commit = time.monotonic()
        self._in_transaction = False
        if not readonly:
            directory.mkdir(parents=True, exist_ok=True)
            self._lock = take_lock(directory)
        try:
            self.db = open_database(self.path, readonly=readonly)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Store":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Commit what is pending and let go of the run."""
        db = getattr(self, "db", None)
        try:
            if db is not None:
                if not self.readonly:
                    with guard(self.path):
                        db.commit()
                db.close()
        finally:
            if self._lock is not None:
                self._lock.close()
                self._lock = None

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All that is written inside becomes durable together, or nothing of it."""
        assert not self._in_transaction
        self.commit()
        self._in_transaction = True
        try:
            yield
        except BaseException:
            self.db.rollback()
            raise
        finally:
            self._in_transaction = False
        self.commit()

    # -- writing -------------------------------------------------------------------------

    def add_candidates(
        self, rows: Iterable[Candidate], seconds: float | None = None
    ) -> list[Candidate]:
        """Insert candidates that are not there yet; returns them as they were made sound.

        `seconds` of a worker's time are written for each, where they are given.
        """
        sound = [sound_candidate(row) for row in rows]
        self._write(_INSERT_CANDIDATE, _timed(sound, seconds))
        return sound

    def add_judgements(
        self, rows: Iterable[Judgement], seconds: float | None = None
    ) -> list[Judgement]:
        """Insert judgements that are not there yet; returns them as they were made sound.

        `seconds` of a worker's time are written for each, where they are given.
        """
        sound = [sound_judgement(row) for row in rows]
        values = _timed(sound, seconds)
        written = [(*row[:_SHOWN], ",".join(row[_SHOWN]), *row[_SHOWN + 1 :]) for row in values]
        self._write(_INSERT_JUDGEMENT, written)
        return sound

    def add_effort(self, spec: str, effort: Effort) -> None:
        """Add to what work under a spec has taken."""
        self._write(_ADD_EFFORT, [(spec, *_EFFORT(effort))])

    def set_questions(self, rows: Iterable[Question]) -> int:
        """Make these the active questions, in this order; returns how many."""
        return self._set_active("questions", (("", row) for row in rows))

    def set_pairs(self, rows: Iterable[tuple[str, PreferencePair]]) -> int:
        """Make these the active (benchmark, pair)s, in this order; returns how many."""
        return self._set_active("pairs", rows)

    def set_bad_rows(self, rows: Iterable[tuple[str, str, str]]) -> None:
        """Record (dataset, id, reason) of the rows that could not be read, and of no others."""
        with guard(self.path):
            self.db.execute("DELETE FROM bad_rows")
        clean, times = [], Counter[tuple[str, ...]]()
        for row in rows:  # ids may repeat, and every row counts
            dataset, name, reason = map(unicode_only, row)
            times[dataset, name, reason] += 1
            count = times[dataset, name, reason]
            clean.append((dataset, name if count == 1 else f"{name} ({count})", reason))
        self._write("INSERT OR IGNORE INTO bad_rows VALUES (?, ?, ?)", clean)
        self.commit()

    def mark_leaked(self, questions: Iterable[str], pairs: Iterable[str]) -> None:
        """Mark the questions and pairs that are in both the benchmark and the downstream set."""
        with guard(self.path):
            for table, keys in (("questions", questions), ("pairs", pairs)):
                self.db.execute(f"UPDATE {table} SET leaked = 0")
                self.db.executemany(
                    f"UPDATE {table} SET leaked = 1 WHERE key = ?", [(key,) for key in keys]
                )
        self.commit()

    def set_answers(self, rows: Iterable[tuple[str | None, str, str]]) -> None:
        """Re-read answers: (answer, outcome, candidate key)."""
        self._write("UPDATE candidates SET answer = ?, outcome = ? WHERE key = ?", list(rows))

    def set_readings(self, rows: Iterable[Judgement]) -> None:
        """Re-read judgements: what they say now, under the keys that they have."""
        sound = map(sound_judgement, rows)
        self._write(
            "UPDATE judgements SET outcome = ?, score = ?, first = ?, error = ? WHERE key = ?",
            [(row.outcome, row.score, row.first, row.error, row.key) for row in sound],
        )

    def set_meta(self, **values: Any) -> None:
        """Write JSON values under names."""
        rows = [(key, json.dumps(value)) for key, value in values.items()]
        self._write("INSERT OR REPLACE INTO meta VALUES (?, ?)", rows)
        self.commit()

    def forget_errors(self) -> int:
        """Drop rows whose outcome is `error`, so that running again tries them again."""
        count = 0
        with guard(self.path):
            for table in ("candidates", "judgements"):
                count += self.db.execute(f"DELETE FROM {table} WHERE outcome = 'error'").rowcount
        self.commit()
        return count

    def commit(self) -> None:
        """Make everything written so far durable; inside a transaction its end does that."""
        if self._in_transaction:
            return
        with guard(self.path):
            self.db.commit()
        self._pending_rows = 0
        self._last_commit = time.monotonic()

    # -- reading -------------------------------------------------------------------------

    def meta(self, key: str, default: Any = None) -> Any:
        """The JSON value under a name."""
        row = self._one("SELECT value FROM meta WHERE key = ?", (key,))
        try:
            return default if row is None else json.loads(row[0])
        except ValueError:
            raise BonError(
                f"{self.path}: its entry {key!r} cannot be read",
                f"bon doctor {self.directory} --repair",
            ) from None

    def count(self, table: str, where: str = "1", parameters: Sequence[Any] = ()) -> int:
        """Number of rows of a table that satisfy a condition."""
        row = self._one(f"SELECT COUNT(*) FROM {table} WHERE {where}", parameters)
        return int(cast(tuple[int], row)[0])

    def has(self, table: str, where: str = "1", parameters: Sequence[Any] = ()) -> bool:
        """Whether any row of a table satisfies a condition."""
        return self._one(f"SELECT 1 FROM {table} WHERE {where} LIMIT 1", parameters) is not None

    def questions(self, *, page: int = 256) -> Iterator[Question]:
        """The active questions in order, read a page at a time."""
        for data in self._pages("questions", page):
            yield self.read_question(data)

    def pairs(self, *, page: int = 256) -> Iterator[tuple[str, PreferencePair]]:
        """The active (benchmark, pair)s in order, read a page at a time."""
        for data in self._pages("pairs", page, column="benchmark || char(31) || data"):
            benchmark, _, text = data.partition("\x1f")
            yield benchmark, self.read_pair(text)

    def errors(self, table: str, spec: str) -> int:
        """Rows of a model's spec whose outcome is `error`."""
        return self.count(table, "spec = ? AND outcome = 'error'", (spec,))

    def cost(self) -> float:
        """US dollars that the run has cost so far."""
        rows = self.query(
            "SELECT (SELECT TOTAL(cost) FROM candidates) + (SELECT TOTAL(cost) FROM judgements)"
        )
        return float(rows[0][0])

    def effort(self, spec: str) -> Effort | None:
        """What work under a spec has taken; None where an earlier version did it."""
        if not self.has("sqlite_master", "name = 'spent'"):
            return None
        row = self._one(f"SELECT {_names(_EFFORT_COLUMNS)} FROM spent WHERE spec = ?", (spec,))
        return None if row is None else Effort(*row)

    def options(self) -> dict[str, tuple[str, ...]]:
        """Question key -> its options, of every question, also those not asked today."""
        rows = self.query("SELECT key, data FROM questions")
        return {key: tuple(json.loads(data)["options"]) for key, data in rows}

    def question(self, key: str) -> Question | None:
        """One question by key."""
        row = self._one("SELECT data FROM questions WHERE key = ?", (key,))
        return None if row is None else self.read_question(row[0])

    def pair(self, key: str) -> PreferencePair:
        """One pair that the run has, by key."""
        return self.read_pair(self.query("SELECT data FROM pairs WHERE key = ?", (key,))[0][0])

    def indices(self, spec: str, question: str) -> set[int]:
        """Which candidates of a question there are under a policy's spec."""
        rows = self.query(
            'SELECT "index" FROM candidates WHERE spec = ? AND question = ?', (spec, question)
        )
        return {index for (index,) in rows}

    def candidates(self, spec: str, question: str) -> list[Candidate]:
        """All candidates of a question under a policy's spec, by index."""
        return [*map(Candidate._make, self.query(_CANDIDATES_OF, (spec, question)))]

    def judgements(self, spec: str, item: str) -> list[Judgement]:
        """All judgements of an item under a rewarder's spec, by key."""
        return [_judgement(row) for row in sorted(self.query(_JUDGEMENTS_OF, (spec, item)))]

    def replies(self, spec: str, *, page: int = 2000) -> Iterator[list[Judgement]]:
        """All judgements under a rewarder's spec but errors, a page at a time."""
        after = ""
        while True:
            rows = self.query(
                f"SELECT {_names(_JUDGEMENT_COLUMNS)} FROM judgements "
                "WHERE key > ? AND +spec = ? AND outcome != 'error' ORDER BY key LIMIT ?",
                (after, spec, page),  # + leaves the order of the keys to the primary key
            )
            if not rows:
                return
            after = rows[-1][0]
            yield [_judgement(row) for row in rows]

    def read_question(self, data: str) -> Question:
        """A question from its `data`; TypeError, ValueError or KeyError where that is damaged."""
        raw = json.loads(data)
        return Question(
            **{**raw, "options": tuple(raw["options"]), "images": self._refs(raw["images"])}
        )

    def read_pair(self, data: str) -> PreferencePair:
        """A pair from its `data`; TypeError, ValueError or KeyError where that is damaged."""
        raw = json.loads(data)
        first, second = raw["responses"]
        images = self._refs(raw["images"])
        return PreferencePair(**{**raw, "responses": (first, second), "images": images})

    def stored_candidates(self) -> Iterator[Candidate]:
        """Every candidate of the run as it is stored."""
        yield from map(Candidate._make, self._rows("candidates", _CANDIDATE_COLUMNS))

    def stored_judgements(self, spec: str | None = None) -> Iterator[Judgement]:
        """Every judgement of the run or of a spec as it is stored, also where it means nothing."""
        yield from map(_stored, self._rows("judgements", _JUDGEMENT_COLUMNS, spec))

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Rows of a SELECT."""
        try:
            return self.db.execute(sql, parameters).fetchall()
        except sqlite3.DatabaseError as error:
            raise failure(self.path, error) from None

    # -- inside --------------------------------------------------------------------------

    def _write(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        if not rows:
            return
        with guard(self.path):
            self.db.executemany(sql, rows)
        self._pending_rows += len(rows)
        if (
            self._pending_rows >= COMMIT_ROWS
            or time.monotonic() - self._last_commit >= COMMIT_SECONDS
        ):
            self.commit()

    def _set_active(self, table: str, rows: Iterable[tuple[str, Question | PreferencePair]]) -> int:
        count = cleaned = 0
        extra, value = ("benchmark, ", "?, ") if table == "pairs" else ("", "")
        sql = (
            f"INSERT INTO {table} (key, {extra}data, active) VALUES (?, {value}?, ?) "
            "ON CONFLICT (key) DO UPDATE SET active = excluded.active, data = excluded.data"
        )

        def values() -> Iterator[tuple[Any, ...]]:
            nonlocal count, cleaned
            for benchmark, row in rows:
                count += 1
                raw = _dump(row)
                data = unicode_only(raw)
                cleaned += data != raw
                middle = (unicode_only(benchmark),) if table == "pairs" else ()
                yield row.key, *middle, data, count

        with guard(self.path):
            self.db.execute(f"UPDATE {table} SET active = 0")
            self.db.executemany(sql, values())
        self.set_meta(**{f"cleaned_{table}": cleaned})
        return self.count(table, "active > 0")

    def _pages(self, table: str, page: int, column: str = "data") -> Iterator[str]:
        after = 0
        while True:
            rows = self.query(
                f"SELECT active, {column} FROM {table} WHERE active > ? ORDER BY active LIMIT ?",
                (after, page),
            )
            if not rows:
                return
            for active, data in rows:
                after = active
                yield data

    def _refs(self, hashes: list[str]) -> tuple[ImageRef, ...]:
        return tuple(ImageRef(sha256, str(self.images.path(sha256))) for sha256 in hashes)

    def _rows(
        self, table: str, columns: Sequence[str], spec: str | None = None
    ) -> Iterator[tuple[Any, ...]]:
        where, parameters = ("1", ()) if spec is None else ("spec = ? ORDER BY item, key", (spec,))
        with guard(self.path):
            yield from self.db.execute(
                f"SELECT {_names(columns)} FROM {table} WHERE {where}", parameters
            )

    def _one(self, sql: str, parameters: Sequence[Any]) -> tuple[Any, ...] | None:
        with guard(self.path):
            row = self.db.execute(sql, parameters).fetchone()
        return cast("tuple[Any, ...] | None", row)


def _dump(row: Question | PreferencePair) -> str:
    """JSON of a record; of its images only the hash, so that a run directory can be moved."""
    raw = {field.name: getattr(row, field.name) for field in fields(row)}
    raw["images"] = [image.sha256 for image in row.images]
    return json.dumps(raw, ensure_ascii=False)


def _timed(
    rows: Sequence[Candidate | Judgement], seconds: float | None
) -> Sequence[tuple[Any, ...]]:
    """The values of rows, each with these seconds where they are given."""
    if seconds is None:
        return rows
    return [(*row[:_SECONDS], seconds, *row[_SECONDS + 1 :]) for row in rows]


def _stored(row: tuple[Any, ...]) -> Judgement:
    shown = tuple(row[_SHOWN].split(",")) if row[_SHOWN] else ()
    return Judgement._make((*row[:_SHOWN], shown, *row[_SHOWN + 1 :]))


def _judgement(row: tuple[Any, ...]) -> Judgement:
    found = _stored(row)
    # Also rows of an earlier version, which stored them unchecked.
    outcome, score, _ = readable(
        found.outcome, found.score, two=found.second is not None, listed=len(found.shown)
    )
    same = outcome == found.outcome and score == found.score
    return found if same else found._replace(outcome=outcome, score=score)
