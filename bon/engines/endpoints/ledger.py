"""The ledger: what models behind endpoints cost, reserved before a request and settled after it.

One ledger belongs to a run (RUN/ledger.sqlite) and outlives its processes; an engine outside a run
has one in memory. A request goes out only when the most that it can cost fits under every cap
beside what was spent and what is reserved. A reservation whose outcome never became known stays
spent. A reply that was paid for is kept until its rows are stored, so that nobody buys it twice.
"""

import asyncio
import math
import sqlite3
import time
import uuid
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bon.core.errors import BonError, SpendingCapReached
from bon.engines.metering import within

IMAGE_TOKENS = 1500
"""Tokens that an image is taken for."""

_LIMITS = ("max_tokens", "max_completion_tokens")
_MESSAGE_TOKENS = 16
_RUN_CAP = "cluster.spending_cap"
_BYTES_PER_TOKEN = 3
_MOST_TOKENS = 10**12
_ROUNDING = 1e-9
_SCHEMA = """
CREATE TABLE IF NOT EXISTS spent (
  model TEXT NOT NULL, spec TEXT NOT NULL, dollars REAL NOT NULL, factor REAL NOT NULL,
  PRIMARY KEY (model, spec)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS reserved (
  id TEXT PRIMARY KEY, model TEXT NOT NULL, spec TEXT NOT NULL, dollars REAL NOT NULL,
  most REAL NOT NULL, until REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, data TEXT NOT NULL) WITHOUT ROWID;
"""


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
    id: str = field(default_factory=lambda: uuid.uuid4().hex)


class Ledger:
    """The one owner of a ledger, whose `cap` bounds all models together, in US dollars.

    Engines call its coroutines, in this process or in that of a run's driver.
    """

    def __init__(self, path: Path | None = None, cap: float | None = None) -> None:
        self._cap = cap
        options: Any = {"isolation_level": None, "check_same_thread": False, "timeout": 30}
        self._db = sqlite3.connect(path or ":memory:", **options)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = NORMAL")
        self._db.executescript(_SCHEMA)
        self._db.execute("UPDATE reserved SET until = 0")  # by processes that are gone

    async def reserve(self, request: Reservation) -> str | None:
        """Reserve and return "", or None to wait for others, or why the request is refused.

        An endpoint that billed more than a request's bound may do so again: later bounds grow by
        that factor. Until the first bill of a model is known, its requests go one at a time.
        """
        if self._first("SELECT 1 FROM reserved WHERE id = ?", request.id):
            return ""  # asked again: the answer was lost on its way
        billed = "SELECT MAX(factor) FROM spent WHERE model = ? AND dollars > 0"
        factor = self._first(billed, request.model)
        most = request.most * (factor or 1.0)
        waits = False
        for cap, model in ((self._cap, None), (request.cap, request.model)):
            if cap is None:
                continue
            settled, pending = self._committed(model)
            limit = cap * (1 + _ROUNDING)
            if settled + most > limit:
                setting = f"engine_args.spending_cap of {model}" if model else _RUN_CAP
                return (
                    f"{setting}, ${cap:,.6g}, is reached: ${settled:,.6g} spent, "
                    f"and the next request may cost ${most:,.2g}"
                )
            unknown = factor is None and self._committed(request.model)[1] > 0
            waits |= settled + pending + most > limit or unknown
        if waits:
            return None
        until = time.time() + request.seconds
        row = request.id, request.model, request.spec, most, request.most, until
        self._db.execute("INSERT INTO reserved VALUES (?, ?, ?, ?, ?, ?)", row)
        return ""

    async def settle(self, reservation: str, dollars: float, replies: Mapping[str, str]) -> None:
        """Replace a reservation by what it cost and keep the replies that it bought."""
        query = "SELECT model, spec, most FROM reserved WHERE id = ?"
        reserved = self._db.execute(query, (reservation,)).fetchone()
        if reserved is None:  # settled before
            return
        model, spec, most = reserved
        self._db.execute("BEGIN")
        self._db.execute("DELETE FROM reserved WHERE id = ?", (reservation,))
        self._db.execute(
            "INSERT INTO spent VALUES (?, ?, ?, ?) ON CONFLICT (model, spec) DO UPDATE SET "
            "dollars = dollars + excluded.dollars, factor = MAX(factor, excluded.factor)",
            (model, spec, dollars, max(1.0, dollars / most)),
        )
        self._db.executemany("INSERT OR REPLACE INTO replies VALUES (?, ?)", replies.items())
        self._db.execute("COMMIT")

    async def bought(self, keys: Collection[str]) -> dict[str, str]:
        """Return the kept replies among these keys."""
        replies = {key: self._first("SELECT data FROM replies WHERE key = ?", key) for key in keys}
        return {key: reply for key, reply in replies.items() if reply is not None}

    async def forget(self, keys: Collection[str]) -> None:
        """Drop kept replies: they are stored."""
        self._db.executemany("DELETE FROM replies WHERE key = ?", [(key,) for key in keys])

    def carry(self, costs: Mapping[tuple[str, str], float]) -> None:
        """Count what rows of (model, spec) cost where that is more than the ledger knows."""
        self._db.executemany(
            "INSERT INTO spent VALUES (?, ?, ?, 1) "
            "ON CONFLICT (model, spec) DO UPDATE SET dollars = MAX(dollars, excluded.dollars)",
            [(model, spec, dollars) for (model, spec), dollars in costs.items() if dollars > 0],
        )

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def _first(self, query: str, *values: Any) -> Any:
        """Return the first value that a query gives; None if there is none."""
        return next(iter(self._db.execute(query, values).fetchone() or ()), None)

    def _committed(self, model: str | None) -> tuple[float, float]:
        """What is spent for good, and what is reserved for requests on their way."""
        now = time.time()
        settled = self._first(
            "SELECT TOTAL(dollars) FROM (SELECT model, dollars FROM spent UNION ALL "
            "SELECT model, dollars FROM reserved WHERE until <= ?1) "
            "WHERE ?2 IS NULL OR model = ?2", now, model,
        )  # fmt: skip
        pending = self._first(
            "SELECT TOTAL(dollars) FROM reserved WHERE until > ? AND model = IFNULL(?, model)",
            now, model,
        )  # fmt: skip
        return settled, pending


