"""Ray: actors that hold models, and the dispatch of work over them.

Models of one placement group share its actors. A group starts when the cluster has room for
it and is stopped when its work is done, so eight models run in turn on one GPU and all at once
on eight; room that comes later, by a group that ends or a node that joins, is used too. An
actor holds a bounded number of batches; when its process dies Ray starts it again, and what it
held goes back to the queue. Only a death on a node that lives counts against a batch. One that
was held in SPLIT_AFTER deaths is split into items that run alone on a worker, and an item that
ends one after the other while the model's other items come back is filed as an error.
"""

import gc
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import ray
from ray.exceptions import ActorUnavailableError, RayActorError, RayError, RayTaskError

from bon.core.errors import BonError, one_line
from bon.engines.base import Engine
from bon.experiment.config import ClusterConfig, Placement
from bon.running.blame import Suspect
from bon.running.connection import Connection, RayLost
from bon.running.groups import Closing, Group, Parcel, Worker, grouped
from bon.running.work import Source
from bon.running.worker import Host, ModelSpec, Reply, give_up

SPLIT_AFTER = 2
CLOSE_SECONDS = 60.0
START_SECONDS = 60.0
Handle = Callable[[Source, Reply], None]
"""Called for every batch that comes back."""


class HostActor(Host):
    """A host that can say where it is."""

    @ray.method(max_task_retries=-1)  # type: ignore[untyped-decorator]
    async def node(self) -> str:
        """The Ray node that this is on; answered when the process runs, be it a second one."""
        return str(ray.get_runtime_context().get_node_id())

    async def _engine(self, spec: ModelSpec) -> tuple[Engine, float]:
        """The model, which stays: it is not looked through as rows come and go."""
        engine, loading = await super()._engine(spec)
        if loading:
            gc.collect()  # what is garbage by now would stay as well
            gc.freeze()
        return engine, loading

    async def close(self) -> None:
        """Close every engine; what this process still holds then is freed by its end."""
        gc.freeze()  # so that no engine, as it closes, looks through all that others hold
        await super().close()


