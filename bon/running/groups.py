"""What a dispatcher keeps count of: groups of models, their workers and batches."""

import time
from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import Any

from bon.experiment.config import ClusterConfig, Placement
from bon.running.blame import Fortunes, Suspect
from bon.running.work import Source
from bon.running.worker import ModelSpec, Payload

FIRST_BATCH = 32
MOST_ITEMS = 128
LEAST_ITEMS = 8
BATCH_SECONDS = 2.0


@dataclass(eq=False)
class Parcel:
    """Items of one source on their way.

    `suspect` is set where it runs alone. `deaths` counts the workers that died with it on a node
    that lived, `hung` those that were ended for want of an answer; `node` is where it is,
    `reason` what ended its last worker.
    """

    source: Source
    tasks: list[Payload]
    suspect: Suspect | None = None
    deaths: int = 0
    hung: int = 0
    reason: str = ""
    node: str = ""
    worker: "Worker | None" = None
    started: float = 0.0


@dataclass(eq=False)
class Worker:
    """An actor: the answer to where it is that is awaited, if any, and what its death cost.

    `since` is from when on the awaited one is; `back` is when the last one came; `lost` waits for
    it, to see whether the node lives.
    """

    actor: Any
    asked: Any
    node: str = ""
    back: float = 0.0
    lost: list[Parcel] = field(default_factory=list)
    since: float = field(default_factory=time.monotonic)
    told: bool = False

    def ask(self) -> None:
        """Ask where it is, which it answers once it runs again."""
        self.asked = self.actor.node.remote()
        self.since = time.monotonic()
        self.told = False

    @property
    def ready(self) -> bool:
        """Whether its process runs, as far as is known."""
        return self.asked is None


@dataclass(eq=False)
class Closing:
    """Workers that let go of their models: ended, and their room given back, when they have.

    `answers` are awaited until `until`, a time of the monotonic clock.
    """

    workers: list[Worker]
    placement: Placement
    answers: list[Any]
    until: float


@dataclass
class Group:
    """Actors of one placement and the sources they serve, in order of priority.

    `again` are batches that lost their worker, `suspects` those of them that run alone, and
    `fortunes` how those of each model fared.
    """

    name: str
    placement: Placement
    specs: dict[str, ModelSpec]
    sources: list[Source]
    workers: list[Worker] = field(default_factory=list)
    again: deque[Parcel] = field(default_factory=deque)
    suspects: deque[Parcel] = field(default_factory=deque)
    flying: dict[Any, Parcel] = field(default_factory=dict)
    fortunes: defaultdict[str, Fortunes] = field(default_factory=lambda: defaultdict(Fortunes))

    def size(self, source: Source, config: ClusterConfig) -> int:
        """How many items the next batch of a source holds, where the experiment does not say.

        Enough for BATCH_SECONDS, so that a worker waits for no answer of the dispatcher and an
        engine has its fill while the last of a batch is finished; but never fewer than at first,
        for slow engines want many at once. Toward the end workers share what is left.
        """
        if config.batch is not None:
            return config.batch
        size = FIRST_BATCH
        if source.answered and config.spending_cap is None:  # what is on its way may cost
            each = max(source.seconds / source.answered, 1e-6)
            size = max(size, min(MOST_ITEMS, int(BATCH_SECONDS / each)))
        workers = len(self.ready)
        if workers > 1:
            left = sum(one.total - one.done - one.open for one in self.sources)
            size = min(size, max(LEAST_ITEMS, left // (2 * workers)))
        return size

    @property
    def ready(self) -> list[Worker]:
        """The workers that can be given work."""
        return [worker for worker in self.workers if worker.ready]

    @property
    def held(self) -> bool:
        """Whether any work is under way."""
        lost = any(worker.lost for worker in self.workers)
        return bool(self.again or self.suspects or self.flying or lost)

    def due_suspect(self) -> Parcel | None:
        """One that has waited for enough others to be tried before it."""
        for batch in self.suspects:
            if batch.suspect and batch.suspect.waits <= self.fortunes[batch.source.model].back:
                return batch
        return None

    @property
    def idle(self) -> bool:
        """Whether its workers have been offered work and there was none."""
        return not self.held and all(worker.ready for worker in self.workers)

    @property
    def finished(self) -> bool:
        """Whether nothing is under way and nothing will come."""
        return not self.held and all(source.finished for source in self.sources)


def grouped(specs: dict[str, ModelSpec], sources: list[Source]) -> list[Group]:
    """The groups of these sources, each with the most actors that one of its cards asks for."""
    groups: dict[str, Group] = {}
    for source in sources:
        place = specs[source.model].loaded.card.placement
        name = place.group or f"model:{source.model}"
        group = groups.setdefault(name, Group(name, place, {}, []))
        group.specs[source.model] = specs[source.model]
        group.sources.append(source)
        if place.actors > group.placement.actors:
            group.placement = place
    return list(groups.values())
