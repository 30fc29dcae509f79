"""Work shared with copies of this process, for seconds: what it holds is theirs at no cost."""

import gc
import os
import pickle
import select
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from threadpoolctl import threadpool_info, threadpool_limits

from bon.core.shortlived import copied, end

T = TypeVar("T")

MOST = 4
"""Processes that share: a report has no work for more."""

PATIENCE = 20.0
"""Seconds that a copy may still take after this process has nothing left to do, and as long again
as all took until then; one that takes longer hangs."""

_TURN = struct.Struct("i")
_WAITING = 10_000  # turns that a pipe holds at once
_copied = False  # whether this process is such a copy: it shares nothing further


@contextmanager
def shared(
    works: Sequence[Callable[[], T]], *, when: bool = True
) -> Iterator[Callable[[], list[T]]]:
    """Copies of this process begin with these works; the call says what they return, in order.

    Until that call this process does something else; then it takes its part of what is left.
    Works must be pure, or write whole files: what a copy could not do or hand over is done here
    in the end, so errors are those of works done one after the other, and all of it is done here
    where there is one core or no safe way to fork (`cores`), or not `when` it is worth a copy,
    which takes hundredths of a second. On leaving, no copy is left.
    """
    began = time.monotonic()
    done: dict[int, T] = {}
    helpers: list[_Helper] = []
    turns, all_turns = os.pipe()
    try:
        fits = when and 0 < len(works) <= _WAITING
        count = min(cores() - 1, len(works), MOST - 1) if fits else 0
        if count > 0:
            os.write(all_turns, b"".join(map(_TURN.pack, range(len(works)))))
        os.close(all_turns)
        with suppress(OSError):  # no memory or no number for another process
            for _ in range(count):
                helpers.append(_Helper(works, turns))

        def rest() -> list[T]:
            with threadpool_limits(1, "blas"):
                if helpers:
                    _take(works, turns, done)
                    left = time.monotonic()
                    for helper in helpers:
                        done.update(helper.replied(left + PATIENCE + left - began))
                return [done[i] if i in done else work() for i, work in enumerate(works)]

        yield rest
    finally:
        os.close(turns)
        for helper in helpers:
            helper.end()


def cores() -> int:
    """How many processes can share work: 1 where a fork would not copy all that runs here.

    That is so with threads, which a copy lacks with whatever they hold. Those of BLAS and of
    Arrow's jemalloc look after that themselves.
    """
    try:
        names = [(task / "comm").read_text() for task in Path("/proc/self/task").iterdir()]
    except OSError:  # not Linux, where libraries of the system do not bear it either
        return 1
    if _copied or threading.active_count() > 1:
        return 1
    threads = sum(not name.startswith("jemalloc") for name in names)
    blas = sum(pool["num_threads"] - 1 for pool in threadpool_info() if pool["user_api"] == "blas")
    return len(os.sched_getaffinity(0)) if threads <= 1 + blas else 1


def _take(works: Sequence[Callable[[], T]], turns: int, done: dict[int, T]) -> None:
    """Do what nobody has taken yet, up to what fails: that is done again in the end."""
    with suppress(Exception):
        while taken := os.read(turns, _TURN.size):
            (place,) = _TURN.unpack(taken)
            done[place] = works[place]()


class _Helper:
    """A copy of this process that takes works in turn and replies once."""

    def __init__(self, works: Sequence[Callable[[], Any]], turns: int) -> None:
        self._replies, reply = os.pipe()
        try:
            self._pid = copied(partial(_help, works, turns, reply))
        except OSError:
            os.close(self._replies)
            os.close(reply)
            raise
        os.close(reply)

    def replied(self, until: float) -> dict[int, Any]:
        """Results by place; none where it died, or has not said all by then (monotonic)."""
        said = bytearray()
        while select.select([self._replies], [], [], max(until - time.monotonic(), 0))[0]:
            part = os.read(self._replies, 1 << 20)
            if not part:
                break
            said += part
        try:
            done: dict[int, Any] = pickle.loads(said)
        except (EOFError, pickle.UnpicklingError):
            return {}
        return done

    def end(self) -> None:
        """End it, if it has not ended."""
        os.close(self._replies)
        end(self._pid)


def _help(works: Sequence[Callable[[], Any]], turns: int, reply: int) -> None:
    """What a copy does."""
    global _copied
    _copied = True
    gc.disable()  # it would touch, and so copy, all that the parent has
    done: dict[int, Any] = {}
    with threadpool_limits(1, "blas"):
        _take(works, turns, done)
    with open(reply, "wb") as stream:
        pickle.dump(done, stream, pickle.HIGHEST_PROTOCOL)
