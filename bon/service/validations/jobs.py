"""The validations and their states in one SQLite file, so that `kill -9` loses none.

Only the supervisor moves a validation between states; a request asks for a move with a statement
that checks the state it starts from.
"""

import json
import logging
import secrets
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

from bon.core.errors import BonError
from bon.service.errors import ApiError
from bon.storage.database import SharedDatabase

State = Literal["queued", "running", "cancelling", "cancelled", "failed", "done"]
STATES: tuple[State, ...] = get_args(State)
FINAL: tuple[State, ...] = ("cancelled", "failed", "done")
SCHEMA_VERSION = 2

_SCHEMA = """
CREATE TABLE IF NOT EXISTS validations (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL, name TEXT NOT NULL,
  owner TEXT NOT NULL, state TEXT NOT NULL, experiment TEXT NOT NULL, created REAL NOT NULL,
  queued REAL NOT NULL, started REAL, finished REAL, attempt INTEGER NOT NULL DEFAULT 0,
  crashes INTEGER NOT NULL DEFAULT 0, retry_errors INTEGER NOT NULL DEFAULT 0,
  error TEXT NOT NULL DEFAULT '');
CREATE INDEX IF NOT EXISTS validations_state ON validations (state);
CREATE TABLE IF NOT EXISTS tokens (
  id TEXT PRIMARY KEY, name TEXT UNIQUE NOT NULL, role TEXT NOT NULL, digest TEXT NOT NULL,
  created REAL NOT NULL, expires REAL);
CREATE TABLE IF NOT EXISTS audit (
  seq INTEGER PRIMARY KEY, time REAL NOT NULL, identity TEXT NOT NULL, client TEXT NOT NULL,
  action TEXT NOT NULL, subject TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS sessions (
  digest TEXT PRIMARY KEY, token TEXT NOT NULL, until REAL NOT NULL);
"""


@dataclass(frozen=True, slots=True)
class Validation:
    """One row. Times are seconds since the epoch; `attempt` counts the processes started."""

    seq: int
    id: str
    name: str
    owner: str
    state: State
    experiment: dict[str, Any]
    created: float
    queued: float
    started: float | None
    finished: float | None
    attempt: int
    crashes: int
    retry_errors: bool
    error: str


_COLUMNS = ", ".join(Validation.__dataclass_fields__)