class Dispatcher:
    """Feeds sources to actors until every source is finished."""

    def __init__(
        self,
        config: ClusterConfig,
        specs: dict[str, ModelSpec],
        sources: Iterable[Source],
        handle: Handle,
        rays: Connection,
    ) -> None:
        self._config = config
        self._handle = handle
        self._rays = rays
        self._groups = grouped(specs, list(sources))
        self._waiting = deque(self._groups)
        self._running: list[Group] = []
        self._closing: list[Closing] = []
        self._total = dict(rays.seen.resources)
        self._free = dict(self._total)
        self._stopped: set[str] = set()
        for group in self._groups:
            self._check_fits(group)

    def run(self) -> None:
        """Block until all is done; KeyboardInterrupt leaves at once, with what is committed."""
        try:
            while self._waiting or self._running or self._closing:
                try:
                    self._turn()
                except RayLost as lost:
                    self._start_over(lost)
        finally:
            for group in self._running:
                self._stop_group(group)
            self._end_closed(within=1.0)

    def stop_model(self, model: str) -> None:
        """Give a model no more work; what is in flight is still collected."""
        self._stopped.add(model)
        for group in self._groups:
            for source in group.sources:
                if source.model == model:
                    source.finished = True
            for queue in (group.again, group.suspects):
                for batch in [b for b in queue if b.source.model == model]:
                    queue.remove(batch)
                    batch.source.open -= len(batch.tasks)

    def _turn(self) -> None:
        """Whatever can be done now."""
        try:
            self._rays.check()
            self._recount()
            self._start_groups()
            for group in self._running:
                self._add_workers(group)
                self._settle(group)
                self._feed(group)
            self._collect()
            self._make_room()
            for group in [group for group in self._running if group.finished]:
                self._running.remove(group)
                self._stop_group(group)
            self._end_closed()
        except (BonError, RayLost):
            raise
        except Exception:
            self._rays.find_out()
            raise

    def _start_over(self, lost: RayLost) -> None:
        """On another Ray, with all that was under way; none of it is to blame."""
        for group in self._running:
            held = [batch for worker in group.workers for batch in worker.lost]
            for batch in [*group.flying.values(), *held]:
                self._queue(group, batch)
            group.flying.clear()
            group.workers.clear()
        self._closing.clear()
        self._waiting.extendleft(reversed(self._running))
        self._running.clear()
        self._rays.again(lost)
        self._total = dict(self._rays.seen.resources)
        self._free = dict(self._total)

    # -- groups --------------------------------------------------------------------------

    def _start_groups(self) -> None:
        for group in list(self._waiting):
            if group.finished:
                self._waiting.remove(group)
            elif self._fits(group) or not (self._running or self._closing):
                self._waiting.remove(group)
                self._running.append(group)
                self._add_workers(group)
            elif self._closing:  # whose room may be enough for it: nobody goes before it
                break

    def _make_room(self) -> None:
        """Stop groups that only wait, while those that they wait for wait for room.

        That is who samples candidates, or a rewarder that is not as far as the others.
        """
        waiting = [s for group in self._waiting for s in group.sources if not s.finished]
        for group in [g for g in self._running if g.idle and not g.finished]:
            behind = all(s.finished or s.blocked for s in group.sources)
            if any(s.stage == "generate" or (behind and not s.blocked) for s in waiting):
                self._running.remove(group)
                self._stop_group(group)
                self._waiting.append(group)

    def _add_workers(self, group: Group) -> None:
        """As many as the group may have, the cluster has room for and there is work for."""
        place = group.placement
        lacking = group.again or group.suspects
        idle = not lacking and all(source.finished for source in group.sources)
        if idle or len(group.workers) >= place.actors or not self._fits(group):
            return
        options: dict[str, Any] = {
            "num_cpus": place.cpus,
            "num_gpus": place.gpus,
            "max_restarts": -1,
            "max_concurrency": 1000,
        }
        if place.runtime_env:
            options["runtime_env"] = place.runtime_env
        actor_class = ray.remote(HostActor)
        while len(group.workers) < place.actors and self._take(place):
            actor = actor_class.options(**options).remote(group.specs, sys.path)
            group.workers.append(Worker(actor, actor.node.remote()))

    def _stop_group(self, group: Group) -> None:
        """Have its workers close their engines, which takes a while: the other groups go on."""
        answers = [worker.actor.close.remote() for worker in group.ready]
        until = time.monotonic() + CLOSE_SECONDS
        self._closing.append(Closing(group.workers, group.placement, answers, until))
        group.workers = []

    def _end_closed(self, within: float | None = None) -> None:
        """End workers that have closed their engines, and those that do not; `within`: all."""
        if within is not None:
            answers = [answer for one in self._closing for answer in one.answers]
            if answers:
                ray.wait(answers, num_returns=len(answers), timeout=within)
        for one in list(self._closing):
            late = within is not None or time.monotonic() > one.until
            if late or all(ray.wait([answer], timeout=0)[0] for answer in one.answers):
                self._closing.remove(one)
                for worker in one.workers:
                    ray.kill(worker.actor)
                    self._give(one.placement)

    # -- batches -------------------------------------------------------------------------

    def _settle(self, group: Group) -> None:
        """Hear from workers that are starting; send again what was lost by those that are back."""
        for worker in list(group.workers):
            if not worker.ready and ray.wait([worker.asked], timeout=0)[0]:
                try:
                    worker.node, worker.asked = ray.get(worker.asked), None
                    worker.back = time.monotonic()
                except ActorUnavailableError:
                    worker.asked = worker.actor.node.remote()
                except RayError as error:  # it cannot be started, here or anywhere
                    self._give_up_worker(group, worker, error)
                    continue
            self._mind_start(group, worker)
            # Only who was asked after the worker came back knows whether its node had died.
            if worker.lost and worker.ready and self._rays.seen.at > worker.back:
                self._send_again(group, worker)

    def _mind_start(self, group: Group, worker: Worker) -> None:
        """Say that a worker does not come; replace one that does not come back.

        Raises RayLost where the Ray is a local one, which has nothing else to do.
        """
        seconds = time.monotonic() - worker.since
        if worker.ready or seconds < START_SECONDS:
            return
        late = f"Ray has not started a worker for {seconds:.0f} seconds"
        if not worker.told:
            worker.told = True
            self._rays.say(f"{', '.join(sorted(group.specs))}: {late}; waiting")
        if seconds < START_SECONDS * (2 if worker.node else 5):
            return
        if self._rays.local and not group.placement.runtime_env:
            raise RayLost(late)
        if worker.node:
            self._remove(group, worker)

    def _give_up_worker(self, group: Group, worker: Worker, error: RayError) -> None:
        """Its models cannot work, unless what failed was Ray."""
        self._rays.find_out()
        self._remove(group, worker)
        reason = f"its worker cannot start: {_cause(error)}"
        for model in group.specs:
            source = next(source for source in group.sources if source.model == model)
            self._handle(source, Reply(failure=reason))

    def _send_again(self, group: Group, worker: Worker) -> None:
        """What a worker held goes back to the queue, or is given up."""
        lost, worker.lost = worker.lost, []
        blamed = [batch for batch in lost if batch.node in self._rays.seen.nodes]
        for model in {batch.source.model for batch in blamed}:
            group.fortunes[model].streak += 1
        for batch in lost:
            fortunes = group.fortunes[batch.source.model]
            if batch in blamed:
                batch.deaths += 1
                if batch.suspect:
                    batch.suspect.wait(fortunes)
            if batch.suspect and batch.suspect.guilty(fortunes, batch.deaths, batch.hung):
                reason = f"its worker died {batch.deaths} times while it ran alone"
                spec = group.specs[batch.source.model]
                reply = give_up(spec, batch.tasks[0], f"{reason}: {batch.reason}")
                fortunes.streak = 0  # and is explained
                self._report(batch, reply)
            elif batch.suspect or batch.deaths < SPLIT_AFTER:
                self._queue(group, batch)
            else:
                for task in batch.tasks:
                    alone = Parcel(batch.source, [task], suspect=Suspect(replace(fortunes)))
                    self._queue(group, alone)
        for batch in blamed:
            fortunes = group.fortunes[batch.source.model]
            if fortunes.hopeless and batch.source.model not in self._stopped:
                reason = f"its workers died {fortunes.streak} times and nothing came back"
                self._handle(batch.source, Reply(failure=f"{reason}: {batch.reason}"))

    def _queue(self, group: Group, batch: Parcel) -> None:
        """Back to the queue, unless its model was stopped meanwhile."""
        if batch.source.model in self._stopped:
            batch.source.open -= len(batch.tasks)
        elif batch.suspect:
            group.suspects.append(batch)
        else:
            group.again.append(batch)

    def _feed(self, group: Group) -> None:
        load = dict.fromkeys(group.ready, 0)
        for flying in group.flying.values():
            if flying.worker in load:
                load[flying.worker] += self._config.in_flight if flying.suspect else 1
        for worker in sorted(load, key=load.__getitem__):
            while load[worker] < self._config.in_flight:
                # What may kill its worker has it to itself, so that nothing else is blamed.
                suspect = group.due_suspect()
                if suspect and load[worker]:
                    break
                batch = suspect or self._next(group)
                if batch is None and group.suspects and not load[worker]:
                    batch = group.suspects[0]  # no others to wait for
                if batch is None:
                    return
                if batch.suspect:
                    group.suspects.remove(batch)
                self._send(group, batch, worker)
                load[worker] += self._config.in_flight if batch.suspect else 1

    def _next(self, group: Group) -> Parcel | None:
        if group.again:
            return group.again.popleft()
        for source in group.sources:
            if not source.finished:
                tasks = source.take(group.size(source, self._config))
                if tasks:
                    return Parcel(source, tasks)
        return None

    def _send(self, group: Group, batch: Parcel, worker: Worker) -> None:
        batch.worker, batch.node, batch.reason = worker, worker.node, ""
        batch.started = time.monotonic()
        reply = worker.actor.run.remote(batch.source.model, batch.tasks)
        group.flying[reply] = batch

    def _collect(self) -> None:
        flying = {ref: group for group in self._running for ref in group.flying}
        if not flying:
            time.sleep(0.01)  # for work, or for room
            return
        # As soon as one is there, so that its worker is not left waiting; then all that are.
        ready, _ = ray.wait(list(flying), num_returns=1, timeout=0.5)
        if ready:
            ready, _ = ray.wait(list(flying), num_returns=len(flying), timeout=0)
        for ref in ready:
            self._take_in(flying[ref], ref)
        self._check_time()

    def _take_in(self, group: Group, ref: Any) -> None:
        batch = group.flying.pop(ref)
        try:
            reply: Reply = ray.get(ref)
        except RayTaskError as error:
            reply = Reply(failure=one_line(error.cause))
        except RayError as error:
            self._lose(group, batch, error)
            return
        self._rays.works()
        group.fortunes[batch.source.model].came_back(len(batch.tasks), batch.deaths)
        self._report(batch, reply)

    def _lose(self, group: Group, batch: Parcel, error: RayError) -> None:
        """A batch came back with its worker's death, or that of a node: wait to see which."""
        worker = batch.worker
        assert worker is not None
        if worker not in group.workers:  # it went with its node
            self._queue(group, batch)
            return
        batch.reason = batch.reason or one_line(error, 300)
        worker.lost.append(batch)
        if worker.ready:
            worker.ask()

    def _report(self, batch: Parcel, reply: Reply) -> None:
        batch.source.answer(len(batch.tasks), reply.effort.busy)
        self._handle(batch.source, reply)

    def _check_time(self) -> None:
        now = time.monotonic()
        limit = self._config.timeout_seconds
        for group in self._running:
            for batch in list(group.flying.values()):
                if batch.worker and now - batch.started > limit:
                    # The actor starts again, and what it held comes back as lost.
                    batch.reason = f"no answer within {limit:g} seconds"
                    batch.hung += 1
                    ray.kill(batch.worker.actor, no_restart=False)
                    batch.started = now

    # -- resources -----------------------------------------------------------------------

    def _check_fits(self, group: Group) -> None:
        place = group.placement
        models = ", ".join(sorted(group.specs))
        for name, wanted, key in (("GPU", place.gpus, "gpus"), ("CPU", place.cpus, "cpus")):
            have = self._free[name]
            if wanted > have:
                raise BonError(
                    f"{models}: wants {wanted:g} {name} per actor, and Ray has {have:g}",
                    f"set placement.{key}, or use a larger cluster with --ray-address",
                )

    def _recount(self) -> None:
        """Nodes may have joined, or gone with their workers.

        Ray would start those again as soon as it has room, which may be never.
        """
        seen = self._rays.seen
        for name, amount in seen.resources.items():
            self._free[name] += amount - self._total[name]
        self._total = dict(seen.resources)
        for group in self._running:
            for worker in list(group.workers):
                if worker.node and worker.node not in seen.nodes and seen.at > worker.back:
                    self._remove(group, worker)

    def _remove(self, group: Group, worker: Worker) -> None:
        """A worker that will not come back; what it held goes back to the queue, blameless."""
        group.workers.remove(worker)
        for batch in worker.lost:
            self._queue(group, batch)
        ray.kill(worker.actor)
        self._give(group.placement)

    def _fits(self, group: Group) -> bool:
        place = group.placement
        return place.cpus <= self._free["CPU"] and place.gpus <= self._free["GPU"]

    def _take(self, place: Placement) -> bool:
        if place.cpus > self._free["CPU"] or place.gpus > self._free["GPU"]:
            return False
        self._give(place, -1)
        return True

    def _give(self, place: Placement, sign: int = 1) -> None:
        self._free["CPU"] += sign * place.cpus
        self._free["GPU"] += sign * place.gpus


def _cause(error: RayError) -> str:
    """Why a worker cannot start; of what its own code raised Ray shows a page, this at its end."""
    if isinstance(error, RayActorError) and error.actor_init_failed:
        return str(error).strip().splitlines()[-1][:300]
    return one_line(error, 300)
