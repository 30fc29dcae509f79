"""Where the online models run: Ray actors, or this process.

Both hold a `bon.dispatch.worker.Host`, whose engine batches concurrent requests. Requests beyond
the queue's size are rejected, so that overload is answered at once and not after minutes.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
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
RETRY_SECONDS = (10.0, 300.0)
"""Between attempts to load a model: at first, and at most."""
_ACCOUNT: ContextVar[Account | None] = ContextVar("account", default=None)


def charged_to(account: Account) -> AbstractContextManager[Account]:
    """Let an account pay for the calls of everything that is started inside."""
    return within(_ACCOUNT, account)


def _unavailable(model: str, reason: str) -> ApiError:
    return ApiError(503, f"{model}: {reason}", "try again", retry=RETRY_SECONDS[0])


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
            message = "the models are busy and their queue is full"
            raise ApiError(429, message, "try again", retry=1)
        self.length += 1
        try:
            async with self._working:
                yield
        finally:
            self.length -= 1


class _Loading:
    """Why models do not answer, by name; models that fail to load are tried again for ever."""

    def __init__(self, models: Iterable[str], reason: str = "it is being loaded") -> None:
        self._models = tuple(models)
        self.reasons = dict.fromkeys(self._models, reason)
        self.tried = asyncio.Event()

    async def run(self, load: Callable[[], Awaitable[dict[str, str]]]) -> None:
        """Load until nothing fails; `load` returns why by models that failed."""
        pause, longest = RETRY_SECONDS
        while True:
            try:
                self.reasons = await load()
            except Exception as error:
                self.reasons = dict.fromkeys(self._models, one_line(error, 300))
            self.tried.set()
            for model, reason in self.reasons.items():
                log.error("not loaded: %s: %s", model, reason)
            if not self.reasons:
                return
            await asyncio.sleep(pause)
            pause = min(2 * pause, longest)


class InProcess:
    """A Host in this process: for small models, and for tests."""

    def __init__(
        self, specs: dict[str, ModelSpec], scaling: Scaling, ledger: Ledger | None = None
    ) -> None:
        self._host = Host(specs, ledger=ledger)
        self._loading = _Loading(specs)
        self._task: asyncio.Task[None] | None = None
        self.queue = Queue(scaling)

    async def start(self) -> None:
        """Load the models, or try to."""
        self._task = asyncio.create_task(self._loading.run(self._host.load))
        await self._loading.tried.wait()

    def ready(self) -> bool:
        """Whether all models are loaded."""
        return not self._loading.reasons

    def length(self) -> int:
        """Return how many requests are worked on or wait."""
        return self.queue.length

    async def run(self, model: str, payloads: Sequence[Payload]) -> Reply:
        """Wait for a place, then run; 503 for a model that failed to load, or has died."""
        if self._loading.tried.is_set() and model in self._loading.reasons:
            raise _unavailable(model, self._loading.reasons[model])
        async with self.queue.place():
            reply = await self._host.run(model, payloads, _ACCOUNT.get())
        if reply.died:  # the next request loads it again
            raise _unavailable(model, reply.failure)
        return reply

    async def close(self) -> None:
        """Free the models."""
        if self._task is not None:
            self._task.cancel()
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

    def length(self) -> int:
        """Return how many requests are worked on or wait, of all groups."""
        return sum(pool.queue.length for pool in self._pools)

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
    """Actors with the same models; `load` counts the requests of those that have loaded some."""

    def __init__(self, specs: dict[str, ModelSpec], scaling: Scaling) -> None:
        self.specs = specs
        self.load: dict[Any, int] = {}
        self.loaded: set[Any] = set()
        self._loading: dict[Any, _Loading] = {}
        self._replicas = scaling.max_replicas
        self.queue = Queue(scaling, self._replicas)
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, ledger: Any = None) -> None:
        """Start the actors; return when the first has loaded its models, or failed to."""
        from bon.dispatch.cluster import start_host

        place = next(iter(self.specs.values())).loaded.card.placement
        for _ in range(self._replicas):
            self._await(start_host(self.specs, place, ledger))
        tried = [asyncio.create_task(each.tried.wait()) for each in self._loading.values()]
        await asyncio.wait(tried, return_when=asyncio.FIRST_COMPLETED)
        for task in tried:
            task.cancel()

    async def run(self, model: str, payloads: Sequence[Payload]) -> Reply:
        """Run on the actor with the fewest requests; 429 if the queue is full, 503 without one."""
        import ray
        from ray.exceptions import RayActorError, RayError

        async with self.queue.place():
            able = [a for a in self.load if model not in self._loading[a].reasons]
            if not able:
                reasons = [each.reasons.get(model) for each in self._loading.values()]
                raise _unavailable(model, next(filter(None, reasons), "it is being loaded"))
            actor = min(able, key=self.load.__getitem__)
            self.load[actor] += 1
            request = actor.run.remote(model, list(payloads), _ACCOUNT.get())
            try:
                reply: Reply = await request
            except asyncio.CancelledError:  # the client disconnected
                ray.cancel(request)
                raise
            except RayError as error:
                reason = f"its worker failed: {one_line(error, 300)}"
                if isinstance(error, RayActorError):
                    self._restart(actor, reason)
                raise _unavailable(model, reason) from None
            finally:
                if actor in self.load:
                    self.load[actor] -= 1
        if reply.died:
            if actor in self.load:
                ray.kill(actor, no_restart=False)
            self._restart(actor, reply.failure)
            raise _unavailable(model, reply.failure)
        return reply

    async def close(self) -> None:
        """Close the engines, whose processes and memory may not be the actors' own."""
        for task in self._tasks:
            task.cancel()
        closing = (actor.close.remote() for actor in self.load)
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await asyncio.gather(*closing, return_exceptions=True)

    def _restart(self, actor: Any, reason: str) -> None:
        """Give an actor whose process ended no request until it has loaded its models again."""
        if self.load.pop(actor, None) is not None:
            self.loaded.discard(actor)
            self._await(actor, f"{reason}; it is being loaded again")

    def _await(self, actor: Any, *reason: str) -> None:
        loading = self._loading[actor] = _Loading(self.specs, *reason)
        task = asyncio.create_task(loading.run(lambda: self._load(actor)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _load(self, actor: Any) -> dict[str, str]:
        """Load an actor's models once its process is up, for the first time or again."""
        from ray.exceptions import ActorUnavailableError

        while True:
            try:
                await actor.node.remote()
                break
            except ActorUnavailableError:
                await asyncio.sleep(0.2)
        failures: dict[str, str] = await actor.load.remote()
        if len(failures) < len(self.specs):
            self.load.setdefault(actor, 0)
        if not failures:
            self.loaded.add(actor)
        return failures
