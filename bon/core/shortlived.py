"""What a process may do that ends as soon as its work is done: trade memory for time."""

import ctypes
import gc
from contextlib import suppress

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of mallopt(3)
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
