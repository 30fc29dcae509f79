"""What one who asks may have of the server, so that it is there for others: rates and shares."""

import time
from collections import Counter, OrderedDict
from dataclasses import dataclass

from bon.service.settings import Limits

OF_A_TOKEN, OF_NOBODY, OF_BYTES = 0.8, 0.2, 0.5
"""Of the connections: what one token may use, and all without a token together; of the bytes of
bodies: what one token may."""


class Rates:
    """A bucket for each client that refills by the minute; the oldest are forgotten."""

    def __init__(self, per_minute: int, most: int = 10_000) -> None:
        self._rate = per_minute / 60
        self._size = max(1.0, per_minute / 6)
        self._most = most
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, client: str) -> float:
        """0 where the request may go on, else seconds until it might."""
        if self._rate == 0:
            return 0.0
        now = time.monotonic()
        level, then = self._buckets.pop(client, (self._size, now))
        level = min(self._size, level + (now - then) * self._rate)
        allowed = level >= 1
        self._buckets[client] = (level - 1 if allowed else level, now)
        while len(self._buckets) > self._most:
            self._buckets.popitem(last=False)
        return 0.0 if allowed else max(1.0, (1 - level) / self._rate)


@dataclass(eq=False, slots=True)
class Held:
    """What one open request takes up: `who` asks ("" has no token), bytes of its body so far."""

    who: str
    size: int = 0


class Shares:
    """The requests that are open and the bytes of their bodies, by who asks."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._open: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()

    def open(self, who: str) -> Held | None:
        """A place for one more request; None where this one has as many as it may."""
        share = OF_A_TOKEN if who else OF_NOBODY
        if self._open[who] >= self._limits.connections * share:
            return None
        self._open[who] += 1
        return Held(who)

    def add(self, held: Held, size: int) -> bool:
        """Count more bytes of its body; whether there was room for them."""
        held.size += size
        self._bytes[held.who] += size
        most = self._limits.bodies_bytes
        return self._bytes[held.who] <= most * OF_BYTES and self._bytes.total() <= most

    def close(self, held: Held) -> None:
        """The request is over."""
        for counter, amount in ((self._open, 1), (self._bytes, held.size)):
            counter[held.who] -= amount
            if not counter[held.who]:
                del counter[held.who]
