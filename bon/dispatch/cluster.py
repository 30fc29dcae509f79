"""Ray actors that hold models, and the dispatch of work to them.

Models of one placement group share its actors. A group starts when the cluster has room for it and
stops when its work is done, so eight models run in turn on one GPU and all at once on eight. When
an actor's process dies, Ray restarts it and its batches are sent again. Only a death on a node that
survives counts against a batch: after SPLIT_AFTER deaths its items run alone, after all others, and
one that loses BLAME_AFTER workers alone is left undone. A worker whose engine died is restarted.
"""

import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

import ray
from ray.exceptions import ActorUnavailableError, RayActorError, RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from bon.core.errors import BonError, one_line
from bon.core.ledger import Ledger
from bon.dispatch.connection import Connection, RayLost
from bon.dispatch.groups import Batch, ClosingWorkers, Group, Worker, make_groups
from bon.dispatch.nodes import check_width, has_room, lacking
from bon.dispatch.source import UPSTREAM, Source
from bon.dispatch.worker import Host, ModelSpec, Reply
from bon.experiment.config import ClusterConfig, Placement

SPLIT_AFTER = 2
BLAME_AFTER = 4
HOPELESS_AT_FIRST, HOPELESS = 12, 40
"""Deaths of a model's workers after which no item is to blame: before its first reply, later."""
CLOSE_SECONDS = 60.0
START_SECONDS = 60.0
CHECK_SECONDS = 1.0
PING_SECONDS = 5.0
FROZEN_SECONDS = 120.0
ANSWER_SECONDS = 20.0
HandleReply = Callable[[Source, Reply], None]


class HostActor(Host):
    """A host that knows its node."""

    @ray.method(max_task_retries=-1)  # type: ignore[untyped-decorator]
    async def node(self) -> tuple[str, int]:
        """Return the ids of the Ray node and of the process, once it runs (again)."""
        return str(ray.get_runtime_context().get_node_id()), os.getpid()

    # In a thread of its own, also while a model computes.
    @ray.method(concurrency_group="heartbeat")  # type: ignore[untyped-decorator]
    async def ping(self) -> tuple[bool, list[str]]:
        """Return at once, for the process is not frozen, whether it loads and waits for what."""
        return self.loading, self.waits()


def start_host(
    specs: dict[str, ModelSpec],
    placement: Placement,
    ledger: "RemoteLedger | None" = None,
) -> Any:
    """Start an actor that holds these models; Ray restarts it when its process dies."""
    needs: dict[str, Any] = {"num_cpus": placement.cpus, "num_gpus": placement.gpus}
    needs |= {"runtime_env": placement.runtime_env} if placement.runtime_env else {}
    groups = {"concurrency_groups": {"heartbeat": 1}, "max_concurrency": 1000}
    actor = ray.remote(max_restarts=-1, **groups, **needs)(HostActor)
    return actor.remote(specs, sys.path, ledger)


def start_ledger(path: Path, cap: float | None = None) -> tuple[Any, "RemoteLedger"]:
    """Start an actor that owns a ledger, on this node, where its file is."""
    node = ray.get_runtime_context().get_node_id()
    here = NodeAffinitySchedulingStrategy(node, soft=False)
    lasts = {"max_restarts": -1, "max_task_retries": -1, "max_concurrency": 100_000}
    name = f"ledger-{uuid4().hex}"
    actor = ray.remote(num_cpus=0, name=name, scheduling_strategy=here, **lasts)(Ledger)
    return actor.remote(path.absolute(), cap), RemoteLedger(name)


class RemoteLedger:
    """The methods of a `Ledger`, from a worker on any node."""

    def __init__(self, name: str) -> None:
        # By its name: a handle would lie in Ray's store, and be lost with it.
        self._name = name

    def __getattr__(self, method: str) -> Any:
        if method.startswith("_"):  # looked up while unpickling
            raise AttributeError(method)
        return getattr(_actor(self._name), method).remote


