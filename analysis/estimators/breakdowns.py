"""Breakdowns of accuracy on pairs: by tag and length, by size, protocol and number of votes.

Each is a table whose columns are parts of the pairs, and whose rows are rewarders or sums of them
with weights. All cells share the draws of the pairs, so that differences are paired.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd

from bon.analysis.correlation.axes import ScoredPairs
from bon.analysis.data.arrays import Run
from bon.analysis.data.verdicts import NOT_ASKED
from bon.analysis.estimators.baselines import ON_PAIRS
from bon.analysis.estimators.pair_sets import (
    MIN_GROUP,
    PairSet,
    Worth,
    all_verdicts,
    ratio,
    worth_of,
)
from bon.analysis.estimators.resampling import from_draws
from bon.analysis.results import Breakdown, Options
from bon.analysis.results.phrasing import MINUS, plural, size
from bon.choosing.opinion import Bools, Floats

VOTES = (1, 3, 5, 7, 9)
QUARTILES = (0.25, 0.5, 0.75)
SPAN = 4
"""Times the smallest size that the largest has at least, where accuracy is shown by size."""
Columns = dict[str, Bools]
Row = tuple[str, dict[int, float]]
"""A name, and the weights of columns of the worth; those of a difference sum to 0."""


def breakdowns(
    run: Run, benchmarks: Sequence[ScoredPairs], options: Options
) -> Iterator[Breakdown]:
    """Yield the cells of every table that the pairs, the cards and the votes allow."""
    for b in benchmarks:
        for by, worth, columns, rows in _tables(run, b, options):
            for column, keep in columns.items():
                axis = ratio(b.pairs, worth, keep)
                num, judged = worth.num[keep], worth.den[keep] > 0
                for row, weights in rows:
                    at, weight = list(weights), np.array(list(weights.values()))
                    paired = sorted(weight) == [-1, 1]
                    difference = bool(np.isclose(weight.sum(), 0))
                    (accuracy,) = from_draws(
                        axis.values[at] @ weight[:, None],
                        weight[None] @ axis.draws[at],
                        int(judged[:, at].sum(axis=0).min()),
                        "pairs",
                        options.level,
                        proportion=not difference,
                        units=axis.units,
                        differing=np.array([(num[:, at] @ weight != 0).sum()]) if paired else None,
                    )
                    if accuracy.value is not None:
                        yield Breakdown(
                            benchmark=b.pairs.name,
                            by=by,
                            row=row,
                            column=column,
                            num_pairs=int(keep.sum()),
                            accuracy=accuracy,
                            difference=difference,
                        )


def _tables(
    run: Run, b: ScoredPairs, options: Options
) -> Iterator[tuple[str, Worth, Columns, list[Row]]]:
    """Yield what a table is by, the worth of the pairs, its columns and its rows."""
    frame, worth = b.pairs.frame, b.worth
    models = [i for i, name in enumerate(b.names) if name not in ON_PAIRS]
    each: list[Row] = [(b.names[i], {i: 1.0}) for i in models]
    tags = frame["tag"].fillna("").to_numpy(dtype=str)
    yield "tag", worth, {name: tags == name for name in sorted(set(tags) - {""})}, each
    for by, quartiles in _lengths(b.pairs):
        yield by, worth, quartiles, each

    tasks = {"all pairs": np.ones(len(frame), dtype=bool)}
    if len(b.pairs.groups) > 1:
        tasks |= {name or "no group": b.pairs.group == k for k, name in enumerate(b.pairs.groups)}
    info = run.tables.rewarders.set_index("rewarder").reindex(b.names)
    sizes = pd.to_numeric(info["size"], errors="coerce").fillna(0).to_numpy(dtype=float)
    sized = sorted((i for i in models if sizes[i] > 0), key=lambda i: sizes[i])
    of_size: dict[str, list[int]] = {}
    for i in sized:
        of_size.setdefault(size(sizes[i]), []).append(i)
    if sized and sizes[sized[-1]] >= SPAN * sizes[sized[0]]:
        means: list[Row] = [
            (f"{name} ({plural(len(of), 'rewarder')})", dict.fromkeys(of, 1 / len(of)))
            for name, of in of_size.items()
        ]
        steps = np.log10(sizes[sized]) - np.log10(sizes[sized]).mean()
        slope = dict(zip(sized, (steps / (steps @ steps)).tolist(), strict=True))
        yield "size", worth, tasks, [*means, ("gain per tenfold size", slope)]

    stated = info["model"] if "model" in info else [""] * len(info)
    checkpoint = ["" if pd.isna(model) else str(model) for model in stated]
    for model in dict.fromkeys(checkpoint):
        first, *others = [i for i in models if checkpoint[i] == model] or [0]
        if model and others:
            cards = [(b.names[i], {i: 1.0}) for i in (first, *others)]
            differences = [
                (f"{b.names[i]} {MINUS} {b.names[first]}", {i: 1.0, first: -1.0}) for i in others
            ]
            name = model.partition("@")[0].rpartition("/")[2]
            yield f"protocol of {name}", worth, tasks, cards + differences

    votes = [1] * len(b.names)
    for i in models:
        if judged := run.pairs.get(b.names[i]):
            own = np.isin(judged.item, b.pairs.rows)
            votes[i] = int(judged.vote[own].max(initial=0)) + 1
    several = sorted((i for i, k in enumerate(votes) if k > 1), key=lambda i: sizes[i])
    if several:
        counts = sorted({k for k in VOTES if k < max(votes)} | set(votes))
        rows: list[Row] = []
        for i in several:
            name = f"{b.names[i]} ({size(sizes[i])})" if sizes[i] else b.names[i]
            at = {k: c * len(votes) + i for c, k in enumerate(counts) if k <= votes[i]}
            rows += [(f"{name}, K = {k}", {place: 1.0}) for k, place in at.items()]
            gain = {at[votes[i]]: 1.0, at[1]: -1.0}
            rows.append((f"{name}, gain of K = {votes[i]} over 1", gain))
        yield "number of votes K", _by_votes(run, b, counts, options), tasks, rows


def _by_votes(run: Run, b: ScoredPairs, counts: list[int], options: Options) -> Worth:
    """Return the worth of the pairs by the majority of the first K votes (P, K · R)."""
    codes = np.full((len(counts), *b.worth.num.shape), NOT_ASKED)
    for code, k in zip(codes, counts, strict=True):
        first = {n: judged.take(np.flatnonzero(judged.vote < k)) for n, judged in run.pairs.items()}
        for name, verdict in all_verdicts(replace(run, pairs=first), b.pairs).items():
            code[:, b.names.index(name)] = verdict.code
    return worth_of(np.concatenate(codes, axis=1), options)


def _lengths(pairs: PairSet) -> Iterator[tuple[str, Columns]]:
    """Yield the pairs by quartiles of their words, where enough responses have any."""
    words = pairs.frame.reindex(columns=["words_0", "words_1"]).to_numpy(dtype=float)
    known = np.isfinite(words).all(axis=1)
    if known.sum() >= MIN_GROUP * (len(QUARTILES) + 1):
        longer = np.where(pairs.preferred == 0, 1, -1) * (words[:, 0] - words[:, 1])
        yield "words of a response", _quartiles(words.mean(axis=1), words[known])
        yield "words of the better response minus the other", _quartiles(longer, longer[known])


def _quartiles(values: Floats, among: Floats) -> Columns:
    """Return what of `values` (P) lies between the quartiles of `among`, if these differ."""
    ends = np.unique(np.quantile(among, QUARTILES, method="lower"))
    if len(ends) < len(QUARTILES):
        return {}
    shown = [f"{end:.0f}".replace("-", MINUS) for end in ends]
    between = [f"over {low} to {high}" for low, high in pairwise(shown)]
    names = [f"up to {shown[0]}", *between, f"over {shown[-1]}"]
    place = np.where(np.isfinite(values), np.searchsorted(ends, values), -1)
    parts = {name: place == i for i, name in enumerate(names)}
    return {name: inside for name, inside in parts.items() if inside.sum() >= MIN_GROUP}
