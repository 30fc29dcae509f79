"""Calls of a race over those of round robin in both orders: on a run's judgements, and simulated.

    python tools/bench/bench_calls.py [--run RUN] [--questions 800]

The accuracy of every question is checked. All pairs of texts are needed, of constant
questions too: where RUN, a demo, lacks some, its pairwise judges are asked in a copy.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from measured import Side, note

import bon.api
from bon.analysis.data.arrays import Pool, opinion, read
from bon.choosing.opinion import Opinion
from tools.judge_calls import COMPLETE, Cost, replayed, simulated

FULL = "round robin, both orders"


def main() -> None:
    """Print one row per pairwise rewarder and policy, and one per simulated judge."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--run", type=Path)
    parser.add_argument("--questions", type=int, default=800, help="of the simulation")
    parser.add_argument("--pairs", type=int, default=4, help="comparisons per round")
    a = parser.parse_args()
    if a.run:
        with tempfile.TemporaryDirectory() as name:
            on_run(completed(a.run, Path(name) / "run"), a.pairs)
    on_simulated(a.questions, a.pairs)


def opinions(directory: Path) -> Iterator[tuple[Pool, str, Opinion]]:
    """What each pairwise rewarder of a run said of each policy's candidates."""
    run = read(bon.api.load(directory).tables)
    for pool in run.pools.values():
        for name in run.rewarders:
            said = opinion(run, pool.located, name)
            if said is not None and said.prefer is not None:
                yield pool, name, said


def completed(directory: Path, copy: Path) -> Path:
    """The run, or a copy in which its pairwise judges compared all pairs of texts."""
    lacking = {name for _, name, said in opinions(directory) if not said.complete.all()}
    if lacking:
        shutil.copytree(directory, copy)
        subprocess.run(
            [
                *(Path(sys.executable).with_name("bon"), "demo", "--quiet", "--out", copy),
                *("--set", "judging.skip=unanimous", "--set", "judging.design=all_pairs"),
                *("--set", f"rewarders=[{', '.join(sorted(lacking))}]"),
            ],
            check=True,
            stdout=subprocess.DEVNULL,
        )
    return copy if lacking else directory


def on_run(directory: Path, pairs: int) -> None:
    """The races that a run's judgements would have been."""
    total = Cost(0, 0, 0)
    for pool, name, verdicts in opinions(directory):
        cost = replayed(verdicts, pool.candidates.answers, pairs)
        print(f"{pool.policy}  {name}  of {2 * cost.full}: {_shown(cost)}")
        total += cost
    print(f"all  {_shown(total)}")
    sides = Side("bon", 2 * total.comparisons), Side(FULL, 2 * total.full)
    note("demo's pairwise judges, race", "calls", *sides, at_most=0.23)


def on_simulated(questions: int, pairs: int) -> None:
    """The table of `python -m tools.judge_calls`; noted: judges whose orders mostly agree."""
    judges = simulated(questions, 16, pairs)
    print(f"\nsimulated: {questions} questions × 16; calls over {FULL}")
    print("orders agree  calls   +tenth")
    for judge in judges:
        shown = "  ".join(f"{ratio:6.3f}" for ratio in judge.ratios())
        print(f"{judge.consistent:12.2f}  {shown}")
    good = [judge for judge in judges if judge.consistent >= 0.5]
    full = 2 * good[0].cost.full
    calls = full * float(np.mean([judge.ratios()[0] for judge in good]))
    sides = Side("bon", calls), Side(FULL, full)
    note("simulated, 16 candidates, race", "calls", *sides, at_most=0.36)


def _shown(cost: Cost) -> str:
    tenth = cost.ratio(COMPLETE)
    return f"{2 * cost.comparisons} {cost.ratio():.3f} (+tenth {tenth:.3f})"


if __name__ == "__main__":
    main()
