"""One background thread that turns single requests, in flight together, into batches."""

import asyncio
import logging
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

_LOG = logging.getLogger(__name__)

LINGER = (0.002, 0.05)
"""Least and most seconds that the queue must stay quiet before an idle engine starts a batch.

Requests come in bursts, and a batch of the burst's first few costs nearly as much as one of all.
In between, the wait is a thirtieth of what the last batch took.
"""


@dataclass(slots=True, eq=False)
class Job:
    """One request on its way: `prepared` is what the thread made of it, `key` its batch mates.

    Of these, those of one `group` are better run together: they share images.
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
        """Hand the result, or the exception, to whoever awaits it."""
        self.loop.call_soon_threadsafe(_settle, self.future, result)


class BatchWork(Protocol):
    """What the thread calls. `prepare` fills in key, length, rows and prepared."""

    def prepare(self, job: Job) -> None: ...  # noqa: D102
    def run(self, jobs: list[Job]) -> list[Any]: ...  # noqa: D102
    def fits(self, rows: int, length: int) -> bool: ...  # noqa: D102


@dataclass
class Batcher:
    """Collects jobs, sorts them by length, and runs those that share a key together."""

    work: BatchWork
    on_start: Callable[[], None] = lambda: None
    _queue: "queue.SimpleQueue[Job | None]" = field(default_factory=queue.SimpleQueue)
    _thread: threading.Thread | None = None
    _closed: bool = False
    _linger: float = LINGER[0]

    async def submit(self, kind: str, request: Any) -> Any:
        """The result of one request, once its batch is done."""
        if self._closed:
            raise RuntimeError("the engine is closed")
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="engine", daemon=True)
            self._thread.start()
        loop = asyncio.get_running_loop()
        job = Job(kind, request, loop.create_future(), loop)
        self._queue.put(job)
        return await job.future

    def close(self) -> None:
        """Let the running batch end; whatever waits is refused."""
        self._closed = True
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None

    def _serve(self) -> None:
        self.on_start()
        waiting: list[Job] = []
        while self._collect(waiting):
            batch = self._choose(waiting)
            for job in batch:
                waiting.remove(job)
            start = time.monotonic()
            self._run(batch)
            self._linger = min(max(LINGER[0], (time.monotonic() - start) / 30), LINGER[1])
        for job in waiting:
            job.finish(RuntimeError("the engine was closed"))

    def _collect(self, waiting: list[Job]) -> bool:
        """Move everything queued into `waiting`; False when it is time to stop."""
        arrived: list[Job | None] = []
        if not waiting:
            arrived.append(self._queue.get())
            size = 0
            while len(arrived) > size:  # until the burst that has begun is over
                size = len(arrived)
                time.sleep(self._linger)
                self._drain(arrived)
        self._drain(arrived)
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

    def _drain(self, arrived: list[Job | None]) -> None:
        while not self._queue.empty():
            arrived.append(self._queue.get())

    def _choose(self, waiting: list[Job]) -> list[Job]:
        """The batch that holds the oldest job, of jobs close to it in length."""
        waiting[:] = [job for job in waiting if not job.future.cancelled()]
        if not waiting:
            return []
        oldest = waiting[0]
        alike = [job for job in waiting if job.key == oldest.key]
        longest: dict[tuple[str, ...], int] = {}
        for job in alike:
            longest[job.group] = max(longest.get(job.group, 0), job.length)
        alike.sort(key=lambda job: (longest[job.group], job.group, job.length))
        batch: list[Job] = []
        rows = length = 0
        for job in alike:
            if batch and not self.work.fits(rows + job.rows, max(length, job.length)):
                if oldest in batch:
                    break
                batch, rows, length = [], 0, 0
            batch.append(job)
            rows, length = rows + job.rows, max(length, job.length)
        return batch

    def _run(self, batch: list[Job]) -> None:
        if not batch:
            return
        try:
            results = self.work.run(batch)
        except Exception as error:
            # One bad item must not take its batch mates with it.
            if len(batch) == 1:
                batch[0].finish(error)
                return
            _LOG.warning("a batch of %d failed and is run one by one: %r", len(batch), error)
            for job in batch:
                self._run([job])
            return
        for job, result in zip(batch, results, strict=True):
            job.finish(result)


def _settle(future: "asyncio.Future[Any]", result: Any) -> None:
    if future.done():
        return
    if isinstance(result, BaseException):
        future.set_exception(result)
    else:
        future.set_result(result)
