"""The store of a run: one SQLite file, one writer, content-hash keys, crash-safe.

Rows are inserted under their key with INSERT OR IGNORE and committed in batches: a `kill -9` loses
at most the uncommitted ones and nothing is ever duplicated. A run never deletes rows: changed
settings give new keys, and analyses select rows by the `spec` of the current cards.
"""

import json
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, fields
from itertools import chain
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

from bon.core.errors import UNANSWERED, BonError
from bon.core.images import ImageStore
from bon.core.keys import content_key
from bon.core.ledger import LEDGER, spent_by_spec
from bon.core.records import (
    BY_MODEL,
    Candidate,
    Effort,
    ImageRef,
    Judgement,
    PreferencePair,
    Question,
)
from bon.core.text import unicode_only
from bon.storage.database import DATABASE, guard, open_database, take_lock
from bon.storage.row_validation import MAX_INTEGER, validate_candidate, validate_judgement

COMMIT_ROWS = 2000
COMMIT_SECONDS = 0.5
PAGE = 1000
"""Rows read at once."""

_CANDIDATE_COLUMNS = Candidate._fields
_JUDGEMENT_COLUMNS = Judgement._fields
_EFFORT_COLUMNS = tuple(field.name for field in fields(Effort))
_SHOWN = _JUDGEMENT_COLUMNS.index("shown")


def _names(columns: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in columns)


_INSERT_CANDIDATE, _INSERT_JUDGEMENT = (
    f"INSERT OR IGNORE INTO {table} ({_names(names)}) VALUES ({', '.join('?' * len(names))})"
    for table, names in (("candidates", _CANDIDATE_COLUMNS), ("judgements", _JUDGEMENT_COLUMNS))
)
_CANDIDATES_OF = (
    f"SELECT {_names(_CANDIDATE_COLUMNS)} FROM candidates "
    'WHERE spec = ? AND question = ? AND "index" < ? ORDER BY "index"'
)
_JUDGEMENTS_OF = f"SELECT {_names(_JUDGEMENT_COLUMNS)} FROM judgements WHERE spec = ? AND item = ?"
_SET_META = (
    "INSERT INTO meta VALUES (?, ?) "
    "ON CONFLICT (key) DO UPDATE SET value = excluded.value WHERE value != excluded.value"
)
_ADD_EFFORT = (
    f"INSERT INTO spent (spec, {', '.join(_EFFORT_COLUMNS)}) VALUES (?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (spec) DO UPDATE SET "
    + ", ".join(f"{name} = {name} + excluded.{name}" for name in _EFFORT_COLUMNS)
)


