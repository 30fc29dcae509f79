"""TPR, TNR, precision, kappa and biases of verdicts, with intervals over clusters of items."""

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from bon.analysis.calibration.labelled import Labelled
from bon.analysis.estimators.resampling import (
    Draws,
    first_by_second,
    from_draws,
    nothing,
    of_sums,
    share_of,
)
from bon.analysis.results import Estimate
from bon.analysis.results.calibration import FeatureBias, VerdictAccuracy
from bon.choosing.opinion import Bools, Floats
from bon.core.text import FEATURES

Statistic = Callable[[Floats], Floats]
FEW = 10
"""Fewer items with or without a feature tell nothing about it."""


def verdict_accuracy(
    votes: Labelled, rows: Bools, draws: Draws, level: float, name: str = ""
) -> VerdictAccuracy:
    """Return the accuracy of the verdicts on some labelled rows.

    Every rate has the items of its own denominator as n: TPR those that are right.
    """
    y, v = np.nan_to_num(votes.label), votes.verdict
    columns = np.stack([y * v, y * (1 - v), (1 - y) * v, (1 - y) * (1 - v)], axis=1)
    rows = rows & votes.known
    n = votes.num_items(rows)
    cells = votes.sums(columns, rows)

    def ratio(top: tuple[int, ...], bottom: tuple[int, ...]) -> Estimate:
        hits, sizes = (cells[:, side].sum(axis=1) for side in (top, bottom))
        own = votes.num_items(rows & (columns[:, bottom].sum(axis=1) > 0))
        return share_of(hits, sizes, own, level)

    tp, fn, fp, tn = range(4)
    return VerdictAccuracy(
        name=name,
        num_items=n,
        base_rate=ratio((tp, fn), (tp, fn, fp, tn)),
        accuracy=ratio((tp, tn), (tp, fn, fp, tn)),
        tpr=ratio((tp,), (tp, fn)),
        tnr=ratio((tn,), (tn, fp)),
        precision=ratio((tp,), (tp, fp)),
        npv=ratio((tn,), (tn, fn)),
        kappa=kappa(cells, draws, n, level),
    )


def kappa(cells: Floats, draws: Draws, n: int, level: float) -> Estimate:
    """Estimate Cohen's kappa of n items in two-by-two cells (C, 4) by cluster.

    Every draw of clusters gets half an item in each cell, with the weight of a gamma variable of
    that mean, as under Jeffreys' prior: a rate of 0 or 1 in few items is not known to be one.
    """
    if not n:
        return nothing()

    def statistic(sums: Floats) -> Floats:
        tp, fn, fp, tn = sums / sums.sum(axis=0)
        chance = (tp + fn) * (tp + fp) + (fp + tn) * (fn + tn)
        return np.asarray((tp + tn - chance) / np.where(chance < 1, 1 - chance, np.nan))

    drawn = draws.sums(cells).astype(float)
    half = np.random.default_rng(n).gamma(0.5, size=drawn.shape) * cells.sum() / n
    value = statistic(cells.sum(axis=0)[:, None])
    units = _units(cells)
    return from_draws(value, statistic(drawn + half), n, "clusters", level, False, units)[0]


def _units(cells: Floats) -> int:
    return int((cells != 0).any(axis=1).sum())


def clustered(cells: Floats, statistic: Statistic, draws: Draws, n: int, level: float) -> Estimate:
    """Estimate a statistic of sums (K, B) of cells (C, K) by cluster."""
    return of_sums(cells, statistic, draws, n, "clusters", level, False, _units(cells))


def lean(votes: Labelled, draws: Draws, level: float) -> Estimate:
    """Return how much more often verdicts are positive than labels."""
    rows = votes.known
    columns = np.stack([votes.verdict - np.nan_to_num(votes.label), np.ones(len(rows))], axis=1)
    n = votes.num_items(rows)
    return clustered(votes.sums(columns, rows), first_by_second, draws, n, level)


