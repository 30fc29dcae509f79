"""What a dispatcher tracks: groups of models, their workers, batches and failures."""

import time
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any

from bon.dispatch.source import Source
from bon.dispatch.worker import ModelSpec, Payload
from bon.experiment.config import ClusterConfig, Placement

FIRST_BATCH = 32
MAX_BATCH = 128
MIN_BATCH = 8
BATCH_SECONDS = 2.0


@dataclass(eq=False)
class Batch:
    """Items of one source in flight or waiting to be sent again.

    `alone`: one item that may kill its worker, so it runs there alone. `deaths` counts workers that
    died with it on a node that survived; `reason` is what ended the last one, on `node`.
    """

    source: Source
    tasks: list[Payload]
    alone: bool = False
    deaths: int = 0
    reason: str = ""
    node: str = ""
    worker: "Worker | None" = None
    started: float = 0.0


@dataclass(eq=False)
class Worker:
    """An actor. `pending` is its outstanding call of `node`, None once its process runs.

    `pending_since` is when it was made, `up_since` when the last one returned, from process `pid`;
    `ended` is a process that was told to end. `lost` batches wait
    for the worker to return, which shows whether its node survived. `ping` is an unanswered call
    of `ping_since`, `pinged` when the last one was answered: whether it was `loading` a model, and
    what it `waits` for.
    """

    actor: Any
    pending: Any
    node: str = ""
    pid: int = 0
    ended: int = 0
    up_since: float = 0.0
    lost: list[Batch] = field(default_factory=list)
    pending_since: float = field(default_factory=time.monotonic)
    reported_late: bool = False
    ping: Any = None
    ping_since: float = 0.0
    pinged: float = 0.0
    loading: bool = False
    waits: list[str] = field(default_factory=list)

    def locate(self) -> None:
        """Call `node`, which returns once the process runs again."""
        self.pending = self.actor.node.remote()
        self.pending_since = time.monotonic()
        self.reported_late = False

    def call_ping(self, now: float) -> None:
        """Call `ping`."""
        self.ping, self.ping_since = self.actor.ping.remote(), now

    @property
    def ready(self) -> bool:
        """Whether its process runs, as far as is known."""
        return self.pending is None


@dataclass(eq=False)
class ClosingWorkers:
    """Workers that are closing their engines, until `replies` are there or `deadline` passes."""

    workers: list[Worker]
    placement: Placement
    replies: list[Any]
    deadline: float


@dataclass
class Group:
    """Actors of one placement and the sources they serve, in order of priority.

    `retries` are batches that lost their worker, `suspects` those of single items that run alone
    when there is nothing else to do. `deaths` counts worker deaths by model since its last reply,
    `answered` are the models that ever replied.
    """

    placement: Placement
    specs: dict[str, ModelSpec]
    sources: list[Source]
    workers: list[Worker] = field(default_factory=list)
    retries: deque[Batch] = field(default_factory=deque)
    suspects: deque[Batch] = field(default_factory=deque)
    in_flight: dict[Any, Batch] = field(default_factory=dict)
    deaths: Counter[str] = field(default_factory=Counter)
    answered: set[str] = field(default_factory=set)

    @property
    def names(self) -> str:
        """Its models, for messages."""
        return ", ".join(sorted(self.specs))

    def batch_size(self, source: Source, config: ClusterConfig) -> int:
        """Return the size of a source's next batch.

        Enough work for BATCH_SECONDS, but at least FIRST_BATCH: slow engines want many items at
        once. Toward the end, workers share what is left.
        """
        if config.batch is not None:
            return config.batch
        size = FIRST_BATCH
        if source.answered and config.spending_cap is None:  # what is in flight may cost
            seconds_per_item = max(source.seconds / source.answered, 1e-6)
            size = max(size, min(MAX_BATCH, int(BATCH_SECONDS / seconds_per_item)))
        workers = len(self.ready)
        if workers > 1:
            left = sum(source.total - source.done - source.open for source in self.sources)
            size = min(size, max(MIN_BATCH, left // (2 * workers)))
        return size

    def next_batch(self, config: ClusterConfig) -> Batch | None:
        """Take the next batch: one to send again, or new items of the first source with any."""
        if self.retries:
            return self.retries.popleft()
        for source in self.sources:
            if not source.finished and (tasks := source.take(self.batch_size(source, config))):
                return Batch(source, tasks)
        return None

    @property
    def ready(self) -> list[Worker]:
        """The workers that can take batches."""
        return [worker for worker in self.workers if worker.ready]

    @property
    def busy(self) -> bool:
        """Whether any batch is under way."""
        lost = any(worker.lost for worker in self.workers)
        return bool(self.retries or self.suspects or self.in_flight or lost)

    @property
    def idle(self) -> bool:
        """Whether its workers were offered work and there was none."""
        return not self.busy and len(self.ready) == len(self.workers)

    @property
    def finished(self) -> bool:
        """Whether no batch is under way and none will come."""
        return not self.busy and all(source.finished for source in self.sources)


def make_groups(specs: dict[str, ModelSpec], sources: list[Source]) -> list[Group]:
    """Group sources by placement; the card with the most actors decides their number."""
    groups: dict[str, Group] = {}
    for source in sources:
        placement = specs[source.model].loaded.card.placement
        name = placement.group or f"model:{source.model}"
        group = groups.setdefault(name, Group(placement, {}, []))
        group.specs[source.model] = specs[source.model]
        group.sources.append(source)
        if placement.actors > group.placement.actors:
            group.placement = placement
    return list(groups.values())
