"""What work asks of its engine beside its requests, and what the engine says it found kept.

It goes by context, not through requests: a rewarder's own code makes those.
"""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass
class Meter:
    """Of one batch: tokens of prompts of which the engine says how many it still had, and these.

    `fresh`: nothing that the engine has kept of earlier prompts may be used.
    """

    fresh: bool = False
    read: int = 0
    cached: int = 0


SALT = "asked again"
"""Names a part of vLLM's prefix cache that holds nothing of earlier requests."""

_METER: ContextVar[Meter | None] = ContextVar("meter", default=None)
_TURN: ContextVar[int] = ContextVar("turn", default=0)
_turns = itertools.count(1)


@contextmanager
def metered(*, fresh: bool = False) -> Iterator[Meter]:
    """A meter for everything that is asked inside, by tasks that are started there too."""
    meter = Meter(fresh)
    token = _METER.set(meter)
    try:
        yield meter
    finally:
        _METER.reset(token)


def fresh() -> bool:
    """Whether the request at hand may use nothing that is kept of earlier prompts."""
    meter = _METER.get()
    return meter is not None and meter.fresh


def note_cached(read: int, cached: int | None) -> None:
    """Of a prompt of `read` tokens the engine still had `cached`; None where it does not say."""
    meter = _METER.get()
    if meter is not None and cached is not None:
        meter.read += read
        meter.cached += cached


def take_turn() -> None:
    """What this task asks from here on goes before all that is asked by those who come later.

    An item that asks in rounds is finished before another is begun: while its images and its
    question are still in the caches of the engine.
    """
    _TURN.set(next(_turns))


def turn() -> int:
    """The turn of the request at hand; the lowest goes first."""
    return _TURN.get()
