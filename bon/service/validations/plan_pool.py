"""Checks and plans experiments in few threads of their own, which nothing else waits for."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from bon.service.errors import ApiError

T = TypeVar("T")
THREADS, WAITING, SECONDS = 2, 8, 30.0
"""Plans at once, of which an owner has one; requests of an owner that wait; until the answer."""


class PlanPool:
    """The threads; a plan that nobody waits for any more keeps its owner's turn until it ends."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="plan")
        self._turns = defaultdict[str, asyncio.Lock](asyncio.Lock)
        self._open = Counter[str]()

    async def run(self, owner: str, work: Callable[[], T]) -> T:
        """Return what `work` returns, or raise ApiError if it is not an owner's turn in time."""
        if self._open[owner] >= WAITING:
            raise ApiError(429, "too many of your plans wait", "wait for their answers", retry=5)
        turn = self._turns[owner]
        self._open[owner] += 1
        try:
            async with asyncio.timeout(SECONDS):
                await turn.acquire()
                future = asyncio.get_running_loop().run_in_executor(self._threads, work)
                future.add_done_callback(lambda _: turn.release())
                return await asyncio.shield(future)
        except TimeoutError:
            message, fix = f"no plan within {SECONDS:g} s", "ask again, or plan less at once"
            raise ApiError(503, message, fix, retry=10) from None
        finally:
            self._open[owner] -= 1
