"""What the dispatch over Ray keeps of what actors could do: an engine that only waits.

Every item takes the latency, whatever else is in flight. Ideal is what ACTORS actors would give
that always held two batches of 32; CPU is of all processes, and bounds what one machine can do.
"""

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import ray
from measured import Side, note, tree

from bon.running.runner import compute
from bon.running.setup import prepare
from bon.running.start import start
from bon.running.store import Store

HELD = 2 * 32


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
        "engine_args": {"latency": latency},
        "placement": {"actors": actors, "cpus": 0.1},
    }
    return {
        "questions": {"benchmark": "multiple_choice", "path": "questions.jsonl"},
        "policies": [policy],
        "cluster": {"batch": 32, "in_flight": 2},
    }


def measured(actors: int, latency: float, seconds: float) -> tuple[int, float, float]:
    """(items, seconds of wall, CPU-seconds of all processes), while all actors work."""
    ideal = actors * HELD / latency
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wanted = int(min(ideal * seconds, 12_000))
        setup = prepare(experiment(folder, wanted, actors, latency), folder)
        times: list[tuple[float, int, float]] = []
        with Store(folder / "run") as store:
            start(setup, store, quiet=True)
            plain = store.add_candidates

            def noted(rows: Any, each: float | None = None) -> Any:
                times.append((time.perf_counter(), len(rows), sum(tree(os.getpid()).values())))
                return plain(rows, each)

            store.add_candidates = noted  # type: ignore[method-assign]
            compute(setup, store, quiet=True)
    # Actors start one after the other: the middle half, when all of them work.
    middle = times[len(times) // 4 : -len(times) // 4]
    items = sum(count for _, count, _ in middle[1:])
    wall = middle[-1][0] - middle[0][0]
    return items, wall, middle[-1][2] - middle[0][2]


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
            items, wall, cpu = measured(actors, latency, arguments.seconds)
            ideal, rate = actors * HELD / latency, items / wall
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
