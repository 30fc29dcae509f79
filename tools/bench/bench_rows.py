"""CPU per row of the chain without Ray: what the driver and a worker do to it, and a second start.

One process: the same sources, worker and store as `bon run`, no transport. CPU-seconds are of the
process, so other work on the machine counts little.
"""

import argparse
import asyncio
import tempfile
import time
from pathlib import Path

from bench_chain import echo_experiment
from measured import Side, note

from bon.dispatch.worker import Host
from bon.running.runner import compute, make_sources
from bon.running.start import start
from bon.running.tally import Tally
from bon.storage.store import Store
from bon.work.setup import Setup, prepare


async def fill(setup: Setup, store: Store) -> dict[str, float]:
    """Run an experiment to its end; CPU-seconds of finding the work, doing it and filing it."""
    tally, host = Tally(setup, store), Host(setup.specs())
    spent = {"find": 0.0, "work": 0.0, "file": 0.0}
    for source in make_sources(setup, store):
        while True:
            before = time.process_time()
            tasks = source.take(64)
            found = time.process_time()
            spent["find"] += found - before
            if not tasks:
                break
            reply = await host.run(source.model, tasks)
            done = time.process_time()
            spent["work"] += done - found
            source.answer(len(tasks), reply.effort.busy)
            tally.file(source, reply)
            spent["file"] += time.process_time() - done
    return spent


def main() -> None:
    """Print microseconds per row, and CPU-seconds of a start that finds nothing to do."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=4000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        setup = prepare(echo_experiment(folder, arguments.questions), folder)
        with Store(folder / "run") as store:
            start(setup, store, quiet=True)
            spent = asyncio.run(fill(setup, store))
            rows = store.count("candidates") + store.count("judgements")
        for what, seconds in spent.items():
            print(f"{what:<6} {1e6 * seconds / rows:6.1f} us of CPU per row")
        with Store(folder / "run") as store:
            began = time.process_time()
            start(setup, store, quiet=True)
            read = time.process_time()
            compute(setup, store, quiet=True)
            done = time.process_time()
    cpu = sum(spent.values())
    note("a row in one process, no Ray", "µs of CPU", Side("bon", 1e6 * cpu / rows, cpu))
    share = 260_000 / rows
    idle = (done - read) * share
    note("nothing left to do, 260,000 rows", "CPU s", Side("bon", idle, idle), at_most=2)
    print(f"a second start, {rows} rows: {read - began:.2f} s of CPU to read the data,")
    print(
        f"{done - read:.2f} s to find nothing to do; of 260,000 rows {(done - read) * share:.1f} s"
    )


if __name__ == "__main__":
    main()
