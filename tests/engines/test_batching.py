"""The batching thread, with work that only notes what it was given."""

import asyncio
import threading
import time
from typing import Any

import pytest

from bon.core.errors import EngineDied
from bon.engines.batching import Batcher, Job


class Work:
    """Requests are (key, length)."""

    def __init__(self, rows: int = 4, seconds: float = 0.0) -> None:
        self.rows, self.seconds = rows, seconds
        self.batches: list[list[Any]] = []
        self.threads: set[int] = set()

    def prepare(self, job: Job) -> None:
        job.key, job.length = job.request

    def fits(self, rows: int, length: int) -> bool:
        return rows <= self.rows

    def run(self, jobs: list[Job]) -> list[Any]:
        self.threads.add(threading.get_ident())
        self.batches.append([job.request for job in jobs])
        time.sleep(self.seconds)
        return [("done", job.request) for job in jobs]


def submit(work: Work, requests: list[Any]) -> list[Any]:
    batcher = Batcher(work)

    async def all_at_once() -> list[Any]:
        jobs = (batcher.submit("kind", request) for request in requests)
        return await asyncio.gather(*jobs, return_exceptions=True)

    try:
        return asyncio.run(all_at_once())
    finally:
        batcher.close()


class Grouped(Work):
    """Requests are (group, length); a batch may hold 100 tokens."""

    def prepare(self, job: Job) -> None:
        group, job.length = job.request
        job.key, job.group = "same", (group,)

    def fits(self, rows: int, length: int) -> bool:
        return rows * length <= 100


def test_a_group_stays_together_and_the_longest_of_a_batch_counts() -> None:
    work = Grouped()
    submit(work, [("a", 10), ("b", 10), ("a", 40), ("b", 50)])
    assert work.batches == [[("a", 10), ("a", 40)], [("b", 10), ("b", 50)]]


def test_batches_are_alike_in_key_and_length() -> None:
    work = Work()
    requests = [(key, length) for length in (50, 1, 40, 2, 60, 3) for key in ("a", "b")]
    assert submit(work, requests) == [("done", request) for request in requests]
    assert len(work.threads) == 1
    assert all(len({key for key, _ in batch}) == 1 for batch in work.batches)
    # The oldest is 50 long: it goes first, with those that do not fit the batch of the short.
    assert work.batches[0] == [("a", 50), ("a", 60)]
    assert [("a", 1), ("a", 2), ("a", 3), ("a", 40)] in work.batches


def test_equal_requests_are_different_jobs() -> None:
    assert submit(Work(), [("a", 1)] * 10) == [("done", ("a", 1))] * 10


def test_cancelled_requests_are_not_run() -> None:
    work = Work(rows=1, seconds=0.2)
    batcher = Batcher(work)

    async def cancel_one() -> None:
        running = asyncio.create_task(batcher.submit("kind", ("a", 1)))
        await asyncio.sleep(0.05)
        dropped = asyncio.create_task(batcher.submit("kind", ("a", 2)))
        kept = asyncio.create_task(batcher.submit("kind", ("a", 3)))
        await asyncio.sleep(0)
        dropped.cancel()
        await asyncio.gather(running, kept)

    asyncio.run(cancel_one())
    batcher.close()
    assert [("a", 2)] not in work.batches


def test_closing_refuses_what_waits() -> None:
    batcher = Batcher(Work(rows=1, seconds=0.2))

    async def close_early() -> list[Any]:
        tasks = [asyncio.create_task(batcher.submit("kind", ("a", i))) for i in range(3)]
        await asyncio.sleep(0.1)
        await asyncio.to_thread(batcher.close)
        return await asyncio.gather(*tasks, return_exceptions=True)

    done, *refused = asyncio.run(close_early())
    assert done == ("done", ("a", 0))
    assert all("closed" in str(error) for error in refused)
    with pytest.raises(EngineDied, match="closed"):
        asyncio.run(batcher.submit("kind", ("a", 1)))


def test_a_closed_event_loop_takes_no_other_with_it() -> None:
    """Its requests were given up; those of the next loop are answered by the same thread."""
    work = Work(seconds=0.3)
    batcher = Batcher(work)

    async def give_up() -> None:
        task = asyncio.create_task(batcher.submit("kind", ("good", 1)))
        while not work.batches:
            await asyncio.sleep(0.01)
        # A loop that is closed amid a batch cancels nothing.
        asyncio.get_running_loop().stop()
        await task

    loop = asyncio.new_event_loop()
    with pytest.raises(RuntimeError, match="stopped"):
        loop.run_until_complete(give_up())
    loop.close()
    try:
        answer = asyncio.run(asyncio.wait_for(batcher.submit("kind", ("good", 2)), 20))
    finally:
        batcher.close()
    assert answer == ("done", ("good", 2))
    assert len(work.threads) == 1
