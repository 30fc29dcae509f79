"""Judging at scale: one driver, 64 workers on the echo engine, by the number of judgements.

python tools/bench/bench_scale.py [--judgements 10000 100000 1000000] [--workers 64] [--kill 1 16]

Each size is a run of its own: four rewarders score both responses of each pair, by the product's
workers over Ray, which start once for all sizes, and all of them before the first batch goes out.
The driver's CPU is what it spends from then on; its peak memory is that of this and smaller sizes.
A resume is a second start of the finished run from which the last rows of each rewarder were
deleted, so that everything is walked. The size of `--killed` runs again for each `--kill`:
so many workers are killed when half is stored.
"""

import argparse
import json
import os
import resource
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import ray
from measured import Side, note, tree

from bon.dispatch import cluster
from bon.dispatch.cluster import Dispatcher
from bon.dispatch.groups import Group
from bon.dispatch.source import Source
from bon.dispatch.worker import Reply
from bon.running.runner import compute, make_sources
from bon.running.start import start
from bon.running.tally import Tally
from bon.storage.store import Store
from bon.work.completeness import completeness
from bon.work.setup import Setup, prepare

REWARDERS = 4
ON_A_PAIR = 2 * REWARDERS
NO_ROOM = 1e-3  # of a CPU for each worker: all have room on this machine


