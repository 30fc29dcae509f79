"""Memory of models on the CPU."""

import ctypes
import sys

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of mallopt(3)
_KEPT, _LARGEST = 1 << 30, 256 << 20


def keep_freed() -> None:
    """Have this process keep up to 1 GiB of what it frees, in blocks of up to 256 MiB.

    glibc gives large blocks back to the system at once, so that every intermediate result of a
    batch is given pages anew: about a tenth of a small model's time. Elsewhere nothing is done.
    """
    if sys.platform == "linux" and hasattr(library := ctypes.CDLL(None), "mallopt"):
        library.mallopt(_MMAP_THRESHOLD, _LARGEST)
        library.mallopt(_TRIM_THRESHOLD, _KEPT)
