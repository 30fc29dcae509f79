"""What the dispatch over Ray keeps of what actors could do: an engine that only waits.

Every item takes the latency, and all actors together have PLACES places for items, as real engines
have; the sizes of batches are bon's own. Ideal is what they would give with no place ever empty,
and little enough for two cores; counted from when all actors work.
"""

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

import ray
from measured import Side, note, tree

from bon.dispatch.cluster import Dispatcher
from bon.dispatch.groups import Batch
from bon.dispatch.worker import Reply
from bon.running.runner import compute
from bon.running.start import start
from bon.storage.store import Store
from bon.work.setup import prepare

PLACES = 64
START_SECONDS = 1.5
"""For each actor, one after the other."""
LEAST_ROUNDS = 30


def experiment(folder: Path, questions: int, actors: int, latency: float) -> dict[str, Any]:
    """One policy of one candidate."""
    with (folder / "questions.jsonl").open("w", encoding="utf-8") as file:
        for i in range(questions):
            options = [str(i + shift) for shift in range(4)]
            row = {"id": f"q{i}", "question": f"{i}?", "options": options, "answer": "A"}
            file.write(json.dumps(row) + "\n")
    policy = {
        "name": "p",
        "engine": "echo",
        "prompt": "bare",
        "n": 1,
        "engine_args": {"latency": latency, "places": PLACES // actors},
        "placement": {"actors": actors, "cpus": 0.1},
    }
    return {
        "questions": {"benchmark": "multiple_choice", "path": "questions.jsonl"},
        "policies": [policy],
    }


def measured(actors: int, latency: float, seconds: float) -> tuple[int, float, float]:
    """(items, seconds of wall, CPU-seconds of all processes), while all actors work."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wanted = int(PLACES / latency * (seconds + START_SECONDS * actors))
        setup = prepare(experiment(folder, wanted, actors, latency), folder)
        times: list[tuple[float, int, float]] = []
        seen = set()

        report = Dispatcher._report

        def watched(self: Dispatcher, batch: Batch, reply: Reply) -> None:
            seen.add(batch.worker)
            if len(seen) == actors:
                cpu = sum(tree(os.getpid()).values())
                times.append((time.perf_counter(), len(batch.tasks), cpu))
            report(self, batch, reply)

        with Store(folder / "run") as store, patch.object(Dispatcher, "_report", watched):
            start(setup, store, quiet=True)
            compute(setup, store, quiet=True)
    assert len(times) > 8, f"{actors} actors did not start in time: give more --seconds"
    middle = times[: -len(times) // 8]  # at the end there is not enough for all
    items = sum(count for _, count, _ in middle[1:])
    return items, middle[-1][0] - middle[0][0], middle[-1][2] - middle[0][2]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--actors", type=int, nargs="*", default=[1, 4, 16])
    parser.add_argument("--latency", type=float, nargs="*", default=[0.05, 0.5])
    parser.add_argument("--seconds", type=float, default=6.0)
    arguments = parser.parse_args()
    ray.init(address="local", include_dashboard=False, log_to_driver=False)
    print(f"{'latency':>8} {'actors':>7} {'items/s':>9} {'of ideal':>9} {'cores busy':>11}")
    for latency in arguments.latency:
        for actors in arguments.actors:
            seconds = max(arguments.seconds, LEAST_ROUNDS * latency)
            items, wall, cpu = measured(actors, latency, seconds)
            ideal, rate = PLACES / latency, items / wall
            shown = f"{rate:>9.0f} {rate / ideal:>9.2f} {cpu / wall:>11.2f}"
            print(f"{latency:>7.2f}s {actors:>7} {shown}")
            note(
                f"dispatch, {1000 * latency:.0f} ms, actors: {actors}",
                "items/s",
                Side("bon", rate, cpu, wall),
                Side("ideal", ideal),
                at_least=0.9 if latency < 0.5 else 0.95,
            )
    ray.shutdown()


if __name__ == "__main__":
    main()
