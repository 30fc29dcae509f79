"""One background thread that turns concurrent requests into batches."""

import asyncio
import logging
import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from bon.core.errors import EngineDied

_LOG = logging.getLogger(__name__)

LINGER = (0.002, 0.05)
"""Minimum and maximum seconds without arrivals before an idle engine starts a batch.

Requests come in bursts, and a batch of the first few costs nearly as much as one of all. Within
these limits, the wait is a thirtieth of the last batch's time.
"""


@dataclass(slots=True, eq=False)
class Job:
    """One request. Jobs of one `key` may share a batch; those of one `group` share images.

    `prepare` sets key, length (tokens of each row), rows, group and prepared.
    """

    kind: str
    request: Any
    future: "asyncio.Future[Any]"
    loop: asyncio.AbstractEventLoop
    key: Any = None
    length: int = 0
    rows: int = 1
    group: tuple[str, ...] = ()
    prepared: Any = None

    def finish(self, result: Any) -> None:
        """Deliver the result, or the exception, to the awaiting task."""

        def settle() -> None:
            failed = isinstance(result, BaseException)
            if not self.future.done():
                (self.future.set_exception if failed else self.future.set_result)(result)

        with suppress(RuntimeError):  # the loop is closed: nobody waits for it any more
            self.loop.call_soon_threadsafe(settle)


class Batcher:
    """Collects jobs, sorts them by length, and runs those that share a key together.

    `work` has `prepare(job)`, `run(jobs)`, which returns their results, and `fits(rows, length)`.
    """

    def __init__(self, work: Any, on_start: Callable[[], None] = lambda: None) -> None:
        self.work = work
        self.on_start = on_start
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._linger = LINGER[0]

    async def submit(self, kind: str, request: Any) -> Any:
        """Return the result of one request once its batch is done."""
        if self._closed:
            raise EngineDied("the engine is closed")
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="engine", daemon=True)
            self._thread.start()
        loop = asyncio.get_running_loop()
        job = Job(kind, request, loop.create_future(), loop)
        self._queue.put(job)
        return await job.future

    def close(self) -> None:
        """Let the running batch end; refuse whatever waits."""
        self._closed = True
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None

    def _serve(self) -> None:
        self.on_start()
        waiting: list[Job] = []
        while self._collect(waiting):
            waiting[:] = [job for job in waiting if not job.future.cancelled()]
            if not waiting:
                continue
            batch = self._next_batch(waiting)
            for job in batch:
                waiting.remove(job)
            start = time.monotonic()
            self._run(batch)
            self._linger = min(max(LINGER[0], (time.monotonic() - start) / 30), LINGER[1])
        for job in waiting:
            job.finish(EngineDied("the engine was closed"))

    def _collect(self, waiting: list[Job]) -> bool:
        """Prepare everything queued; False once the batcher is closed."""
        arrived: list[Job | None] = []
        if not waiting:
            arrived.append(self._queue.get())
            time.sleep(self._linger)
        while not self._queue.empty():
            while not self._queue.empty():
                arrived.append(self._queue.get())
            if not waiting:  # until the burst is over
                time.sleep(self._linger)
        for job in arrived:
            if job is None or job.future.cancelled():
                continue
            try:
                self.work.prepare(job)
            except Exception as error:
                job.finish(error)
            else:
                waiting.append(job)
        return None not in arrived

    def _next_batch(self, waiting: list[Job]) -> list[Job]:
        """Return the batch of the oldest job: jobs of its key and of similar length."""
        oldest = waiting[0]
        compatible = [job for job in waiting if job.key == oldest.key]
        longest: dict[tuple[str, ...], int] = {}
        for job in compatible:
            longest[job.group] = max(longest.get(job.group, 0), job.length)
        compatible.sort(key=lambda job: (longest[job.group], job.group, job.length))
        batch: list[Job] = []
        rows = length = 0
        for job in compatible:
            if batch and not self.work.fits(rows + job.rows, max(length, job.length)):
                if oldest in batch:
                    break
                batch, rows, length = [], 0, 0
            batch.append(job)
            rows, length = rows + job.rows, max(length, job.length)
        return batch

    def _run(self, batch: list[Job]) -> None:
        try:
            results = self.work.run(batch)
        except Exception as error:
            if len(batch) == 1:
                batch[0].finish(error)
                return
            # One bad item must not fail the others.
            _LOG.warning("a batch of %d failed and is run one by one: %r", len(batch), error)
            for job in batch:
                self._run([job])
            return
        for job, result in zip(batch, results, strict=True):
            job.finish(result)
