"""Processes that end as soon as their work is done, or with the one that wanted it."""

import ctypes
import gc
import os
import signal
from collections.abc import Callable
from contextlib import suppress

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of mallopt(3)
_PDEATHSIG = 1  # of prctl(2)
_KEPT = 512 << 20  # bytes free at most before any are given back
_LARGE = 32 << 20  # bytes; glibc takes no more


def ends_soon() -> None:
    """Look for no garbage, and keep freed memory to use it again.

    Else every large array is pages asked of the system, cleared and given back: a twentieth of
    what a report takes.
    """
    gc.disable()
    with suppress(AttributeError, OSError):  # no glibc
        libc = ctypes.CDLL(None)
        libc.mallopt(_MMAP_THRESHOLD, _LARGE)
        libc.mallopt(_TRIM_THRESHOLD, _KEPT)


def copied(work: Callable[[], None]) -> int:
    """Have a copy of this process do this work and nothing else; its number.

    It ends with this process, and by it alone: Ctrl-C in a terminal is for this one to hear.

    Raises:
        OSError: there is no memory or no number for another process.
    """
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL)
            if os.getppid() == parent:  # else it has ended already
                work()
        finally:
            os._exit(0)  # what is the parent's is not closed, flushed or said again
    return pid


def end(pid: int) -> None:
    """End a copy, if it has not ended."""
    with suppress(ProcessLookupError, ChildProcessError):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
