"""What comes last, made ready in a copy of this process while this one does what comes before."""

import os
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from threading import Thread
from typing import Any, Generic, ParamSpec, TypeVar

from bon.core.forked import cores
from bon.core.shortlived import copied, end, ends_soon

P = ParamSpec("P")
T = TypeVar("T")


@contextmanager
def aside(
    load: Callable[[], None], work: Callable[P, T], *, or_thread: bool = False
) -> Iterator[Callable[P, Callable[[], T]]]:
    """A copy of this process loads what `work` needs; a call has it begin, and gives its result.

    The copy has none of the threads that this process starts meanwhile, so it can share its work
    with copies of its own (`bon.core.forked`) where this one no longer can. It has what is there
    now: begin before files and connections are open that a second process must not hold.

    It is asked once. Arguments and result are pickled. Work must be pure, or write whole files,
    and say nothing: if the copy fails or ends it is done here when its result is wanted, so errors
    are raised here. So it is where no copy can be made; then a thread loads, if `or_thread`. On
    leaving, no copy is left.
    """
    copy: _Copy[T] | None = None
    loading: Thread | None = None
    if cores() > 1:
        with suppress(OSError):  # no memory or no number for another process
            copy = _Copy(load, work)
    if copy is None and or_thread:
        loading = Thread(target=_loaded, args=(load,), name="bon-loading", daemon=True)
        loading.start()

    def begin(*args: P.args, **kwargs: P.kwargs) -> Callable[[], T]:
        begun = copy is not None and copy.begins(args, kwargs)

        @cache
        def result() -> T:
            if copy is not None and begun:
                with suppress(EOFError, pickle.UnpicklingError):  # it failed, or ended meanwhile
                    return copy.result()
            if loading is not None:
                loading.join()
            return work(*args, **kwargs)

        return result

    try:
        yield begin
    finally:
        if copy is not None:
            copy.end()


class _Copy(Generic[T]):
    """A copy of this process that waits to be asked, once."""

    def __init__(self, load: Callable[[], None], work: Callable[..., T]) -> None:
        asked, ask = os.pipe()
        replies, reply = os.pipe()
        try:
            self._pid = copied(partial(_serve, load, work, asked, reply))
        except OSError:
            for each in (asked, ask, replies, reply):
                os.close(each)
            raise
        os.close(asked)
        os.close(reply)
        self._ask = open(ask, "wb")  # noqa: SIM115 - open until it is asked, or ended
        self._replies = open(replies, "rb")  # noqa: SIM115

    def begins(self, args: Any, kwargs: Any) -> bool:
        """Whether it could be asked; else it has ended."""
        try:
            with self._ask:
                pickle.dump((args, kwargs), self._ask, pickle.HIGHEST_PROTOCOL)
        except BrokenPipeError:
            return False
        return True

    def result(self) -> T:
        """What the work returned; EOFError or UnpicklingError where there is nothing, or a part."""
        result: T = pickle.load(self._replies)
        return result

    def end(self) -> None:
        """End it, if it has not ended."""
        with suppress(BrokenPipeError):
            self._ask.close()
        self._replies.close()
        end(self._pid)


def _serve(load: Callable[[], None], work: Callable[..., Any], asked: int, reply: int) -> None:
    ends_soon()
    _loaded(load)
    with open(asked, "rb") as stream, suppress(Exception):
        args, kwargs = pickle.load(stream)
        said = pickle.dumps(work(*args, **kwargs), pickle.HIGHEST_PROTOCOL)
        with open(reply, "wb") as answer:
            answer.write(said)


def _loaded(load: Callable[[], None]) -> None:
    with suppress(Exception):  # whoever needs it says so
        load()