def length_bias(votes: Labelled, draws: Draws, level: float) -> Estimate:
    """Return how much more often verdicts are positive for the longer half of items of equal label.

    Halves at the median length within each label; both labels count by their number of items.
    """
    return _bias(votes, votes.frame["length"].to_numpy(dtype=float), None, draws, level)


def feature_biases(votes: Labelled, draws: Draws, level: float) -> tuple[FeatureBias, ...]:
    """Return how much more often verdicts are positive where a text has a feature, at equal label.

    Of pairs: where the response shown first has it and the other not, against the reverse.
    """
    texts, others = (
        [text if isinstance(text, str) else "" for text in votes.frame[column]]
        for column in ("text", "other")
    )
    pairs = votes.frame["kind"].iloc[0] == "pairs"
    less = _amounts(others) if pairs else np.full((len(FEATURES), 1), 0.5)
    biases = []
    for name, amount in zip(FEATURES, _amounts(texts) - less, strict=True):
        with_it, without = (
            votes.num_items(votes.known & side) for side in (amount > 0, amount < 0)
        )
        if name != "length" and min(with_it, without) >= FEW:
            bias = _bias(votes, amount, 0.0, draws, level)
            biases.append(FeatureBias(feature=name, num_items=with_it, bias=bias))
    return tuple(biases)


def _amounts(texts: list[str]) -> Floats:
    """(features, V): how much of each feature a text has."""
    return np.array([*map(_features, texts)], dtype=float).reshape(-1, len(FEATURES)).T


@lru_cache(maxsize=50_000)
def _features(text: str) -> tuple[float, ...]:
    """Return the features of a text; rewarders judge the same ones."""
    return tuple(of(text) for of in FEATURES.values())


def _bias(
    votes: Labelled, amount: Floats, cut: float | None, draws: Draws, level: float
) -> Estimate:
    """Compare amounts (V) below and above a cut, by default the median within each label."""
    rows = votes.known & np.isfinite(amount)
    columns = np.zeros((len(rows), 8))
    for y in (0, 1):
        own = rows & (votes.label == y)
        if not own.any():
            continue
        middle = float(np.median(amount[own])) if cut is None else cut
        for half, part in enumerate((own & (amount < middle), own & (amount > middle))):
            columns[part, 4 * y + 2 * half] = votes.verdict[part]
            columns[part, 4 * y + 2 * half + 1] = 1

    def statistic(sums: Floats) -> Floats:
        shorter, num_shorter, longer, num_longer = sums.reshape(2, 4, -1).transpose(1, 0, 2)
        weight = num_shorter + num_longer
        gap = longer / num_longer - shorter / num_shorter
        return np.asarray(np.nansum(gap * weight, axis=0) / np.nansum(weight, axis=0))

    n = votes.num_items(rows)
    return clustered(votes.sums(columns, rows), statistic, draws, n, level)


def self_consistency(votes: Labelled, level: float) -> Estimate:
    """Return the share of equal pairs of verdicts among the votes on an item."""
    used = ~votes.unparsed & (votes.verdict != 0.5)
    counts = votes.frame.assign(_positive=votes.verdict)[used].groupby("item")["_positive"]
    table = counts.agg(["sum", "size"])
    table = table[table["size"] > 1]
    if table.empty:
        return nothing()
    first = ~votes.frame["item"].duplicated().to_numpy()
    rows = first & votes.frame["item"].isin(table.index).to_numpy()
    yes, size = (
        votes.frame["item"].map(table[name]).fillna(0).to_numpy(dtype=float)
        for name in ("sum", "size")
    )
    no = size - yes
    pairs = size * (size - 1)
    columns = np.stack([yes * (yes - 1) + no * (no - 1), pairs], axis=1)
    columns = columns / np.where(votes.weight > 0, votes.weight, 1)[:, None]
    hits, sizes = votes.sums(columns, rows).T
    return share_of(hits, sizes, len(table), level)