def experiment(folder: Path, judgements: int, workers: int) -> dict[str, Any]:
    """A reward benchmark alone, judged by scalar rewarders that share the workers."""
    with (folder / "pairs.jsonl").open("w", encoding="utf-8") as file:
        for i in range(judgements // ON_A_PAIR):
            pair = {
                "prompt": f"What is {i} + {i}?",
                "chosen": f"{2 * i}.",
                "rejected": f"{2 * i + 1}.",
            }
            file.write(json.dumps({"id": f"p{i}", **pair}) + "\n")
    place = {"group": "all", "actors": workers, "cpus": NO_ROOM}
    card = {"kind": "scalar", "engine": "echo", "placement": place}
    return {
        "questions": [],
        "pairs": [{"benchmark": "preference", "path": "pairs.jsonl"}],
        "policies": [],
        "rewarders": [
            {**card, "name": f"r{i}", "engine_args": {"accuracy": 0.6 + 0.1 * i}}
            for i in range(REWARDERS)
        ],
    }


class Watch:
    """What the dispatcher does: nothing before all workers are up, and from then on counted."""

    def __init__(self, workers: int, half: int, kill: int) -> None:
        self.workers, self.half, self.kill = workers, half, kill
        self.began = self.cpu = self.killed = self.back = 0.0
        self.rows = self.batches = self.lost = 0
        self.pids: set[int] = set()

    def feed(self, dispatcher: Dispatcher, group: Group, as_usual: Callable[..., None]) -> None:
        """Start when all workers are up; kill some of them at half; note when all are back."""
        up = len(group.ready) == self.workers
        if not self.began:
            if not up:
                return
            self.began, self.cpu = time.perf_counter(), time.process_time()
        as_usual(dispatcher, group)
        if self.kill and not self.killed and self.rows >= self.half:
            self.killed = time.perf_counter()
            self.pids = {worker.pid for worker in group.ready[: self.kill]}
            under_way = [b for b in group.in_flight.values() if b.worker.pid in self.pids]
            self.lost = sum(len(batch.tasks) for batch in under_way)
            for pid in self.pids:
                os.kill(pid, signal.SIGKILL)
        new = up and self.pids.isdisjoint(worker.pid for worker in group.ready)
        if self.killed and not self.back and new:
            self.back = time.perf_counter()

    def file(
        self, tally: Tally, source: Source, reply: Reply, as_usual: Callable[..., None]
    ) -> None:
        """Count rows."""
        self.rows += len(reply.judgements)
        self.batches += 1
        as_usual(tally, source, reply)


class Pool:
    """Workers that outlive a run: the next one takes them instead of starting others."""

    def __init__(self) -> None:
        self._idle: list[Any] = []
        self._start, self._kill = cluster.start_host, ray.kill

    def start(self, *given: Any) -> Any:
        """Instead of `start_host`."""
        return self._idle.pop() if self._idle else self._start(*given)

    def kill(self, actor: Any, *, no_restart: bool = True) -> None:
        """Instead of `ray.kill`."""
        if no_restart:
            self._idle.append(actor)
        else:
            self._kill(actor, no_restart=False)


def measured(judgements: int, workers: int, kill: int = 0) -> dict[str, float]:
    """What one size takes."""
    watch, all_before = Watch(workers, judgements // 2, kill), sum(tree(os.getpid()).values())
    feed, file = Dispatcher._feed, Tally.file
    with (
        tempfile.TemporaryDirectory() as name,
        patch.object(Dispatcher, "_feed", lambda *given: watch.feed(*given, feed)),
        patch.object(Tally, "file", lambda *given: watch.file(*given, file)),
    ):
        folder = Path(name)
        setup = prepare(experiment(folder, judgements, workers), folder)
        with Store(folder / "run") as store:
            start(setup, store, quiet=True)
            compute(setup, store, quiet=True)
            ended, cpu = time.perf_counter(), time.process_time()
            stored = store.count("judgements")
        assert stored == judgements, f"{stored} of {judgements}"
        found = {
            "seconds": ended - watch.began,
            "driver": (cpu - watch.cpu) / stored,
            "all": sum(tree(os.getpid()).values()) - all_before,
            "batches": watch.batches,
            "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            "size": sum(path.stat().st_size for path in (folder / "run").glob("run.sqlite*")),
            "back": watch.back - watch.killed,
            "lost": watch.lost,
        }
        return found if kill else found | _resumed(setup, folder / "run")


def _resumed(setup: Setup, directory: Path) -> dict[str, float]:
    """CPU-seconds of reading the data again, of counting, and until the first missing item."""
    with Store(directory) as store:
        store.db.execute(
            "DELETE FROM judgements WHERE (spec, item) IN (SELECT spec, (SELECT key FROM pairs "
            "ORDER BY active DESC LIMIT 1) FROM judgements GROUP BY spec)"
        )
        times = [time.process_time()]
        start(setup, store, quiet=True)
        times.append(time.process_time())
        assert not completeness(setup, store).complete
        times.append(time.process_time())
        assert all(source.has_work() for source in make_sources(setup, store))
        times.append(time.process_time())
    names = ("data", "counted", "walked")
    return {name: b - a for name, a, b in zip(names, times, times[1:], strict=False)}


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--judgements", type=int, nargs="*", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--workers", type=int, default=64)
    parser.add_argument("--kill", type=int, nargs="*", default=[1, 16])
    parser.add_argument("--killed", type=int, default=100_000)
    a = parser.parse_args()
    ray.init(address="local", include_dashboard=False, log_to_driver=False)
    pool = Pool()
    with patch.object(cluster, "start_host", pool.start), patch.object(ray, "kill", pool.kill):
        print("judgements  seconds  driver us/row  driver MiB  store MB  CPU s to read, count, walk"
              "  all CPU s  rows/batch", flush=True)  # fmt: skip
        for size in sorted(a.judgements):
            size -= size % ON_A_PAIR
            show(size, a.workers)
            for kill in a.kill if size == a.killed else ():
                m = measured(size, a.workers, kill)
                print(f"{kill} of {a.workers} workers killed at half: all back after "
                      f"{m['back']:.1f} s, {m['lost']} items asked again, no judgement missing, "
                      f"{m['seconds']:.1f} s in all", flush=True)  # fmt: skip
    ray.shutdown()


def show(size: int, workers: int) -> None:
    """Print a row of the table."""
    m = measured(size, workers)
    each = 1e6 * m["driver"]
    again = "  ".join(f"{m[name]:.2f}" for name in ("data", "counted", "walked"))
    print(f"{size:>10} {m['seconds']:>8.1f} {each:>14.1f} {m['peak']:>11.0f} "
          f"{m['size'] / 1e6:>9.1f}  {again}  {m['all']:.0f}  {size / m['batches']:.0f}",
          flush=True)  # fmt: skip
    what = f"driver of {workers} workers, {size:,} judgements"
    note(what, "µs of CPU a row", Side("bon", each, m["all"], m["seconds"]))


if __name__ == "__main__":
    main()
