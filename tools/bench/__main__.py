"""Every benchmark, one after the other, and all that they measured in one table.

    python tools/bench [--quick] [--only endpoint --only peers] [--demo RUN]

`make bench` (`QUICK=1`, `ONLY="endpoint peers"`, `DEMO=runs/demo`). Each script also runs alone and
prints more than the table holds. Kept in build/bench.json as it comes, and in build/bench.md at the
end, also where a script fails (exit code 1) or the run is stopped.
"""

import argparse
import json
import os
import platform
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from measured import FILE, Measured, append, number, spent, table

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
LIBRARIES = ("torch", "transformers", "ray", "numpy", "pandas", "httpx")


@dataclass(frozen=True)
class Script:
    """A script of this folder and its arguments; {demo} is the run that `commands` makes."""

    name: str
    arguments: str = ""
    quick: str = ""

    def command(self, demo: Path, quick: bool) -> list[str]:
        """Its command line."""
        words = (self.quick if quick else self.arguments).replace("{demo}", shlex.quote(str(demo)))
        return [sys.executable, str(HERE / f"bench_{self.name}.py"), *shlex.split(words)]


SCRIPTS = (
    Script("commands", "{demo}", "{demo} --rounds 1"),
    Script("calls", "--run {demo} --questions 800", "--run {demo} --questions 5"),
    Script("reading"),
    Script("subset", "{demo}", "{demo} --draws 10"),
    Script("endpoint", "--calls 2000", "--calls 100 --rounds 1 --latency .05"),
    Script("endpoint", "--samples 8 --calls 500", "--samples 8 --calls 40 --rounds 1"),
    Script("peers", "", "--calls 40 --questions 4 --rounds 1 --latency .05"),
    Script("transformers", "", "--questions 4 --n 2 --rounds 1"),
    Script("vllm", "", "--questions 4"),
    Script("prefixes", "{demo} mini-pair-a", "{demo} mini-pair-a --questions 2"),
    Script("prefixes", "{demo} mini-critic-a", "{demo} mini-critic-a --questions 2"),
    Script("dispatch", "", "--actors 1 --seconds 1 --latency .05"),
    Script("rows", "", "--questions 100"),
    Script("chain", "--items 10000 100000 --questions 500", "--items 1000 --skip-model"),
    Script(
        "scale", "--judgements 10000 100000", "--judgements 800 --workers 2 --kill 1 --killed 800"
    ),
    Script("evidence", "", "--rewarders 6 --questions 100 --draws 400"),
    Script("service", "", "--calls 100 --concurrency 20"),
    Script("rewards", "", "--groups 4"),
)


def main() -> int:
    """Run what is asked for; 1 where a script failed, 130 where the run was stopped."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = sorted({one.name for one in SCRIPTS})
    parser.add_argument("--quick", action="store_true", help="small sizes: does everything run?")
    parser.add_argument("--only", nargs="*", action="extend", choices=names, metavar="NAME")
    parser.add_argument("--demo", type=Path, help="a finished run of the demo instead of a new one")
    parser.add_argument("--out", type=Path, default=ROOT / "build", metavar="FOLDER")
    a = parser.parse_args()
    a.out.mkdir(parents=True, exist_ok=True)
    kept = (a.out / "bench.json").resolve()
    kept.write_text("", encoding="utf-8")
    append(kept, {"machine": machine()} | ({"quick": True} if a.quick else {}))
    demo = (a.demo or a.out / "bench-demo").resolve()
    code = 0
    try:
        for script in SCRIPTS:
            if not a.only or script.name in a.only:
                command = script.command(demo, a.quick)
                if script.name == "commands" and a.demo:
                    command.append("--finished")
                code |= run(script, command, kept)
    except KeyboardInterrupt:
        code = 130
    text = written(kept)
    (a.out / "bench.md").write_text(text, encoding="utf-8")
    print(f"\n{text}\nwritten to {a.out / 'bench.md'} and bench.json")
    return code


def run(script: Script, command: list[str], kept: Path) -> int:
    """One script to its end; 1 where it failed."""
    load = os.getloadavg()[0]
    print(f"\n=== {script.name} (load {load:.1f})", flush=True)
    paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, FILE: str(kept), "PYTHONPATH": paths, "PYTHONUNBUFFERED": "1"}
    wall, cpu, code = spent(command, env=environment)
    append(kept, {"ran": script.name, "wall": wall, "cpu": cpu, "load": load, "exit": code})
    return int(code != 0)


def machine() -> str:
    """When and where this is: what a reader must know of every number."""
    told = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in told if line.startswith("model name")]
    model = names[0] if names else platform.machine()
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True
    ).stdout.strip()
    libraries = ", ".join(f"{name} {version(name)}" for name in LIBRARIES)
    return (
        f"{time.strftime('%Y-%m-%d %H:%M')}, {len(os.sched_getaffinity(0))} cores of {model} that "
        f"multiply matrices at {number(_speed())} GFLOP/s (float32), "
        f"load {os.getloadavg()[0]:.1f} before, Python {platform.python_version()}, {libraries}, "
        f"commit {commit or 'unknown'}"
    )


def _speed() -> float:
    """GFLOP/s of all cores together: on shared machines the same ones differ from day to day."""
    matrix = np.random.default_rng(0).random((1024, 1024), dtype=np.float32)
    seconds = []
    for _ in range(50):
        began = time.perf_counter()
        matrix @ matrix
        seconds.append(time.perf_counter() - began)
    return 2e-9 * 1024**3 / median(seconds)


def written(kept: Path) -> str:
    """The report of a run from what it kept."""
    lines: list[dict[str, Any]] = [json.loads(line) for line in kept.read_text().splitlines()]
    rows = [Measured.read(line) for line in lines if "what" in line]
    ran = [line for line in lines if "ran" in line]
    missed = [row.what for row in rows if row.reached is False]
    failed = [line["ran"] for line in ran if line["exit"]]
    parts = [lines[0]["machine"] + "."]
    if lines[0].get("quick"):
        parts.append("Small sizes: the numbers only show that everything runs.")
    parts.append(table(rows) if rows else "Nothing was measured.")
    parts.append(
        "Seconds of each script, CPU-seconds and load before it: "
        + "; ".join(
            f"{line['ran']} {number(line['wall'])} s, {number(line['cpu'])} s, {line['load']:.1f}"
            for line in ran
        )
        + f". All: {sum(line['wall'] for line in ran) / 60:.1f} min."
    )
    if missed and not lines[0].get("quick"):
        parts.append("Asked and not reached: " + "; ".join(missed) + ".")
    if failed:
        parts.append("Failed: " + ", ".join(failed) + " (what they said stands above).")
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    sys.exit(main())
