"""Context between a worker and its engine: cached prompt tokens and priority.

It travels as context variables, not in requests, because users' rewarders create requests.
"""

import itertools
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

ValueT = TypeVar("ValueT")


@dataclass
class Meter:
    """Prompt tokens of one batch for which the engine reports cache hits, and those hits."""

    read: int = 0
    cached: int = 0


_METER: ContextVar[Meter | None] = ContextVar("meter", default=None)
_TURN: ContextVar[int] = ContextVar("turn", default=0)
_turns = itertools.count(1)


class within(AbstractContextManager[ValueT]):  # noqa: N801 - called like a function
    """Set a context variable for what runs inside, tasks started there included."""

    def __init__(self, variable: ContextVar[Any], value: ValueT) -> None:
        self._variable, self._value = variable, value

    def __enter__(self) -> ValueT:
        self._token = self._variable.set(self._value)
        return self._value

    def __exit__(self, *_: object) -> None:
        self._variable.reset(self._token)


def metered() -> AbstractContextManager[Meter]:
    """Meter every request inside, including those of tasks started there."""
    return within(_METER, Meter())


def note_cached(read: int, cached: int | None) -> None:
    """Count a prompt of `read` tokens, `cached` of them hits; None if the engine reports none."""
    meter = _METER.get()
    if meter is not None and cached is not None:
        meter.read += read
        meter.cached += cached


def take_turn() -> None:
    """Give this task's requests priority over tasks that call this later.

    An item judged in rounds is finished first, while its images and prompt are still cached.
    """
    _TURN.set(next(_turns))


def turn() -> int:
    """Return the priority of the current request; the lowest goes first."""
    return _TURN.get()
