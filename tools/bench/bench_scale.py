"""Judging at scale: one driver, 64 workers on the echo engine, by the number of judgements.

python tools/bench/bench_scale.py [--judgements 10000 100000 1000000] [--workers 64] [--kill 1 16]

Each size is a run of its own in a process of its own: four rewarders score both responses of each
pair, by the product's own workers over Ray, all of which start before the first batch goes out. The
driver's CPU is what it spends from then on. A resume is a second start of the finished run from
which the last row of each rewarder was deleted, so that everything is walked. With `--kill` the
size of `--killed` runs again for each number of workers, which are killed when half is stored.
"""

import argparse
import json
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

from measured import LOOK, Side, note, tree

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
            pair = {"prompt": f"What is {i} + {i}?", "chosen": f"{2 * i}.", "rejected": f"{i}."}
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
        as_usual(dispatcher, group)

    def file(
        self, tally: Tally, source: Source, reply: Reply, as_usual: Callable[..., None]
    ) -> None:
        """Count rows."""
        self.rows += len(reply.judgements)
        self.batches += 1
        as_usual(tally, source, reply)


def run(judgements: int, workers: int, kill: int, pipe: Any) -> None:
    """One size, in a process of its own."""
    watch = Watch(workers, judgements // 2, kill)
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
            before = _peak()
            compute(setup, store, quiet=True)
            ended, cpu = time.perf_counter(), time.process_time()
            stored = store.count("judgements")
        assert stored == judgements, f"{stored} of {judgements}"
        found = {
            "seconds": ended - watch.began,
            "driver": (cpu - watch.cpu) / stored,
            "batches": watch.batches,
            "peak": _peak(),
            "before": before,
            "size": sum(path.stat().st_size for path in (folder / "run").glob("run.sqlite*")),
            "back": watch.back - watch.killed,
            "lost": watch.lost,
        }
        if not kill:
            found |= _resumed(setup, folder / "run")
    pipe.send(found)


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


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measured(judgements: int, workers: int, kill: int = 0) -> dict[str, float]:
    """The same from another process, with the CPU-seconds of all that came of it."""
    ours, theirs = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=run, args=(judgements, workers, kill, theirs))
    process.start()
    times: dict[int, float] = {}
    while not ours.poll(LOOK):
        assert process.is_alive(), "the run ended without a word"
        times.update(tree(process.pid or 0))
    found: dict[str, float] = ours.recv()
    process.join()
    return found | {"all": sum(times.values())}


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--judgements", type=int, nargs="*", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--workers", type=int, default=64)
    parser.add_argument("--kill", type=int, nargs="*", default=[1, 16])
    parser.add_argument("--killed", type=int, default=100_000)
    a = parser.parse_args()
    print("judgements  seconds  driver us/row  driver MiB  at first  store MB  CPU s to read, "
          "count, walk again  all CPU s  rows/batch", flush=True)  # fmt: skip
    for size in a.judgements:
        size -= size % ON_A_PAIR
        m = measured(size, a.workers)
        each = 1e6 * m["driver"]
        again = "  ".join(f"{m[name]:.2f}" for name in ("data", "counted", "walked"))
        print(f"{size:>10} {m['seconds']:>8.1f} {each:>14.1f} {m['peak']:>11.0f} "
              f"{m['before']:>9.0f} {m['size'] / 1e6:>9.1f}  {again}  {m['all']:.0f}  "
              f"{size / m['batches']:.0f}", flush=True)  # fmt: skip
        what = f"driver of {a.workers} workers, {size:,} judgements"
        note(what, "µs of CPU a row", Side("bon", each, m["all"], m["seconds"]))
    for kill in a.kill:
        m = measured(a.killed - a.killed % ON_A_PAIR, a.workers, kill)
        print(f"{kill} of {a.workers} workers killed at half of {a.killed}: all back after "
              f"{m['back']:.1f} s, {m['lost']} items asked again, no judgement missing, "
              f"{m['seconds']:.1f} s in all", flush=True)  # fmt: skip


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    main()
