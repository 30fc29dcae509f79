"""What weights are worth: `bench_curating.py RUN`.

Every pair of a right and a wrong text of a run is judged, so the natural accuracy of each rewarder
is known. Benchmarks are drawn with many seeds. Of each: how far the plain and the weighted accuracy
are from the natural one, and how often the interval covers it.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

from bon.analysis.data.arrays import read
from bon.analysis.data.tables import Tables
from bon.analysis.estimators import pair_sets
from bon.analysis.estimators.resampling import from_draws
from bon.analysis.results import Options
from bon.core.keys import content_key
from bon.curating.draw import pairs_of, select
from bon.curating.item_judgements import tables_of, verdicts_of
from bon.curating.judged_runs import open_runs
from bon.curating.pools import build_pools
from bon.curating.recipe import Curation, Filters


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--items", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=100)
    wanted = parser.parse_args()
    weighting(wanted.run, wanted.items, wanted.seeds)


def weighting(run: Path, items: int, seeds: int) -> None:
    """Plain and weighted accuracies against the accuracy on all pairs."""
    options = Options(draws=1000)
    with open_runs([run]) as runs:
        found = build_pools(runs, Filters()).by_question
        pairs = judged_pairs(found)
        tables = tables_of(runs, pairs)
    said = verdicts_of(tables)
    codes = np.stack([one.code for one in said.values()], axis=1)
    worth = pair_sets.worth_of(codes, "headline", options)
    truth = worth.num.sum(axis=0) / worth.den.sum(axis=0)
    row = {
        (question, members): at
        for at, (question, members) in enumerate(
            zip(pairs["question"], pairs["members"], strict=True)
        )
    }
    plain, weighted, covered, width = [], [], [], []
    for seed in range(seeds):
        recipe = Curation(runs=(str(run),), items=items, seed=seed)
        drawn = select(found, recipe)
        chosen = list(drawn.drawn_by)
        rows = [row[one] for one in chosen]
        frame = pairs.iloc[rows].assign(
            weight=[1 / drawn.probability[one] for one in chosen],
            cluster=pairs["question"].iloc[rows],
        )
        natural = _natural(tables, frame, codes[rows], options)
        mine = pair_sets.Worth(worth.num[rows], worth.den[rows])
        plain.append(mine.num.sum(axis=0) / mine.den.sum(axis=0) - truth)
        weighted.append(np.array([one.value for one in natural]) - truth)
        covered.append([n.low <= t <= n.high for n, t in zip(natural, truth, strict=True)])
        width.append([n.high - n.low for n in natural])
    print(f"{len(pairs)} pairs of {len(found)} questions, {seeds} benchmarks of {items} items")
    print("rewarder                   natural   plain  weighted  its SD  width  covered")
    table = zip(said, truth, np.mean(plain, 0), np.mean(weighted, 0), np.std(weighted, 0),
                np.mean(width, 0), np.mean(covered, 0), strict=True)  # fmt: skip
    for name, t, p, w, sd, wide, c in table:
        print(f"{name:<26}{t:>8.3f}{t + p:>8.3f}{t + w:>10.3f}{sd:>8.3f}{wide:>7.2f}{c:>9.2f}")
    print(
        f"mean distance: plain {np.abs(np.mean(plain, 0)).mean():.3f}, "
        f"weighted {np.abs(np.mean(weighted, 0)).mean():.3f}; covered {np.mean(covered):.3f}"
    )


def judged_pairs(pools) -> pd.DataFrame:
    """All pairs as the analysis table `pairs`, with `question` and `members`."""
    pairs = pairs_of(pools)[["question", "members"]]
    texts = [[pools[q].texts[at] for at in both] for q, both in pairs.to_numpy()]
    return pairs.assign(
        pair=[content_key("pool", q, *both) for q, both in pairs.to_numpy()],
        id="", benchmark="pools", group="", tag="", leaked=False,
        preferred=[0 if a.correct else 1 for a, _ in texts],
        **{f"response_{i}": [pair[i].key for pair in texts] for i in (0, 1)},
        **{f"length_{i}": [len(pair[i].text) for pair in texts] for i in (0, 1)},
    )  # fmt: skip


def _natural(tables: Tables, frame: pd.DataFrame, codes: np.ndarray, options: Options):
    run = read(Tables(tables.questions, tables.candidates, frame.reset_index(drop=True),
                      tables.judgements.iloc[:0], tables.rewarders))  # fmt: skip
    (pairs,) = pair_sets.pair_sets(run, options)
    axis = pair_sets.axes(pairs, pair_sets.worth_of(codes, "headline", options))["natural"]
    return from_draws(axis.values, axis.draws, len(frame), "pairs", 0.95, units=axis.units)


if __name__ == "__main__":
    main()
