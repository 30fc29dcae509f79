"""Commands as a user runs them, each a process: wall, and CPU-seconds of it and all it starts.

    python tools/bench/bench_commands.py FOLDER [--finished]

The demo is run into FOLDER (`--finished`: it is there already) and then started again, reported on
and left there; a run of the echo engine shows what every run pays at its start and its end.
"""

import argparse
import csv
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml
from bench_chain import echo_experiment
from measured import Side, note, number, spent

BON = Path(sys.executable).with_name("bon")


def bon(what: str, *words: str | Path, at_most: float | None = None, rounds: int = 1) -> None:
    """Time a command; the quickest of some rounds counts."""
    found = []
    for _ in range(rounds):
        wall, cpu, code = spent([BON, *words], stdout=subprocess.DEVNULL, env=os.environ)
        if code:
            sys.exit(f"bon {' '.join(map(str, words))} ended with {code}")
        found.append((wall, cpu))
    wall, cpu = min(found)
    print(f"{what:40s} {number(wall):>6} s {number(cpu):>6} s of CPU", flush=True)
    note(what, "s", Side("bon", wall, cpu, wall), at_most=at_most)


def published(path: Path) -> Path:
    """A table of numbers as papers print them: 20 models, two benchmarks, Best-of-N."""
    draw = random.Random(0)
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["rewarder", "family", "benchmark", "other benchmark", "bon"])
        for i in range(20):
            scores = [round(30 + 2 * i + draw.gauss(0, 4), 1) for _ in range(3)]
            rows.writerow([f"model {i}", f"family {i // 3}", *scores])
    return path


def main() -> None:
    """Print a line per command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--finished", action="store_true", help="FOLDER holds the demo's run")
    parser.add_argument("--rounds", type=int, default=2)
    a = parser.parse_args()
    if not a.finished:
        shutil.rmtree(a.folder, ignore_errors=True)
        bon("bon demo", "demo", "--quiet", "--out", a.folder, at_most=75)
    bon("bon demo, nothing left to do", "demo", "--quiet", "--out", a.folder)
    bon("bon report of the demo", "report", a.folder, at_most=3, rounds=a.rounds)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table = published(folder / "published.csv")
        bon("bon correlate", "correlate", table, at_most=1, rounds=a.rounds)
        file = folder / "echo.yaml"
        file.write_text(yaml.safe_dump(echo_experiment(folder, 20)), encoding="utf-8")
        bon(
            "bon run, echo, 20 questions",
            "run",
            file,
            "--quiet",
            "--out",
            folder / "run",
            at_most=5,
        )


if __name__ == "__main__":
    main()
