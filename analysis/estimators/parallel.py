"""The same work on many things, on all cores where it is long."""

import os
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from threadpoolctl import threadpool_limits

from bon.core.forked import cores, shared

T = TypeVar("T")
R = TypeVar("R")

SHORT = 0.3
"""Seconds that the rest should take, by what the first took, before processes share it: copying
this one and handing over the results takes a tenth of that."""

LONG = 4.0
"""The same before threads do: then results are large, and arrays long enough to keep them busy."""


def each(work: Callable[[T], R], things: Iterable[T]) -> list[R]:
    """Results in the order of the things.

    Processes, or threads, since numpy holds no lock while it computes; matrix products stay on
    the thread that asks for them, or two pools of threads would fight for the same cores. On
    small arrays threads mostly wait for each other between two of numpy's calls, and cost more
    than they save.
    """
    left = list(things)
    found: list[R] = []
    sharing = cores() > 1  # which counts the threads of BLAS, and so not under its limit
    with threadpool_limits(1, "blas"):
        while left:
            start = time.thread_time()
            found.append(work(left.pop(0)))
            rest = (time.thread_time() - start) * len(left)
            if rest > LONG:
                with ThreadPoolExecutor(os.cpu_count()) as threads:
                    return found + list(threads.map(work, left))
            if rest > SHORT and sharing:
                break
    with shared([partial(work, thing) for thing in left]) as done:
        return found + done()
