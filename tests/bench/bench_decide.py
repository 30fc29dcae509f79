"""What `judging.decide` would have asked of a run's rewarders, and how often it would have erred.

`python tests/bench/bench_decide.py RUN [--studies 200] [--questions 0]`, on a run in which every
rewarder judged everything. Saved: in random orders of its questions, or of as many drawn from them.
Errors: with the rewarders (and the vote) exchanged at random in every question, so that none is
better than another, the share of studies in which anything is settled; and the share in which
the best one is dropped.
"""

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from measured import Side, note
from numpy.typing import NDArray

import bon.api
from bon.analysis.data.arrays import read
from bon.analysis.decision.sequential_decision import interim_analyses
from bon.analysis.decision.sequential_test import interim_ends, interim_test
from bon.analysis.results import Decide, Options

Floats = NDArray[np.float64]

WHAT: tuple[Decide, ...] = ("best", "beats-majority")


def main() -> None:
    """Print one row per question asked, number of looks and policy."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--studies", type=int, default=200)
    parser.add_argument("--questions", type=int, default=0, help="drawn from those; 0: as many")
    a = parser.parse_args()
    print("decide          looks  judged  settled  best dropped  settled where all are alike")
    for values, vote in axes(a.run):
        size = a.questions or len(values)
        for decide in WHAT:
            for looks in (5, 10, 20):
                rng = np.random.default_rng(7)
                ends = interim_ends(size, looks)
                judged, settled, lost, false = [], [], [], []
                best = int(values.mean(axis=0).argmax())
                for _ in range(a.studies):
                    rows = rng.permutation(len(values))
                    if a.questions:
                        rows = rng.integers(0, len(values), size)
                    found = interim_test(values[rows], vote[rows], ends, decide, 0.05)
                    judged.append(np.mean([ends[one.look - 1] for one in found.outcomes]) / size)
                    settled.append(np.mean([one.state != "in" for one in found.outcomes]))
                    lost.append(found.outcomes[best].state == "dropped")
                    rows = rng.integers(0, len(values), size)
                    alike = np.concatenate([values[rows], vote[rows, None]], axis=1)
                    alike = rng.permuted(alike, axis=1)
                    none = interim_test(alike[:, 1:], alike[:, 0], ends, decide, 0.05)
                    false.append(any(one.state != "in" for one in none.outcomes))
                numbers = (np.mean(judged), np.mean(settled), np.mean(lost), np.mean(false))
                shown = "  ".join(f"{number:7.3f}" for number in numbers)
                print(f"{decide:<15} {looks:5d}  {shown}", flush=True)
                if looks == 10:
                    what = f"judging.decide: {decide}, {size:,} questions"
                    sides = Side("bon", float(numbers[0])), Side("every rewarder on all", 1.0)
                    note(what, "of the judgings", *sides)


def axes(directory: Path) -> Iterator[tuple[Floats, Floats]]:
    """Of every policy: what rewarders' choices are worth (Q, R), and majority vote's (Q)."""
    tables = bon.api.load(directory).tables
    order = list(tables.questions["question"])
    made = {"what": "best", "looks": 1, "order": order}
    judging = {**tables.meta.get("judging", {}), "decide": made}
    for found in interim_analyses(
        read(replace(tables, meta={**tables.meta, "judging": judging})), Options()
    ).values():
        whole = ~np.isnan(found.values).any(axis=0)
        yield found.values[:, whole], found.vote


if __name__ == "__main__":
    main()