@cache
def _actor(name: str) -> Any:
    return ray.get_actor(name)


class Dispatcher:
    """Feed sources to actors until every source is finished."""

    def __init__(
        self,
        config: ClusterConfig,
        specs: dict[str, ModelSpec],
        sources: Iterable[Source],
        handle: HandleReply,
        connection: Connection,
        ledger: Path | None = None,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """`check` is called every second; what it raises ends the run.

        `ledger`: the run's file, where models cost money.
        """
        self._config, self._handle, self._connection = config, handle, connection
        self._check, self._checked = check, 0.0
        self._ledger_path = ledger
        self._ledger: Any = None
        self._remote: RemoteLedger | None = None
        self._groups = make_groups(specs, list(sources))
        self._waiting = deque(self._groups)
        self._running: list[Group] = []
        self._closing: list[ClosingWorkers] = []
        self._stopped: set[str] = set()
        self._reported: set[str] = set()
        for group in self._groups:
            check_width(group.names, group.placement, connection.state.nodes.values())

    def run(self) -> None:
        """Block until all work is done; KeyboardInterrupt leaves at once."""
        try:
            while self._waiting or self._running or self._closing:
                try:
                    self._step()
                except RayLost as lost:
                    self._start_over(lost)
        finally:
            for group in list(self._running):
                self._stop_group(group)
            self._end_closed(within=1.0)
            if self._ledger is not None:
                ray.kill(self._ledger)

    @property
    def waits(self) -> list[str]:
        """What workers wait for, where it is worth saying, such as an endpoint's Retry-After."""
        workers = [worker for group in self._running for worker in group.workers]
        return [*dict.fromkeys(wait for worker in workers for wait in worker.waits)]

    @property
    def busy_workers(self) -> int:
        """The number of workers with batches in flight."""
        return len({id(b.worker) for group in self._running for b in group.in_flight.values()})

    def forget(self, keys: Sequence[str]) -> None:
        """Drop replies from the ledger: their rows are committed."""
        if self._ledger is not None:
            self._ledger.forget.remote(keys)

    def stop(self) -> None:
        """Send nothing more; what is in flight is still collected."""
        for model in {source.model for group in self._groups for source in group.sources}:
            self.stop_model(model)

    def stop_model(self, model: str) -> None:
        """Send a model nothing more; what is in flight is still collected."""
        self._stopped.add(model)
        for group in self._groups:
            for source in group.sources:
                source.finished |= source.model == model
            for queue in (group.retries, group.suspects):
                for batch in [batch for batch in queue if batch.source.model == model]:
                    queue.remove(batch)
                    batch.source.open -= len(batch.tasks)

    def _step(self) -> None:
        try:
            if time.monotonic() - self._checked > CHECK_SECONDS:
                self._checked = time.monotonic()
                self._check()
            self._connection.check()
            self._start_groups()
            for group in self._running:
                self._add_workers(group)
                self._update_workers(group)
                self._feed(group)
            self._collect()
            self._make_room()
            for group in [group for group in self._running if group.finished]:
                self._stop_group(group)
            self._end_closed()
        except (BonError, RayLost):
            raise
        except Exception:
            self._connection.diagnose()
            raise

    def _start_over(self, lost: RayLost) -> None:
        """Send everything that was under way again on another Ray; no item is to blame."""
        for group in self._running:
            lost_batches = [batch for worker in group.workers for batch in worker.lost]
            for batch in [*group.in_flight.values(), *lost_batches]:
                self._requeue(group, batch)
            group.in_flight.clear()
            group.workers.clear()
        self._closing.clear()
        self._waiting.extendleft(reversed(self._running))
        self._running.clear()
        self._ledger = None
        self._connection.reconnect(lost)

    # -- groups --------------------------------------------------------------------------

    def _start_groups(self) -> None:
        for group in list(self._waiting):
            if group.finished:
                self._waiting.remove(group)
            elif self._has_room(group.placement) or not (self._running or self._closing):
                self._waiting.remove(group)
                self._running.append(group)
                self._add_workers(group)
            elif self._closing:  # their room may suffice: no later group goes first
                break

    def _make_room(self) -> None:
        """Stop groups that wait for others which wait for room."""
        waiting = [s for group in self._waiting for s in group.sources if not s.finished]
        if any(source.stage in UPSTREAM for source in waiting):
            for group in [group for group in self._running if group.idle and not group.finished]:
                self._stop_group(group)
                self._waiting.append(group)

    def _add_workers(self, group: Group) -> None:
        """Start as many workers as the group may have, the cluster has room and there is work."""
        placement = group.placement
        if not (group.retries or group.suspects) and all(s.finished for s in group.sources):
            return
        while len(group.workers) < placement.actors and self._has_room(placement):
            actor = start_host(group.specs, placement, self._remote_ledger())
            group.workers.append(Worker(actor, actor.node.remote()))

    def _remote_ledger(self) -> RemoteLedger | None:
        """Return the run's ledger, an actor on this node, where its file is."""
        if self._ledger_path is None:
            return None
        if self._ledger is None:
            cap = self._config.spending_cap
            self._ledger, self._remote = start_ledger(self._ledger_path, cap)
        return self._remote

    def _stop_group(self, group: Group) -> None:
        """Close a group's engines; the other groups go on meanwhile."""
        self._running.remove(group)
        replies = [worker.actor.close.remote() for worker in group.ready]
        deadline = time.monotonic() + CLOSE_SECONDS
        self._closing.append(ClosingWorkers(group.workers, group.placement, replies, deadline))
        group.workers = []

    def _end_closed(self, within: float | None = None) -> None:
        """End workers that have closed their engines or are late; all `within` seconds if given."""
        replies = [reply for closing in self._closing for reply in closing.replies]
        if within is not None and replies:
            ray.wait(replies, num_returns=len(replies), timeout=within)
        for closing in list(self._closing):
            late = within is not None or time.monotonic() > closing.deadline
            if late or all(_is_done(reply) for reply in closing.replies):
                self._closing.remove(closing)
                for worker in closing.workers:
                    ray.kill(worker.actor)

    # -- workers -------------------------------------------------------------------------

    def _update_workers(self, group: Group) -> None:
        """Note which workers are up, and send again what restarted ones had lost.

        Those of a node that left are removed: Ray restarts them once it has room, maybe never.
        """
        state = self._connection.state
        for worker in list(group.workers):
            if worker.node and worker.node not in state.nodes and state.at > worker.up_since:
                self._remove(group, worker)
                continue
            if not worker.ready and _is_done(worker.pending):
                try:
                    worker.node, worker.pid = ray.get(worker.pending)
                    if worker.pid == worker.ended:  # not yet
                        worker.pending = worker.actor.node.remote()
                        continue
                    worker.up_since, worker.pending = time.monotonic(), None
                except ActorUnavailableError:
                    worker.pending = worker.actor.node.remote()
                except RayError as error:  # it cannot start, here or anywhere
                    self._give_up_worker(group, worker, error)
                    continue
            self._check_start(group, worker)
            self._check_frozen(group, worker)
            # Only a state polled after the return shows whether the node had died.
            if worker.lost and worker.ready and state.at > worker.up_since:
                self._resend_lost(group, worker)

    def _check_start(self, group: Group, worker: Worker) -> None:
        """Report a worker that does not start; replace one that does not return.

        Raises RayLost on a local Ray, which has no other work.
        """
        seconds = time.monotonic() - worker.pending_since
        if worker.ready or seconds < START_SECONDS:
            return
        late = f"Ray has not started a worker for {seconds:.0f} seconds"
        if not worker.reported_late:
            worker.reported_late = True
            cause = lacking(group.placement, self._connection.state.nodes.values())
            cause = f" (it {cause})" if cause else ""
            self._connection.report(f"{group.names}: {late}{cause}; waiting")
        if seconds < START_SECONDS * (2 if worker.node else 5):
            return
        if self._connection.local and not group.placement.runtime_env:
            raise RayLost(late)
        if worker.node:
            self._remove(group, worker)

    def _check_frozen(self, group: Group, worker: Worker) -> None:
        """Replace a worker that answers no ping; what it had is sent again, blameless."""
        now = time.monotonic()
        if worker.ping is not None and _is_done(worker.ping):
            with suppress(RayError):
                worker.loading, worker.waits = ray.get(worker.ping)
                for wait in worker.waits:
                    host = wait.partition(" ")[0]
                    if host not in self._reported:
                        self._reported.add(host)
                        self._connection.report(wait)
            worker.ping, worker.pinged = None, now
        if not worker.ready or self._connection.awake > worker.pinged:
            worker.ping, worker.pinged, worker.waits = None, now, []
        elif worker.ping is None and now - worker.pinged > PING_SECONDS:
            worker.call_ping(now)
        elif now - worker.pinged > FROZEN_SECONDS:
            models = {b.source.model for b in group.in_flight.values() if b.worker is worker}
            group.deaths.update(models)
            names = ", ".join(sorted(models)) or group.names
            seconds = f"has not answered for {FROZEN_SECONDS:g} seconds"
            self._connection.report(f"{names}: a worker {seconds}; it is replaced")
            self._remove(group, worker)

    def _give_up_worker(self, group: Group, worker: Worker, error: RayError) -> None:
        """Fail the models of a worker that cannot start, unless Ray failed."""
        self._connection.diagnose()
        self._remove(group, worker)
        cause = one_line(error, 300)
        if isinstance(error, RayActorError) and error.actor_init_failed:
            # The last line of the page that Ray makes of its traceback.
            cause = str(error).strip().splitlines()[-1][:300]
        reply = Reply(failure=f"its worker cannot start: {cause}")
        for source in {source.model: source for source in reversed(group.sources)}.values():
            self._handle(source, reply)

    def _remove(self, group: Group, worker: Worker) -> None:
        """Remove a worker that will not return; what it had lost is sent again, blameless."""
        group.workers.remove(worker)
        for batch in worker.lost:
            self._requeue(group, batch)
        ray.kill(worker.actor)

    # -- batches -------------------------------------------------------------------------

    def _feed(self, group: Group) -> None:
        limit = self._config.in_flight
        load = dict.fromkeys(group.ready, 0)
        for sent in group.in_flight.values():
            if sent.worker in load:
                load[sent.worker] += limit if sent.alone else 1
        for worker in sorted(load, key=load.__getitem__):
            while load[worker] < limit:
                batch = group.next_batch(self._config)
                if batch is None and group.suspects and not load[worker]:
                    batch = group.suspects.popleft()
                if batch is None:
                    break
                batch.worker, batch.node, batch.reason = worker, worker.node, ""
                batch.started = time.monotonic()
                group.in_flight[worker.actor.run.remote(batch.source.model, batch.tasks)] = batch
                load[worker] += limit if batch.alone else 1

    def _collect(self) -> None:
        in_flight = {ref: group for group in self._running for ref in group.in_flight}
        if not in_flight:
            time.sleep(0.01)  # until there is work or room
            return
        # Return with the first reply, so that its worker is not left waiting; then take all.
        ready, _ = ray.wait(list(in_flight), num_returns=1, timeout=0.5)
        if ready:
            ready, _ = ray.wait(list(in_flight), num_returns=len(in_flight), timeout=0)
        for ref in ready:
            self._receive(in_flight[ref], ref)
        # Restart actors that exceed the time limit; their batches come back as lost.
        now, limit = time.monotonic(), self._config.timeout_seconds
        for batch in [batch for group in self._running for batch in group.in_flight.values()]:
            if batch.worker and self._is_late(batch, batch.worker, now):
                batch.reason = f"no answer within {limit:g} seconds"
                ray.kill(batch.worker.actor, no_restart=False)
                batch.started = now

    def _is_late(self, batch: Batch, worker: Worker, now: float) -> bool:
        """Whether a batch exceeds the time limit, which starts anew while its worker loads."""
        due = batch.started + self._config.timeout_seconds
        if now <= due or not worker.ready:
            return False
        if worker.ping is not None:
            return now > max(due, worker.ping_since) + ANSWER_SECONDS
        if worker.ping_since < due:
            worker.call_ping(now)
            return False
        if worker.loading:
            batch.started = now
        return not worker.loading

    def _receive(self, group: Group, ref: Any) -> None:
        batch = group.in_flight.pop(ref)
        try:
            reply: Reply = ray.get(ref)
        except RayTaskError as error:
            reply = Reply(failure=one_line(error.cause))
        except RayError as error:
            self._lose(group, batch, one_line(error, 300))
            return
        if reply.died:
            self._restart(group, batch, reply.failure)
            return
        self._connection.losses = 0
        group.answered.add(batch.source.model)
        group.deaths[batch.source.model] = 0
        self._report(batch, reply)
        if reply.effort.loading:
            self._connection.check_listeners()

    def _restart(self, group: Group, batch: Batch, reason: str) -> None:
        """Restart a worker whose engine died; what it had is sent again."""
        worker = batch.worker
        if worker in group.workers and worker.ready:
            self._connection.report(f"{batch.source.model}: {reason}; its worker is restarted")
            worker.ended = worker.pid
            ray.kill(worker.actor, no_restart=False)
        self._lose(group, batch, reason)

    def _lose(self, group: Group, batch: Batch, reason: str) -> None:
        """Keep a batch whose worker or node died until it is known which."""
        worker = batch.worker
        assert worker is not None
        if worker not in group.workers:  # removed with its node
            self._requeue(group, batch)
            return
        batch.reason = batch.reason or reason
        worker.lost.append(batch)
        if worker.ready:
            worker.locate()

    def _resend_lost(self, group: Group, worker: Worker) -> None:
        """Queue the batches that a worker lost, split them, or leave an item undone."""
        lost, worker.lost = worker.lost, []
        blamed = [batch for batch in lost if batch.node in self._connection.state.nodes]
        models = {batch.source.model for batch in blamed}
        group.deaths.update(models)
        for batch in lost:
            batch.deaths += batch in blamed
            if batch.alone and batch.deaths >= BLAME_AFTER:
                reason = f"its worker died {batch.deaths} times while it ran alone"
                self._report(batch, Reply(undone=f"{reason}: {batch.reason}"))
                group.deaths[batch.source.model] = 0  # explained
            elif batch.alone or batch.deaths < SPLIT_AFTER:
                self._requeue(group, batch)
            else:
                for task in batch.tasks:
                    self._requeue(group, Batch(batch.source, [task], alone=True))
        for model in models - self._stopped:
            if group.deaths[model] >= (HOPELESS if model in group.answered else HOPELESS_AT_FIRST):
                batch = next(batch for batch in blamed if batch.source.model == model)
                reason = f"its workers died {group.deaths[model]} times and nothing came back"
                self._handle(batch.source, Reply(failure=f"{reason}: {batch.reason}"))

    def _requeue(self, group: Group, batch: Batch) -> None:
        """Queue a batch again, unless its model was stopped meanwhile."""
        if batch.source.model in self._stopped:
            batch.source.open -= len(batch.tasks)
        else:
            (group.suspects if batch.alone else group.retries).append(batch)

    def _report(self, batch: Batch, reply: Reply) -> None:
        batch.source.answer(len(batch.tasks), reply.effort.busy)
        self._handle(batch.source, reply)

    def _has_room(self, placement: Placement) -> bool:
        """Whether there is room for one more actor."""
        busy: list[Group | ClosingWorkers] = [*self._running, *self._closing]
        workers = [(worker.node, each.placement) for each in busy for worker in each.workers]
        return has_room(self._connection.state.nodes, workers, placement)


def _is_done(ref: Any) -> bool:
    return bool(ray.wait([ref], timeout=0)[0])
