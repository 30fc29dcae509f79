"""Where the online models run: Ray actors, or this process.

Both hold a `bon.dispatch.worker.Host`, whose engine batches concurrent requests. Requests beyond
the queue's size are rejected, so that overload is answered at once and not after minutes.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from contextvars import ContextVar
from typing import Any

from bon.core.errors import one_line
from bon.core.ledger import Account, Ledger
from bon.dispatch.worker import Host, ModelSpec, Payload, Reply
from bon.engines.metering import within
from bon.service.errors import ApiError
from bon.service.settings import Scaling

log = logging.getLogger("bon.service")
CLOSE_SECONDS = 5.0
_ACCOUNT: ContextVar[Account | None] = ContextVar("account", default=None)


def charged_to(account: Account) -> AbstractContextManager[Account]:
    """Let an account pay for the calls of everything that is started inside."""
    return within(_ACCOUNT, account)


def _overloaded(seconds: float) -> ApiError:
    message = "the models are busy and their queue is full"
    return ApiError(429, message, "try again", retry=seconds)


class Queue:
    """Bounds the requests that `replicas` hosts work on, and those that wait for them."""

    def __init__(self, scaling: Scaling, replicas: int = 1) -> None:
        ongoing = replicas * scaling.max_ongoing_requests
        self._working = asyncio.Semaphore(ongoing)
        self._size = ongoing + scaling.max_queued_requests
        self.length = 0

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Wait for a place among the ongoing requests; 429 if the queue is full."""
        if self.length >= self._size:
            raise _overloaded(1)
        self.length += 1
        try:
            async with self._working:
                yield
        finally:
            self.length -= 1


class InProcess:
    """A Host in this process: for small models, and for tests."""

    def __init__(
        self, specs: dict[str, ModelSpec], scaling: Scaling, ledger: Ledger | None = None
    ) -> None:
        self._host = Host(specs, ledger=ledger)
        self._loaded = False
        self.queue = Queue(scaling)

    async def start(self) -> None:
        """Load the models."""
        self._loaded = _report(await self._host.load())

    def ready(self) -> bool:
        """Whether all models are loaded."""
        return self._loaded

    async def run(self, model: str, payloads: Sequence[Payload]) -> Reply:
        """Wait for a place, then run."""
        async with self.queue.place():
            return await self._host.run(model, payloads, _ACCOUNT.get())

    async def close(self) -> None:
        """Free the models."""
        await self._host.close()


class RayActors:
    """`max_replicas` of the runner's actors for each group of models.

    They listen as Ray does: on loopback alone, and behind a token, if the Ray is ours.
    """

    def __init__(
        self,
        specs: dict[str, ModelSpec],
        scaling: Scaling,
        address: str | None,
        ledger: Ledger | None = None,
    ) -> None:
        paid = any(spec.loaded.card.is_paid for spec in specs.values())
        self._address, self._path = address, ledger.path if ledger and paid else None
        self._ledger: Any = None
        self._connected = False
        groups: dict[str, dict[str, ModelSpec]] = {}
        for name, spec in specs.items():
            card = spec.loaded.card  # cards of one placement group share their replicas
            group = card.placement.group
            groups.setdefault(f"group-{group}" if group else card.name, {})[name] = spec
        self._pools = [_Pool(group, scaling) for group in groups.values()]
        self._pool_of = {model: pool for pool in self._pools for model in pool.specs}

    async def start(self) -> None:
        """Start the actors, which load their models."""
        from bon.dispatch.cluster import start_ledger

        await asyncio.to_thread(self._connect)
        remote = None
        if self._path is not None:
            self._ledger, remote = start_ledger(self._path)
        await asyncio.gather(*(pool.start(remote) for pool in self._pools))
        log.info("serving", extra={"models": sorted(self._pool_of)})

    async def run(self, model: str, payloads: Sequence[Payload]) -> Reply:
        """Run on the actor with the fewest requests."""
        return await self._pool_of[model].run(model, payloads)

    def ready(self) -> bool:
        """Whether an actor of every group has loaded its models."""
        return all(pool.loaded for pool in self._pools)

    async def close(self) -> None:
        """End the actors, and disconnect from a Ray that was reached or started here."""
        import ray

        from bon.dispatch.connection import disconnect

        await asyncio.gather(*(pool.close() for pool in self._pools))
        if self._ledger is not None:
            ray.kill(self._ledger)
        if self._connected:
            await asyncio.to_thread(disconnect)

    def _connect(self) -> None:
        import ray

        from bon.dispatch.connection import connect

        if not ray.is_initialized():
            connect(self._address)
            self._connected = True


class _Pool:
    """Actors with the same models; `load` counts the requests of those that are up."""

    def __init__(self, specs: dict[str, ModelSpec], scaling: Scaling) -> None:
        self.specs = specs
        self.load: dict[Any, int] = {}
        self.loaded: set[Any] = set()
        self._replicas = scaling.max_replicas
        self._queue = Queue(scaling, self._replicas)
        self._starting: set[asyncio.Task[None]] = set()

    async def start(self, ledger: Any = None) -> None:
        """Start the actors; return when the first has loaded its models, or failed to."""
        from bon.dispatch.cluster import start_host

        place = next(iter(self.specs.values())).loaded.card.placement
        for _ in range(self._replicas):
            self._await(start_host(self.specs, place, ledger))
        await asyncio.wait(self._starting, return_when=asyncio.FIRST_COMPLETED)

    async def run(self, model: str, payloads: Sequence[Payload]) -> Reply:
        """Run on the actor with the fewest requests; 429 if the queue is full."""
        import ray
        from ray.exceptions import RayActorError, RayError

        async with self._queue.place():
            if not self.load:
                raise _overloaded(5)  # still starting, or restarting
            actor = min(self.load, key=self.load.__getitem__)
            self.load[actor] += 1
            request = actor.run.remote(model, list(payloads), _ACCOUNT.get())
            try:
                reply: Reply = await request
            except asyncio.CancelledError:  # the client disconnected
                ray.cancel(request)
                raise
            except RayError as error:
                if isinstance(error, RayActorError) and self.load.pop(actor, None) is not None:
                    self.loaded.discard(actor)
                    self._await(actor)
                return Reply(failure=f"its worker failed: {one_line(error, 300)}")
            finally:
                if actor in self.load:
                    self.load[actor] -= 1
        return reply

    async def close(self) -> None:
        """Close the engines, whose processes and memory may not be the actors' own."""
        for task in self._starting:
            task.cancel()
        closing = (actor.close.remote() for actor in self.load)
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await asyncio.gather(*closing, return_exceptions=True)

    def _await(self, actor: Any) -> None:
        task = asyncio.create_task(self._load(actor))
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)

    async def _load(self, actor: Any) -> None:
        """Give the actor requests once its process is up, for the first time or again."""
        from ray.exceptions import ActorUnavailableError, RayError

        try:
            while True:
                try:
                    await actor.node.remote()
                    break
                except ActorUnavailableError:
                    await asyncio.sleep(0.2)
            self.load[actor] = 0
            failures = await actor.load.remote()
        except RayError as error:
            failures = [f"{', '.join(sorted(self.specs))}: {one_line(error, 300)}"]
        if _report(failures):
            self.loaded.add(actor)


def _report(failures: list[str]) -> bool:
    """Log what could not be loaded; return whether all is."""
    for failure in failures:
        log.error("not loaded: %s", failure)
    return not failures
