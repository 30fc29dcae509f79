"""The ledger: what models behind endpoints cost, reserved before a request and settled after it.

One ledger belongs to a run (RUN/ledger.sqlite) or a server (DATA/ledger.sqlite) and outlives its
processes; models outside both have one in memory. A request goes out only when the most that it can
cost fits under every cap beside what was spent and what is reserved. A reservation whose outcome
never became known stays spent. A reply that was paid for is kept until its rows are filed, so that
nobody buys it twice.
"""

import sqlite3
import time
import uuid
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bon.core.errors import BonError
from bon.core.files import SqliteErrors

LEDGER = "ledger.sqlite"
BUSY_SECONDS = 20.0
_VERSION = 2
_ROUNDING = 1e-9
_SCHEMA = f"""
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS spent (
  owner TEXT NOT NULL, model TEXT NOT NULL, spec TEXT NOT NULL, dollars REAL NOT NULL,
  factor REAL NOT NULL, PRIMARY KEY (owner, model, spec)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS reserved (
  id TEXT PRIMARY KEY, owner TEXT NOT NULL, model TEXT NOT NULL, spec TEXT NOT NULL,
  dollars REAL NOT NULL, most REAL NOT NULL, until REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, data TEXT NOT NULL) WITHOUT ROWID;
PRAGMA user_version = {_VERSION};
UPDATE reserved SET until = 0;
COMMIT;
"""  # what is reserved was so by processes that are gone
_BOTH = "(SELECT owner, model, spec, dollars, 0 AS until FROM spent UNION ALL "
_BOTH += "SELECT owner, model, spec, dollars, until FROM reserved)"


@dataclass(frozen=True, slots=True)
class Account:
    """Somebody who spends a server's money, with caps in US dollars: their own and everybody's."""

    owner: str
    cap: float
    everybody: float


@dataclass(frozen=True, slots=True)
class Reservation:
    """A request that wants to go out: `most` is its bound, `cap` that of its model, in dollars.

    After `seconds` without a settlement its outcome counts as unknown.
    """

    model: str
    spec: str
    most: float
    cap: float | None = None
    seconds: float = 600.0
    account: Account | None = None
    id: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def owner(self) -> str:
        """Who pays on a server; empty in a run."""
        return self.account.owner if self.account else ""