class Store:
    """A run directory; `readonly` opens it beside a running driver."""

    def __init__(self, directory: Path, *, readonly: bool = False) -> None:
        self.directory, self.path, self.readonly = directory, directory / DATABASE, readonly
        self.images, self._guard = ImageStore(directory / "images"), guard(self.path)
        self._lock: IO[str] | None = None
        self._pending_rows, self._last_commit = 0, time.monotonic()
        self._in_transaction = False
        if not readonly:
            directory.mkdir(parents=True, exist_ok=True)
            self._lock = take_lock(directory)
        try:
            self.db = open_database(self.path, readonly=readonly)
            self._inode, self._changes = self._find_inode(), self.db.total_changes
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Commit pending rows and release the lock."""
        db = getattr(self, "db", None)
        try:
            if db is not None:
                if not self.readonly:
                    self.commit()
                db.close()
        finally:
            if self._lock is not None:
                self._lock.close()
                self._lock = None

    def check_exists(self) -> None:
        """Raise BonError if the database was deleted, moved or replaced since it was opened."""
        if self._find_inode() != self._inode:
            fix = "put it back and run the same command again, or start anew with another --out"
            raise BonError(f"{self.path} was deleted or moved while this run was writing it", fix)

    def _find_inode(self) -> tuple[int, int] | None:
        try:
            status = self.path.stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit everything written inside together, or none of it."""
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
        """Insert new candidates and return them validated; `seconds` overrides theirs."""
        valid = [*map(validate_candidate, rows)]
        self._write(_INSERT_CANDIDATE, _timed(valid, seconds))
        return valid

    def add_judgements(
        self, rows: Iterable[Judgement], seconds: float | None = None
    ) -> list[Judgement]:
        """Insert new judgements and return them validated; `seconds` overrides theirs."""
        valid = [*map(validate_judgement, rows)]
        self._write(_INSERT_JUDGEMENT, [*map(judgement_values, _timed(valid, seconds))])
        return valid

    def add_effort(self, spec: str, effort: Effort) -> None:
        """Add to the effort spent under a spec."""
        self._write(_ADD_EFFORT, [(spec, *astuple(effort))])

    def set_questions(self, rows: Iterable[Question]) -> int:
        """Make these the active questions, in this order; return their number."""
        return self._set_active("questions", (("", row) for row in rows))

    def set_pairs(self, rows: Iterable[tuple[str, PreferencePair]]) -> int:
        """Make these the active (benchmark, pair)s, in this order; return their number."""
        return self._set_active("pairs", rows)

    def set_bad_rows(self, rows: Iterable[tuple[str, str, str]]) -> None:
        """Replace the recorded (dataset, id, reason) of unreadable dataset rows."""
        clean, counts = [], Counter[tuple[str, ...]]()
        for row in rows:  # ids may repeat, and every row counts
            dataset, name, reason = key = tuple(map(unicode_only, row))
            counts[key] += 1
            clean.append((dataset, name if counts[key] == 1 else f"{name} ({counts[key]})", reason))
        if sorted({*clean}) != sorted(self.query("SELECT dataset, id, reason FROM bad_rows")):
            with self._guard:
                self.db.execute("DELETE FROM bad_rows")
            self._write("INSERT OR IGNORE INTO bad_rows VALUES (?, ?, ?)", clean)
        self.commit()

    def mark_leaked(self, questions: Iterable[str], pairs: Iterable[str]) -> None:
        """Mark questions and pairs that occur in both the benchmark and the downstream set."""
        with self._guard:
            for table, keys in (("questions", questions), ("pairs", pairs)):
                marked = {key for (key,) in self.query(f"SELECT key FROM {table} WHERE leaked")}
                sql = f"UPDATE {table} SET leaked = 1 - leaked WHERE key = ?"
                self.db.executemany(sql, [(key,) for key in marked ^ {*keys}])
        self.commit()

    def set_answers(self, rows: Iterable[tuple[str | None, str, str]]) -> None:
        """Update parsed answers: (answer, outcome, candidate key)."""
        self._write("UPDATE candidates SET answer = ?, outcome = ? WHERE key = ?", list(rows))

    def set_readings(self, rows: Iterable[Judgement]) -> None:
        """Update the parsed outcome of judgements under their keys."""
        valid = map(validate_judgement, rows)
        self._write(
            "UPDATE judgements SET outcome = ?, score = ?, first = ?, error = ? WHERE key = ?",
            [(row.outcome, row.score, row.first, row.error, row.key) for row in valid],
        )

    def set_meta(self, **values: Any) -> None:
        """Store JSON values by name."""
        rows = [(key, json.dumps(value)) for key, value in values.items()]
        self._write(_SET_META, rows)
        self.commit()

    def forget_errors(self, *, always: bool = False) -> int:
        """Delete rows whose outcome is `error`, so that they are asked again; return their number.

        What no try has answered always goes, the others until all of them have failed once more.
        """
        tables = ("candidates", "judgements")
        refused = f"outcome = 'error' AND error NOT LIKE '{UNANSWERED}%'"
        sql = " UNION ALL ".join(f"SELECT key FROM {table} WHERE {refused}" for table in tables)
        failed = content_key(*sorted(key for (key,) in self.query(sql)))
        again = always or failed != self.meta("failed_again")
        these = "outcome = 'error'" + ("" if again else f" AND NOT ({refused})")
        with self._guard:
            count = sum(
                self.db.execute(f"DELETE FROM {table} WHERE {these}").rowcount for table in tables
            )
        self.set_meta(failed_again=failed)
        return count

    @property
    def changed(self) -> bool:
        """Whether anything that is not committed differs from what was there."""
        return self.db.total_changes != self._changes

    def commit(self) -> None:
        """Commit what was written, under a new `state` if it changes anything.

        A transaction commits at its end.
        """
        if self._in_transaction:
            return
        with self._guard:
            if self.changed:
                self.db.execute(_SET_META, ("state", json.dumps(uuid4().hex)))
            self.db.commit()
        self._pending_rows, self._changes = 0, self.db.total_changes
        self._last_commit = time.monotonic()

    # -- reading -------------------------------------------------------------------------

    @property
    def state(self) -> str:
        """The name of the last commit, by which results know whether the run has changed since."""
        return str(self.meta("state", ""))

    def meta(self, key: str, default: Any = None) -> Any:
        """Return the JSON value stored under a name."""
        row = self._one("SELECT value FROM meta WHERE key = ?", (key,))
        try:
            return default if row is None else json.loads(row[0])
        except ValueError:
            fix = "put a copy of the database back, or delete the entry and run again"
            raise BonError(f"{self.path}: its entry {key!r} cannot be read", fix) from None

    def count(self, table: str, where: str = "1", parameters: Sequence[Any] = ()) -> int:
        """Count the rows of a table that satisfy a condition."""
        return int(self.query(f"SELECT COUNT(*) FROM {table} WHERE {where}", parameters)[0][0])

    def has(self, table: str, where: str = "1", parameters: Sequence[Any] = ()) -> bool:
        """Return whether any row of a table satisfies a condition."""
        return self._one(f"SELECT 1 FROM {table} WHERE {where} LIMIT 1", parameters) is not None

    def questions(self) -> Iterator[Question]:
        """Iterate over the active questions in order."""
        spec = self.meta("grading", "")
        grades: defaultdict[str, dict[str, float]] = defaultdict(dict)
        for item, text, grade in self.graded(spec) if spec else ():
            grades[item][text] = grade
        for (data,) in self._pages("questions", "data"):
            question = self.read_question(data)
            if question.grader == BY_MODEL:
                question.meta["grades"] = grades.get(question.grading_key, {})
            yield question

    def graded(self, spec: str) -> list[tuple[str, str, float]]:
        """Return item, text key and mean grade of what a model has graded."""
        return self.query(
            "SELECT item, first, AVG(score) FROM judgements WHERE spec = ? "
            "AND outcome = 'scored' GROUP BY item, first",
            (spec,),
        )

    def pairs(self) -> Iterator[tuple[str, PreferencePair]]:
        """Iterate over the active (benchmark, pair)s in order."""
        for benchmark, data in self._pages("pairs", "benchmark, data"):
            yield benchmark, self.read_pair(data)

    def errors(self, table: str, spec: str, only: str = "") -> int:
        """Count the rows of a spec whose outcome is `error`, with an error that begins so."""
        where = "spec = ? AND outcome = 'error' AND error LIKE ?"
        return self.count(table, where, (spec, f"{only}%"))

    def cost(self) -> float:
        """Return the cost of the run so far in US dollars."""
        return sum(self.costs().values())

    def costs(self) -> dict[str, float]:
        """Return US dollars by spec: the larger of ledger and rows.

        Rows alone record engines of other packages and versions without a ledger.
        """
        rows: defaultdict[str, float] = defaultdict(float)
        for (_, spec), dollars in self.row_costs().items():
            rows[spec] += dollars
        costs = spent_by_spec(self.directory / LEDGER)
        return costs | {spec: max(rows[spec], costs.get(spec, 0.0)) for spec in rows}

    def row_costs(self) -> dict[tuple[str, str], float]:
        """Return the US dollars recorded in rows, by (model, spec)."""
        rows = self.query(
            "SELECT policy, spec, TOTAL(cost) FROM candidates GROUP BY policy, spec UNION ALL "
            "SELECT rewarder, spec, TOTAL(cost) FROM judgements GROUP BY rewarder, spec"
        )
        return {(model, spec): dollars for model, spec, dollars in rows if dollars > 0}

    def effort(self, spec: str) -> Effort | None:
        """Return the effort spent under a spec, if any."""
        row = self._one(f"SELECT {_names(_EFFORT_COLUMNS)} FROM spent WHERE spec = ?", (spec,))
        return None if row is None else Effort(*row)

    def all_questions(self) -> dict[str, Question]:
        """Return every question by key, also inactive ones."""
        rows = self.query("SELECT key, data FROM questions")
        return {key: self.read_question(data) for key, data in rows}

    def question(self, key: str) -> Question | None:
        """Return a question by key."""
        row = self._one("SELECT data FROM questions WHERE key = ?", (key,))
        return None if row is None else self.read_question(row[0])

    def stored(
        self, table: str, columns: str, spec: str, items: Sequence[str]
    ) -> dict[str, set[tuple[Any, ...]]]:
        """Return columns of what is stored under a spec on each of these questions or pairs."""
        item = "question" if table == "candidates" else "item"
        places = ", ".join("?" * len(items))
        sql = f"SELECT {item}, {columns} FROM {table} WHERE spec = ? AND {item} IN ({places})"
        found: dict[str, set[tuple[Any, ...]]] = {key: set() for key in items}
        for key, *values in self.query(sql, (spec, *items)):
            found[key].add(tuple(values))
        return found

    def candidates(self, spec: str, question: str, n: int = MAX_INTEGER) -> list[Candidate]:
        """Return the first n candidates of a question under a spec, by index."""
        return [*map(Candidate._make, self.query(_CANDIDATES_OF, (spec, question, n)))]

    def judgements(self, spec: str, item: str) -> list[Judgement]:
        """Return the judgements of an item under a spec, by key."""
        return [parse_judgement(row) for row in sorted(self.query(_JUDGEMENTS_OF, (spec, item)))]

    def replies(self, spec: str) -> Iterator[list[Judgement]]:
        """Iterate over pages of the judgements under a spec, without errors."""
        last = ""
        while rows := self.query(
            f"SELECT {_names(_JUDGEMENT_COLUMNS)} FROM judgements "
            "WHERE key > ? AND +spec = ? AND outcome != 'error' ORDER BY key LIMIT ?",
            (last, spec, PAGE),  # + keeps SQLite on the primary key
        ):
            last = rows[-1][0]
            yield [parse_judgement(row) for row in rows]

    def read_question(self, data: str) -> Question:
        """Parse a question; TypeError, ValueError or KeyError if its data is damaged."""
        raw = json.loads(data)
        raw |= {"options": tuple(raw["options"]), "images": self._refs(raw["images"])}
        return Question(**raw)

    def read_pair(self, data: str) -> PreferencePair:
        """Parse a pair; TypeError, ValueError or KeyError if its data is damaged."""
        raw = json.loads(data)
        first, second = raw["responses"]
        raw |= {"responses": (first, second), "images": self._refs(raw["images"])}
        return PreferencePair(**raw)

    def stored_judgements(self, spec: str | None = None) -> Iterator[Judgement]:
        """Iterate over all stored judgements, of a spec if given, without validation."""
        where, parameters = ("1", ()) if spec is None else ("spec = ? ORDER BY item, key", (spec,))
        sql = f"SELECT {_names(_JUDGEMENT_COLUMNS)} FROM judgements WHERE {where}"
        with self._guard:
            yield from map(parse_judgement, self.db.execute(sql, parameters))

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a SELECT."""
        with self._guard:
            return self.db.execute(sql, parameters).fetchall()

    # -- inside --------------------------------------------------------------------------

    def _write(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        if not rows:
            return
        with self._guard:
            self.db.executemany(sql, rows)
        self._pending_rows += len(rows)
        late = time.monotonic() - self._last_commit >= COMMIT_SECONDS
        if late or self._pending_rows >= COMMIT_ROWS:
            self.commit()

    def _set_active(self, table: str, rows: Iterable[tuple[str, Question | PreferencePair]]) -> int:
        same = cleaned = 0
        extra, value = ("benchmark, ", "?, ") if table == "pairs" else ("", "")
        sql = (
            f"INSERT INTO {table} (key, {extra}data, active) VALUES (?, {value}?, ?) "
            "ON CONFLICT (key) DO UPDATE SET active = excluded.active, data = excluded.data"
        )

        def values() -> Iterator[tuple[Any, ...]]:
            nonlocal cleaned
            for active, (benchmark, row) in enumerate(rows, 1):
                raw = _dump(row)
                data = unicode_only(raw)
                cleaned += data != raw
                middle = (unicode_only(benchmark),) if table == "pairs" else ()
                yield row.key, *middle, data, active

        # Only what follows the rows that are stored already is written.
        given, first = values(), []
        stored = self._pages(table, f"key, {extra}data, active")
        for row in given:
            if row != next(stored, None):
                first = [row]
                break
            same += 1
        with self._guard:
            self.db.execute(f"UPDATE {table} SET active = 0 WHERE active > ?", (same,))
            self.db.executemany(sql, chain(first, given))
        self.set_meta(**{f"cleaned_{table}": cleaned})
        return self.count(table, "active > 0")

    def _pages(self, table: str, columns: str) -> Iterator[tuple[Any, ...]]:
        sql = f"SELECT {columns}, active FROM {table} WHERE active > ? ORDER BY active LIMIT ?"
        last = 0
        while rows := self.query(sql, (last, PAGE)):
            last = rows[-1][-1]
            yield from (row[:-1] for row in rows)

    def _refs(self, hashes: list[str]) -> tuple[ImageRef, ...]:
        return tuple(ImageRef(sha256, str(self.images.path(sha256))) for sha256 in hashes)

    def _one(self, sql: str, parameters: Sequence[Any]) -> tuple[Any, ...] | None:
        return next(iter(self.query(sql, parameters)), None)


def _dump(row: Question | PreferencePair) -> str:
    """Serialise a record; images by hash only, so that a run directory can be moved."""
    raw = {field.name: getattr(row, field.name) for field in fields(row)}
    raw["images"] = [image.sha256 for image in row.images]
    return json.dumps(raw, ensure_ascii=False)


def _timed(rows: Sequence[tuple[Any, ...]], seconds: float | None) -> Sequence[tuple[Any, ...]]:
    """Return rows as values, with these seconds in place of theirs, if given."""
    return rows if seconds is None else [(*row[:-3], seconds, *row[-2:]) for row in rows]


def judgement_values(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a judgement as the values of its table's columns."""
    return (*row[:_SHOWN], ",".join(row[_SHOWN]), *row[_SHOWN + 1 :])


def parse_judgement(row: tuple[Any, ...]) -> Judgement:
    """Return the judgement of a row of its table."""
    shown = tuple(row[_SHOWN].split(",")) if row[_SHOWN] else ()
    return Judgement._make((*row[:_SHOWN], shown, *row[_SHOWN + 1 :]))
