"""Breakdowns of accuracy on pairs: by tag and length, by size, protocol and number of votes.

Each is one table. Its columns are pairs of the benchmark, or numbers of votes on all of them; its
rows are rewarders, or sums of them with weights. Columns and rows share the draws of the pairs, so
that differences are paired.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product

import numpy as np
import pandas as pd

from bon.analysis.correlation.axes import ScoredPairs
from bon.analysis.data.arrays import Run
from bon.analysis.data.verdicts import NOT_ASKED
from bon.analysis.estimators.baselines import ON_PAIRS
from bon.analysis.estimators.pair_sets import (
    MIN_GROUP,
    Axis,
    PairSet,
    Worth,
    all_verdicts,
    ratio,
    worth_of,
)
from bon.analysis.estimators.resampling import from_draws
from bon.analysis.results import Breakdown, Estimate, Options
from bon.analysis.results.phrasing import MINUS, plural, size
from bon.choosing.opinion import Bools, Floats

VOTES = (1, 3, 5, 7, 9)
QUARTILES = (0.25, 0.5, 0.75)
Row = tuple[str, dict[int, float]]
"""A name, and the weights of rewarders by their place; those of a difference sum to 0."""


@dataclass(frozen=True)
class _Column:
    """Accuracies on some pairs (P) and the worth of these to each rewarder (P, R)."""

    name: str
    axis: Axis
    worth: Worth
    change: bool = False

    @classmethod
    def of(cls, name: str, pairs: PairSet, worth: Worth, keep: Bools) -> "_Column":
        return cls(name, ratio(pairs, worth, keep), Worth(worth.num[keep], worth.den[keep]))


def breakdowns(
    run: Run, benchmarks: Sequence[ScoredPairs], options: Options
) -> Iterator[Breakdown]:
    """Yield the cells of every table that the pairs, the cards and the votes allow."""
    for b in benchmarks:
        for by, columns, rows in _tables(run, b, options):
            for c, (name, weights) in product(columns, rows):
                difference = c.change or bool(np.isclose(sum(weights.values()), 0))
                accuracy = _accuracy(c, weights, difference, options.level)
                if accuracy.value is not None:
                    yield Breakdown(
                        benchmark=b.pairs.name,
                        by=by,
                        row=name,
                        column=c.name,
                        num_pairs=len(c.worth.num),
                        accuracy=accuracy,
                        difference=difference,
                    )


def _accuracy(c: _Column, weights: dict[int, float], difference: bool, level: float) -> Estimate:
    at, weight = list(weights), np.array(list(weights.values()))
    counted = (c.worth.den[:, at] > 0).sum(axis=0)
    differing = None
    if c.change or sorted(weight) == [-1, 1]:
        differing = np.array([np.count_nonzero(c.worth.num[:, at] @ weight)])
    return from_draws(
        c.axis.values[at] @ weight[:, None],
        (weight @ c.axis.draws[at])[None],
        int(counted.min()),
        "pairs",
        level,
        proportion=not difference,
        units=c.axis.units,
        differing=differing,
    )[0]


def _tables(
    run: Run, b: ScoredPairs, options: Options
) -> Iterator[tuple[str, list[_Column], list[Row]]]:
    """Yield what a table is by, its columns and its rows."""
    pairs, frame = b.pairs, b.pairs.frame
    models = [i for i, name in enumerate(b.names) if name not in ON_PAIRS]
    each: list[Row] = [(b.names[i], {i: 1.0}) for i in models]
    tags = frame["tag"].fillna("").astype(str).to_numpy()
    kinds = {"tag": {name: tags == name for name in sorted(set(tags) - {""})}, **_lengths(pairs)}
    for by, masks in kinds.items():
        yield by, [_Column.of(name, pairs, b.worth, keep) for name, keep in masks.items()], each

    info = run.tables.rewarders.set_index("rewarder").reindex(b.names)
    sizes = pd.to_numeric(info["size"], errors="coerce").to_numpy(dtype=float)
    known = sorted((i for i in models if sizes[i] > 0), key=lambda i: sizes[i])
    everything = _Column.of("all pairs", pairs, b.worth, np.ones(len(frame), dtype=bool))
    parts = [
        _Column.of(name or "no group", pairs, b.worth, np.asarray(pairs.group == k))
        for k, name in enumerate(pairs.groups)
    ]
    tasks = [everything, *(parts if len(parts) > 1 else ())]
    by_size: dict[str, list[int]] = {}
    for i in known:
        by_size.setdefault(size(sizes[i]), []).append(i)
    if len(by_size) > 1:
        rows = [
            (f"{name} ({plural(len(of), 'rewarder')})", dict.fromkeys(of, 1 / len(of)))
            for name, of in by_size.items()
        ]
        steps = np.log10(sizes[known]) - np.log10(sizes[known]).mean()
        slope = dict(zip(known, (steps / (steps @ steps)).tolist(), strict=True))
        yield "size", tasks, [*rows, ("gain per tenfold size", slope)]

    if "model" in info:
        checkpoint = info["model"].fillna("").to_numpy(dtype=str)
        for model in dict.fromkeys(checkpoint[models]):
            first, *others = [i for i in models if checkpoint[i] == model]
            if model and others:
                cards = [each[models.index(i)] for i in (first, *others)]
                names = ((f"{b.names[i]} {MINUS} {b.names[first]}", i) for i in others)
                differences: list[Row] = [(name, {i: 1.0, first: -1.0}) for name, i in names]
                yield f"protocol of {model}", tasks, [*cards, *differences]
    yield "number of votes K", *_votes(run, b, sizes, options)


def _lengths(pairs: PairSet) -> dict[str, dict[str, Bools]]:
    """Return the pairs by quartiles of their words, where enough responses have any."""
    words = pairs.frame.reindex(columns=["words_0", "words_1"]).to_numpy(dtype=float)
    known = np.isfinite(words).all(axis=1)
    if known.sum() < MIN_GROUP * (len(QUARTILES) + 1):
        return {}
    longer = np.where(pairs.preferred == 0, 1, -1) * (words[:, 0] - words[:, 1])
    return {
        "words of a response": _quartiles(words.mean(axis=1), words[known]),
        "words of the better response minus the other": _quartiles(longer, longer[known]),
    }


def _quartiles(values: Floats, among: Floats) -> dict[str, Bools]:
    """Return what of `values` (P) lies between the quartiles of `among`, without empty parts."""
    ends = np.unique(np.quantile(among, QUARTILES))
    shown = [f"{end:g}".replace("-", MINUS) for end in ends]
    between = [f"over {low} to {high}" for low, high in pairwise(shown)]
    names = [f"up to {shown[0]}", *between, f"over {shown[-1]}"]
    place = np.where(np.isfinite(values), np.searchsorted(ends, values), -1)
    parts = {name: place == i for i, name in enumerate(names) if (place == i).any()}
    return parts if len(parts) > 1 else {}


def _votes(
    run: Run, b: ScoredPairs, sizes: Floats, options: Options
) -> tuple[list[_Column], list[Row]]:
    """Return accuracy by the majority of the first K votes, and what all gain over one."""
    votes = {n: int(run.pairs[n].vote.max(initial=0)) + 1 for n in b.names if n in run.pairs}
    several = [i for i, name in enumerate(b.names) if votes.get(name, 1) > 1]
    if not several:
        return [], []
    keep, columns = np.ones(len(b.pairs.frame), dtype=bool), []
    most = max(votes.values())
    for k in (*(k for k in VOTES if k < most), most):
        first = {n: j.take(np.flatnonzero(j.vote < k)) for n, j in run.pairs.items()}
        codes = np.full(b.worth.num.shape, NOT_ASKED)
        for name, verdict in all_verdicts(replace(run, pairs=first), b.pairs).items():
            if votes[name] >= k:
                codes[:, b.names.index(name)] = verdict.code
        columns.append(_Column.of(f"K = {k}", b.pairs, worth_of(codes, options), keep))
    one, every = columns[0], _Column.of("", b.pairs, b.worth, keep)
    gain = Axis(*(getattr(every.axis, of) - getattr(one.axis, of) for of in ("values", "draws")),
                every.axis.units)  # fmt: skip
    worth = Worth(every.worth.num - one.worth.num, one.worth.den)
    columns.append(_Column("all votes over one", gain, worth, change=True))
    ordered = sorted(several, key=lambda i: (np.nan_to_num(sizes[i]), b.names[i]))
    labels = [f"{b.names[i]} ({size(sizes[i])})" if sizes[i] > 0 else b.names[i] for i in ordered]
    return columns, [(label, {i: 1.0}) for label, i in zip(labels, ordered, strict=True)]
