"""Calls of a race over those of round robin in both orders: on a run's judgements, and simulated.

    python tests/bench/bench_calls.py [--run RUN] [--questions 800]

The accuracy of every question is checked. A race without gold needs the judgements of constant
questions too: where RUN, a demo, lacks them, its pairwise judges are asked in a copy.
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
from bon.analysis.calls import AUDIT, COMPLETE, Cost, replayed, simulated
from bon.analysis.data.arrays import Pool, opinion, read
from bon.choosing.opinion import Opinion

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
                *("--set", "judging.skip_constant=false"),
                *("--set", f"rewarders=[{', '.join(sorted(lacking))}]"),
            ],
            check=True,
            stdout=subprocess.DEVNULL,
        )
    return copy if lacking else directory


def on_run(directory: Path, pairs: int) -> None:
    """The races that a run's judgements would have been."""
    made = {label: Cost(0, 0, 0) for label in ("correct", "answer")}
    for pool, name, said in opinions(directory):
        outcome = np.where(pool.unparsed, 2, pool.correct).astype(np.int64)
        found = {
            label: replayed(said, classes, pairs)
            for label, classes in (("correct", outcome), ("answer", pool.candidates.answers))
        }
        print(f"{pool.policy}  {name}  of {2 * found['correct'].full}: {_shown(found)}")
        for label, cost in found.items():
            made[label] += cost
    print(f"all  {_shown(made)}")
    for label, most in (("correct", 0.19), ("answer", None)):
        cost = made[label]
        sides = Side("bon", 2 * cost.made), Side(FULL, 2 * cost.full)
        note(f"demo's pairwise judges, race, class: {label}", "calls", *sides, at_most=most)


def on_simulated(questions: int, pairs: int) -> None:
    """The table of `python -m bon.analysis.calls`; noted: judges whose orders mostly agree."""
    judges = simulated(questions, 16, pairs)
    print(f"\nsimulated: {questions} questions × 16; calls over {FULL}")
    print("orders agree  correct   +tenth  answer   +tenth")
    for judge in judges:
        shown = "  ".join(f"{ratio:6.3f}" for ratio in judge.ratios())
        print(f"{judge.consistent:12.2f}  {shown}")
    good = [judge for judge in judges if judge.consistent >= 0.5]
    full = 2 * good[0].correct.full
    for label, place, most in (("correct", 0, 0.25), ("answer", 2, 0.36)):
        calls = full * float(np.mean([judge.ratios()[place] for judge in good]))
        sides = Side("bon", calls), Side(FULL, full)
        note(f"simulated, 16 candidates, race, class: {label}", "calls", *sides, at_most=most)
    # Two pairs per round: a lead of z = 2 is seen earlier.
    leading = simulated(questions, 16, 2, lead=2.0)
    early = [judge.early for judge in leading if judge.early and judge.consistent >= 0.5]
    calls = full * float(np.mean([one.ratio(AUDIT) for one in early]))
    error = 100 * float(np.mean([one.error(AUDIT) for one in early])) * np.sqrt(questions / 1730)
    print(f"stopped at a lead, {AUDIT:.0%} audited: {calls / full:.3f}, "
          f"{error:.2f} points of error added at 1,730 questions")  # fmt: skip
    what = "simulated, stopped at a lead, with audit"
    note(what, "calls", Side("bon", calls), Side(FULL, full), at_most=0.17)
    note(f"{what}: error added", "points", Side("bon", float(error)), at_most=0.15)


def _shown(found: dict[str, Cost]) -> str:
    return "  ".join(
        f"{label} {2 * cost.made} {cost.ratio():.3f} (+tenth {cost.ratio(COMPLETE):.3f})"
        for label, cost in found.items()
    )


if __name__ == "__main__":
    main()