# -- paying --------------------------------------------------------------------------------


@dataclass
class Payer:
    """Who pays for the requests of a batch of work, and what ended it.

    Without `books` each engine pays from a ledger of its own. After `stopped` no request of the
    batch goes out any more.
    """

    books: Ledger | None = None
    model: str = ""
    spec: str = ""
    stopped: BonError | None = None


_PAYER: ContextVar[Payer | None] = ContextVar("payer", default=None)
_DELIVERED: ContextVar[set[str] | None] = ContextVar("delivered", default=None)


def paying(payer: Payer) -> AbstractContextManager[Payer]:
    """Let a payer pay for everything that is requested inside."""
    return within(_PAYER, payer)


def stop(error: BonError) -> None:
    """End the batch at hand; what stops the run goes before what stops a model."""
    payer = _PAYER.get()
    if payer is not None and (
        payer.stopped is None or (error.stops_run and not payer.stopped.stops_run)
    ):
        payer.stopped = error


def purchases() -> AbstractContextManager[set[str]]:
    """Collect the keys of the replies that an item receives: they are stored with its rows."""
    return within(_DELIVERED, set[str]())


class Purse:
    """The payments of one engine: the payer of the batch at hand, else a ledger of its own."""

    def __init__(self, model: str, cap: float | None, *, priced: bool) -> None:
        self._model, self._cap, self._priced = model, cap, priced
        self._own = Ledger()

    async def reserve(self, most: float, seconds: float) -> str:
        """Wait until `most` dollars are reserved; SpendingCapReached if a cap has no room."""
        payer, pause, ledger = _PAYER.get() or Payer(), 0.02, self._ledger
        model = self._model if ledger is self._own else payer.model
        request = Reservation(model, payer.spec, most, self._cap, seconds)
        while True:
            if payer.stopped is not None:
                error = copy(payer.stopped)
                error.rows = ()
                raise error
            refusal = await ledger.reserve(request) if most > 0 else ""
            if refusal == "":
                return request.id
            if refusal is not None:
                fix = "raise it and run the same command: paid replies are kept"
                raise SpendingCapReached(refusal, fix)
            await asyncio.sleep(pause)
            pause = min(0.5, 1.5 * pause)

    async def settle(self, reservation: str, dollars: float, replies: Mapping[str, str]) -> None:
        """Book what a request cost and what it bought."""
        await self._ledger.settle(reservation, dollars, replies)

    async def bought(self, keys: Collection[str]) -> dict[str, str]:
        """Return what was bought before and is not stored, but for what this item was given."""
        return await self._ledger.bought(
            [key for key in keys if key not in (_DELIVERED.get() or ())]
        )

    async def deliver(self, keys: Collection[str]) -> None:
        """Note that the item at hand has these replies: outside a run they are used up."""
        ledger, delivered = self._ledger, _DELIVERED.get()
        if ledger is not self._own and delivered is not None:
            delivered.update(keys)
        else:
            await ledger.forget(keys)

    @property
    def _ledger(self) -> Ledger:
        payer = _PAYER.get()
        return payer.books if self._priced and payer and payer.books is not None else self._own


# -- tokens --------------------------------------------------------------------------------


def most_dollars(
    body: Mapping[str, Any],
    input_per_million: float,
    output_per_million: float,
    image_tokens: int = IMAGE_TOKENS,
) -> float:
    """Return the most that a request can cost: a token per byte, every reply at its limit."""
    limit = max((int(body[name]) for name in _LIMITS if body.get(name)), default=0)
    received = int(body.get("n") or 1) * limit * output_per_million
    return (count_prompt_tokens(body, image_tokens, 1) * input_per_million + received) / 1e6


def count_tokens(text: str, bytes_per_token: int = _BYTES_PER_TOKEN) -> int:
    """Return about how many tokens a text holds."""
    return math.ceil(len(text.encode("utf-8", "replace")) / bytes_per_token)


def read_usage(usage: Any, prompt: Callable[[], int], completion: int) -> tuple[int, int, bool]:
    """Return prompt and completion tokens, and whether `usage` says both.

    What is absent, negative or no number is replaced by our own count, `prompt` or `completion`.
    """
    usage = usage if isinstance(usage, dict) else {}
    sent, received = (read_amount(usage.get(f"{name}_tokens")) for name in ("prompt", "completion"))
    known = sent is not None and (received is not None or not completion)
    return prompt() if sent is None else sent, completion if received is None else received, known


def read_amount(value: Any) -> int | None:
    """Return a number of tokens; None where the value cannot be one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value <= _MOST_TOKENS else None


def count_prompt_tokens(
    body: Mapping[str, Any],
    image_tokens: int = IMAGE_TOKENS,
    bytes_per_token: int = _BYTES_PER_TOKEN,
) -> int:
    """Return about how many tokens a request's prompt holds."""
    total = 0
    # Of a request to a reranker, the query and the document.
    for message in body.get("messages") or [body["queries"], body["documents"]]:
        content = message["content"]
        total += _MESSAGE_TOKENS
        for part in [{"text": content}] if isinstance(content, str) else content:
            text = part.get("text")
            total += image_tokens if text is None else count_tokens(text, bytes_per_token)
    return total