class Ledger:
    """The writer of a ledger, whose `cap` bounds all of a run's models together, in US dollars.

    Its coroutines are called in this process or, of a Ray actor, from others. A ledger that cannot
    be written refuses every request.
    """

    def __init__(self, path: Path | None = None, cap: float | None = None) -> None:
        """Open it; BonError for a file that is no ledger, is damaged or held by another process."""
        self._cap, self.path, self._unwritten = cap, path or Path(":memory:"), ""
        with _errors(self.path):
            self._db = _connect(path or ":memory:")
            try:
                self._db.execute("PRAGMA journal_mode = WAL")
                self._db.execute("PRAGMA synchronous = FULL")  # power may fail while it is out
                self._db.executescript(_SCHEMA)
            except sqlite3.DatabaseError:
                self._db.close()
                raise

    async def reserve(self, request: Reservation) -> str | None:
        """Reserve and return "", or None to wait for others, or why the request is refused.

        An endpoint that billed more than a request's bound may do so again: later bounds grow by
        that factor. Until the first bill of a model is known, its requests go one at a time.
        """
        try:
            with self._transaction():
                return self._unwritten or self._reserve(request)
        except BonError as error:
            return str(error)

    def _reserve(self, request: Reservation) -> str | None:
        if self._first("SELECT 1 FROM reserved WHERE id = ?", request.id):
            return ""  # asked again: the answer was lost on its way
        billed = "SELECT MAX(factor) FROM spent WHERE model = ? AND dollars > 0"
        factor = self._first(billed, request.model)
        most = request.most * (factor or 1.0)
        account, model = request.account, request.model
        unknown = request.seconds > 0 and factor is None
        waits = False
        caps: list[tuple[float | None, str, dict[str, str]]] = [
            (self._cap, "cluster.spending_cap", {}),
            (request.cap, f"engine_args.spending_cap of {model}", {"model": model}),
        ]
        if account is not None:
            caps += [
                (account.cap, "limits.dollars_per_owner", {"owner": account.owner}),
                (account.everybody, "limits.dollars", {}),
            ]
        for cap, name, owned in caps:
            if cap is None:
                continue
            settled, pending = self._committed(**owned)
            limit = cap * (1 + _ROUNDING)
            if settled + most > limit:
                return (
                    f"{name}, ${cap:,.6g}, is reached: ${settled:,.6g} spent, "
                    f"and the next request may cost ${most:,.2g}"
                )
            waits |= settled + pending + most > limit
            waits |= unknown and self._committed(model=model)[1] > 0
        if waits:
            return None
        until = time.time() + request.seconds if request.seconds else 0.0
        row = request.id, request.owner, model, request.spec, most, request.most, until
        self._db.execute("INSERT INTO reserved VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        return ""

    async def settle(
        self, reservation: str, dollars: float, replies: Mapping[str, str] | None = None
    ) -> None:
        """Replace a reservation by what it cost and keep the replies that it bought.

        Where that cannot be written the reservation stays, and nothing more is reserved.
        """
        query = "SELECT owner, model, spec, most FROM reserved WHERE id = ?"
        try:
            with self._transaction():
                reserved = self._db.execute(query, (reservation,)).fetchone()
                if reserved is None:  # settled before
                    return
                *who, most = reserved
                self._db.execute("DELETE FROM reserved WHERE id = ?", (reservation,))
                self._db.execute(
                    "INSERT INTO spent VALUES (?, ?, ?, ?, ?) ON CONFLICT (owner, model, spec) "
                    "DO UPDATE SET dollars = dollars + excluded.dollars, "
                    "factor = MAX(factor, excluded.factor)",
                    (*who, dollars, max(1.0, dollars / most)),
                )
                rows = (replies or {}).items()
                self._db.executemany("INSERT OR REPLACE INTO replies VALUES (?, ?)", rows)
        except BonError as error:
            self._unwritten = str(error)

    async def bought(self, keys: Collection[str]) -> dict[str, str]:
        """Return the kept replies among these keys."""
        replies = {key: self._first("SELECT data FROM replies WHERE key = ?", key) for key in keys}
        return {key: reply for key, reply in replies.items() if reply is not None}

    async def forget(self, keys: Collection[str]) -> None:
        """Drop kept replies: they are filed."""
        try:
            with self._transaction():
                rows = [(key,) for key in keys]
                self._db.executemany("DELETE FROM replies WHERE key = ?", rows)
        except BonError as error:
            self._unwritten = str(error)

    def carry(self, costs: Mapping[tuple[str, str], float]) -> None:
        """Count what rows of (model, spec) cost where that is more than the ledger knows."""
        with self._transaction():
            self._db.executemany(
                "INSERT INTO spent VALUES ('', ?, ?, ?, 1) ON CONFLICT (owner, model, spec) "
                "DO UPDATE SET dollars = MAX(dollars, excluded.dollars)",
                [(*who, dollars) for who, dollars in costs.items() if dollars > 0],
            )

    def committed(self, **owned: str) -> float:
        """Return what is gone for good, all or by `owner`, `model` or `spec`."""
        with _errors(self.path):
            return self._committed(**owned)[0]

    def settled(self, **owned: str) -> float:
        """Return what is known to be spent, all or by `owner`, `model` or `spec`."""
        where = " AND ".join(["1", *(f"{name} = :{name}" for name in owned)])
        with _errors(self.path):
            query = f"SELECT TOTAL(dollars) FROM spent WHERE {where}"
            return float(self._db.execute(query, owned).fetchone()[0])

    def reservations(self, model: str) -> list[str]:
        """Return the ids of what is reserved under a model."""
        with _errors(self.path):
            rows = self._db.execute("SELECT id FROM reserved WHERE model = ?", (model,))
            return [key for (key,) in rows]

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Write all or nothing, apart from other processes."""
        with _errors(self.path):
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            finally:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")

    def _first(self, query: str, *values: Any) -> Any:
        """Return the first value that a query gives; None if there is none."""
        return next(iter(self._db.execute(query, values).fetchone() or ()), None)

    def _committed(self, **owned: str) -> tuple[float, float]:
        """Return what is spent for good, and what is reserved for requests on their way."""
        where = " AND ".join(["1", *(f"{name} = :{name}" for name in owned)])
        query = "SELECT TOTAL(dollars) FILTER (WHERE until <= :now), "
        query += f"TOTAL(dollars) FILTER (WHERE until > :now) FROM {_BOTH} WHERE {where}"
        settled, pending = self._db.execute(query, {**owned, "now": time.time()}).fetchone()
        return settled, pending


def spent_by_spec(path: Path) -> dict[str, float]:
    """Return what each spec of a run cost, unknown outcomes included; {} without a ledger."""
    if not path.exists():
        return {}
    query = f"SELECT spec, TOTAL(dollars) FROM {_BOTH} WHERE until <= ? GROUP BY spec"
    with (
        _errors(path),
        closing(_connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db,
    ):
        return dict(db.execute(query, (time.time(),)).fetchall())


def check_ledger(path: Path) -> None:
    """Raise BonError for a ledger that is damaged."""
    if not path.exists():
        return
    with _errors(path), closing(_connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
        for (problem,) in db.execute("PRAGMA integrity_check(1)"):
            if problem != "ok":
                raise sqlite3.DatabaseError(problem)
        db.execute(f"SELECT * FROM {_BOTH}").fetchall()


def _errors(path: Path) -> SqliteErrors:
    fix = f"put a copy of it back, or move {path} aside: what the rows cost is counted from them"
    return SqliteErrors(path, fix)


def _connect(path: Path | str, **options: Any) -> sqlite3.Connection:
    """Open a ledger, or a file that may become one; sqlite3.DatabaseError for any other."""
    options |= {"isolation_level": None, "check_same_thread": False, "timeout": BUSY_SECONDS}
    db: sqlite3.Connection = sqlite3.connect(path, **options)
    try:
        (version,) = db.execute("PRAGMA user_version").fetchone()
        (tables,) = db.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
        if tables and version != _VERSION:
            raise sqlite3.DatabaseError("it is no ledger of this version")
    except sqlite3.DatabaseError:
        db.close()
        raise
    return db