class Jobs(SharedDatabase):
    """The service's database, whose statements take microseconds."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "FULL")
        with self.write() as db:
            version = db.execute("PRAGMA user_version").fetchone()[0]
            if version not in (0, SCHEMA_VERSION):
                raise BonError(
                    f"{path} has schema version {version}, this is version {SCHEMA_VERSION}",
                    "use the version of bon that wrote it, or another --data directory",
                )
            db.executescript(_SCHEMA)
            db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    # -- requests ------------------------------------------------------------------------

    def add(self, name: str, owner: str, experiment: dict[str, Any]) -> Validation:
        """Queue a validation."""
        now = time.time()
        new = f"v{time.strftime('%y%m%d', time.gmtime(now))}-{secrets.token_hex(5)}"
        self.rows(
            "INSERT INTO validations (id, name, owner, state, experiment, created, queued) "
            "VALUES (?, ?, ?, 'queued', ?, ?, ?)",
            new, name, owner, json.dumps(experiment, ensure_ascii=False), now, now,
        )  # fmt: skip
        return self._where("id = ?", new)[0]

    def get(self, key: str) -> Validation | None:
        """Return a validation by id."""
        return next(iter(self._where("id = ?", key)), None)

    def listed(
        self,
        *,
        state: str | None = None,
        owner: str | None = None,
        text: str | None = None,
        before: int | None = None,
        limit: int = 50,
    ) -> list[Validation]:
        """Return validations, newest first; `before` is the last page's final `seq`."""
        filters = {
            "state = ?": state,
            "owner = ?": owner,
            "instr(lower(name), lower(?)) > 0": text or None,
            "seq < ?": before,
        }
        used = {condition: value for condition, value in filters.items() if value is not None}
        where = " AND ".join(["1", *used])
        return self._where(f"{where} ORDER BY seq DESC LIMIT ?", *used.values(), limit)

    def counts(self) -> dict[str, int]:
        """Return the number of validations by state."""
        rows = self.rows("SELECT state, COUNT(*) FROM validations GROUP BY state")
        return {**dict.fromkeys(STATES, 0), **{state: count for state, count in rows}}

    def num_queued(self, owner: str) -> int:
        """Return the number of an owner's queued validations."""
        return len(self._where("owner = ? AND state = 'queued'", owner))

    def cancel(self, key: str) -> Validation:
        """Move queued to cancelled and running to cancelling; final states stay."""
        with self.write():
            self._move(key, ("queued",), state="cancelled", finished=time.time())
            self._move(key, ("running",), state="cancelling")
            return self._where("id = ?", key)[0]

    def queue_again(self, key: str, *, retry_errors: bool = False) -> Validation:
        """Queue a finished validation again."""
        with self.write():
            moved = self._move(
                key, FINAL, state="queued", queued=time.time(), finished=None, error="",
                crashes=0, retry_errors=int(retry_errors),
            )  # fmt: skip
            validation = self._where("id = ?", key)[0]
        if not moved:
            fix = "cancel it, or wait until it is done"
            raise ApiError(409, f"{key} is {validation.state}", fix)
        return validation

    def delete(self, key: str) -> None:
        """Delete a finished validation."""
        statement = f"DELETE FROM validations WHERE id = ? AND state IN {FINAL} RETURNING id"
        if not self.rows(statement, key):
            raise ApiError(409, f"{key} is queued or running", "cancel it first")

    # -- the audit trail -----------------------------------------------------------------

    def audit(self, identity: str, client: str, action: str, subject: str) -> None:
        """Record who did what to what, and from which address."""
        row = (time.time(), identity, client, action, subject)
        self.rows("INSERT INTO audit VALUES (NULL, ?, ?, ?, ?, ?)", *row)
        extra = {"identity": identity, "client": client}
        logging.getLogger("bon.audit").info("%s %s", action, subject, extra=extra)

    def audited(self, before: int | None = None, limit: int = 200) -> list[dict[str, Any]]:
        """Return entries of the audit trail, newest first; `before` is the last page's `seq`."""
        columns = ("seq", "time", "identity", "client", "action", "subject")
        query = f"SELECT {', '.join(columns)} FROM audit WHERE seq < ? ORDER BY seq DESC LIMIT ?"
        rows = self.rows(query, 2**62 if before is None else before, limit)
        return [dict(zip(columns, row, strict=True)) for row in rows]

    # -- the supervisor ------------------------------------------------------------------

    def in_state(self, *states: State) -> list[Validation]:
        """Return the validations in these states, oldest first."""
        marks = ", ".join("?" * len(states))
        return self._where(f"state IN ({marks}) ORDER BY seq", *states)

    def next_queued(self) -> Validation | None:
        """Return the next validation of the owner with the fewest running, then the least recent.

        An owner with a hundred queued validations does not hold up one who has a single one.
        """
        queued = self._where(
            "state = 'queued' ORDER BY "
            "(SELECT COUNT(*) FROM validations AS v WHERE v.owner = validations.owner "
            "AND v.state IN ('running', 'cancelling')), "
            "(SELECT COALESCE(MAX(v.started), 0) FROM validations AS v "
            "WHERE v.owner = validations.owner), queued, seq LIMIT 1"
        )
        return next(iter(queued), None)

    def start(self, key: str) -> Validation | None:
        """Move queued to running under a new attempt number; None if it no longer is queued."""
        with self.write():
            validation = self.get(key)
            attempt = validation.attempt + 1 if validation else 0
            now = {"attempt": attempt, "started": time.time()}
            return self.get(key) if self._move(key, ("queued",), state="running", **now) else None

    def finish(self, key: str, state: State, error: str = "") -> None:
        """Move running or cancelling to a final state."""
        running: tuple[State, ...] = ("running", "cancelling")
        self._move(key, running, state=state, error=error, finished=time.time())

    def crashed(self, key: str, *, counts: bool) -> None:
        """Move running to queued, in its old place, and cancelling to cancelled."""
        with self.write():
            if (validation := self.get(key)) is not None:
                crashes = validation.crashes + counts
                self._move(key, ("running",), state="queued", crashes=crashes)
                self._move(key, ("cancelling",), state="cancelled", finished=time.time())

    def _move(self, key: str, states: tuple[State, ...], **values: Any) -> bool:
        """Set columns of a validation if it is in one of these states; return whether it was."""
        columns = ", ".join(f"{name} = ?" for name in values)
        marks = ", ".join("?" * len(states))
        where = f"id = ? AND state IN ({marks})"
        statement = f"UPDATE validations SET {columns} WHERE {where} RETURNING id"
        return bool(self.rows(statement, *values.values(), key, *states))

    def _where(self, condition: str, *values: Any) -> list[Validation]:
        rows = self.rows(f"SELECT {_COLUMNS} FROM validations WHERE {condition}", *values)
        validations = [Validation(*row) for row in rows]
        return [
            replace(v, experiment=json.loads(str(v.experiment)), retry_errors=bool(v.retry_errors))
            for v in validations
        ]
