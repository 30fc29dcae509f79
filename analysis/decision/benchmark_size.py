"""How much benchmark is enough: results with fewer pairs.

Random subsets of the pairs, stratified by group, with pairs of one cluster together, show what
judging fewer of *these* pairs would have given, not what another benchmark of that size would: the
range over subsets shrinks to nothing as they grow to the whole.
"""

from dataclasses import replace

import numpy as np

from bon.analysis.correlation.coefficients import read_interval
from bon.analysis.correlation.paired_accuracies import Label, Measured
from bon.analysis.decision.regret import can_lose, loss_of
from bon.analysis.estimators import pair_sets
from bon.analysis.estimators.pair_sets import PairSet, Worth
from bon.analysis.estimators.resampling import Draws, estimate, pearson_rows, quantiles
from bon.analysis.results import (
    HowMuch,
    Options,
    SizePoint,
)
from bon.analysis.results.phrasing import coefficient, interval, lost, percent
from bon.choosing.opinion import Bools

SHARES = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1)
SUBSETS = 200
INTERVALS = 50  # subsets whose own interval is computed
MIN_PAIRS = 8
MIN_REWARDERS = 4
TIED = 1e-9


def how_much(
    label: Label,
    m: Measured,
    pairs: PairSet,
    worth: Worth,
    options: Options,
) -> HowMuch | None:
    """Evaluate subsets of the benchmark; None with too few rewarders or nothing to resample.

    `worth` (P, R): of each pair to each rewarder of `m`.
    """
    usable = np.flatnonzero(np.isfinite(m.x) & np.isfinite(m.y))
    m = m.keep(usable)
    worth = Worth(worth.num[:, usable], worth.den[:, usable])
    if len(usable) < MIN_REWARDERS or not can_lose(m) or np.ptp(m.x) < TIED:
        return None
    sizes = tuple(
        _point(label.axis, m, pairs, worth, share, options)
        for share in SHARES
        if share * len(pairs.group) >= MIN_PAIRS or share == 1
    )
    return HowMuch(**label.scope, sizes=sizes, sentences=_sentences(label, sizes, options.level))


def subsets(pairs: PairSet, share: float, count: int, seed: int) -> Bools:
    """Draw random subsets (count, P) of a share of each group's clusters, at least one each."""
    rng = np.random.default_rng([seed, round(1e6 * share), 29])
    _, first, cluster = np.unique(pairs.cluster, return_index=True, return_inverse=True)
    chosen = np.zeros((count, len(first)), dtype=bool)
    for group in np.unique(pairs.group):
        members = np.flatnonzero(pairs.group[first] == group)
        order = np.argsort(rng.random((count, len(members))), axis=1)
        size = max(1, round(share * len(members)))
        np.put_along_axis(chosen, members[order[:, :size]], values=True, axis=1)
    return np.asarray(chosen[:, cluster])


def _point(
    axis: str, m: Measured, pairs: PairSet, worth: Worth, share: float, options: Options
) -> SizePoint:
    inside = subsets(pairs, share, SUBSETS if share < 1 else 1, options.seed)
    part = replace(pairs, draws=Draws(inside.astype(np.float32)))
    x = pair_sets.axes(part, worth)[axis].draws.T.astype(float)  # (S, R)
    r = pearson_rows(x, np.broadcast_to(m.y, x.shape))
    first = np.stack([row >= row.max() - 1e-6 for row in x])
    picks = first / first.sum(axis=1, keepdims=True)
    low, high = quantiles(r, options.level) if share < 1 else ([np.nan], [np.nan])
    intervals = [
        read_interval(m.at(row), "pearson", options.level).estimate for row in x[:INTERVALS]
    ]
    bounds = [(e.low, e.high) for e in intervals if e.low is not None and e.high is not None]
    middle = np.median(np.array(bounds or [(np.nan, np.nan)], dtype=float), axis=0)
    mean = float(np.nanmean(r)) if np.isfinite(r).any() else float("nan")
    return SizePoint(
        num_pairs=round(float(inside.sum(axis=1).mean())),
        share=share,
        pearson=estimate(mean, middle[0], middle[1], len(m.names), intervals[0].method),
        subsets=estimate(mean, low[0], high[0], len(x), "subsets"),
        loss=loss_of(m, picks.mean(axis=0), options.level),
    )


# ------------------------------------------------------------------ words


def _sentences(label: Label, sizes: tuple[SizePoint, ...], level: float) -> tuple[str, ...]:
    whole, half = sizes[-1], next((s for s in sizes if s.share == 1 / 2), None)
    if half is None or half.pearson.value is None:
        return ()
    bounds, loss = interval(half.subsets), whole.loss
    noise = (loss.low or 0) <= (half.loss.value or 0) <= (loss.high or 0)
    with_half = "not distinguishably more or less" if noise else lost(half.loss)
    return (
        f"With random halves of the {whole.num_pairs} pairs of {label.benchmark}, r on "
        f"{label.policy} is {coefficient(half.pearson.value)}{bounds} in {percent(level, 0)} "
        f"of halves; with all, {coefficient(whole.pearson.value)}. The pick loses "
        f"{lost(loss)} with all pairs, {with_half} with half of them.",
    )
