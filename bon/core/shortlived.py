"""Processes that end as soon as their work is done, or with the one that wanted it."""

import ctypes
import gc
import os
import signal
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


def ends_with(parent: int) -> None:
    """Have this process, a copy that `parent` has just made, be killed when that ends."""
    ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it has ended already
        os._exit(0)
