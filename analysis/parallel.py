"""The same work on many things, on all cores."""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def each(work: Callable[[T], R], things: Iterable[T]) -> list[R]:
    """Results in the order of the things. Threads: numpy holds no lock while it computes."""
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        return list(threads.map(work, things))
