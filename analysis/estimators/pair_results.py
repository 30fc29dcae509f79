"""Results on a reward benchmark: overall, macro, groups, and what may bias them."""

import numpy as np
import pandas as pd

from bon.analysis.data.verdicts import NOT_ASKED, RIGHT, Verdicts
from bon.analysis.estimators.pair_sets import (
    Axis,
    PairSet,
    Worth,
    axes,
    length_gap,
    ratio,
    worth_of,
)
from bon.analysis.estimators.resampling import estimate, from_draws, nothing, quantiles, wilson
from bon.analysis.results import BenchmarkResult, Estimate, Options, OutcomeRate, Slice
from bon.choosing.opinion import Bools, Floats, Ints


def benchmark_results(
    pairs: PairSet, verdicts: dict[str, Verdicts], options: Options
) -> list[BenchmarkResult]:
    """Return one result per rewarder, in the order of `verdicts`."""
    codes = np.stack([v.code for v in verdicts.values()], axis=1)
    worth = worth_of(codes, options)
    everything = axes(pairs, worth)
    dropping = worth_of(codes, options.model_copy(update={"ties": "drop", "unparsed": "drop"}))
    decided = ratio(pairs, dropping, np.ones(len(codes), dtype=bool))
    consistent, position, per_judgement = _by_judgement(pairs, list(verdicts.values()), options)
    length = _length_biases(pairs, worth, options)
    best_of_k = _best_of_k(pairs, codes, options)
    results = []
    for r, (name, verdict) in enumerate(verdicts.items()):
        judged = codes[:, r] != NOT_ASKED
        n = int(judged.sum())
        if not n:
            continue
        results.append(
            BenchmarkResult(
                benchmark=pairs.name,
                rewarder=name,
                num_pairs=n,
                overall=_estimate(everything["overall"], r, n, options),
                macro=_estimate(everything["macro"], r, n, options),
                decided=nothing() if pairs.f1 else _estimate(decided, r, n, options),
                natural=_estimate(everything["natural"], r, n, options)
                if "natural" in everything
                else None,
                groups=_slices(pairs, everything, r, judged, options),
                acc_plus=_acc_plus(pairs, codes[:, r], options),
                best_of_k=best_of_k[r],
                per_judgement=per_judgement[r],
                outcomes=_rates(verdict.outcomes, options.level),
                consistency=consistent[r],
                position_bias=position[r],
                length_bias=length[r],
            )
        )
    return results


def _acc_plus(pairs: PairSet, codes: Ints, options: Options) -> Estimate | None:
    """Share of fully judged clusters with every pair right; ties are wrong."""
    if not pairs.clustered:
        return None
    by_cluster = pd.Series(codes).groupby(pairs.cluster)
    whole, right = by_cluster.min() != NOT_ASKED, (by_cluster.agg(["min", "max"]) == RIGHT)
    return wilson(float(right.all(axis=1).sum()), int(whole.sum()), options.level)


def _best_of_k(pairs: PairSet, codes: Ints, options: Options) -> list[Estimate | None]:
    """Share of fully judged sets whose better response beats each worse one; ties are losses."""
    if pairs.sets is None or (pairs.sets < 0).all():
        return [None] * codes.shape[1]
    rows = np.flatnonzero(pairs.sets >= 0)
    first = np.unique(pairs.sets[rows], return_index=True)[1]
    whole, won = np.zeros(codes.shape), np.zeros(codes.shape)
    by_set = pd.DataFrame(codes[rows]).groupby(pairs.sets[rows])
    whole[rows[first]] = by_set.min().to_numpy() != NOT_ASKED
    won[rows[first]] = (by_set.min().to_numpy() == RIGHT) & (by_set.max().to_numpy() == RIGHT)
    return _ratios(pairs, won, whole, options)


def _estimate(axis: Axis, r: int, n: int, options: Options) -> Estimate:
    values, draws = axis.values[[r]], axis.draws[[r]]
    return from_draws(values, draws, n, "pairs", options.level, units=axis.units)[0]


def _slices(
    pairs: PairSet, by_axis: dict[str, Axis], r: int, judged: Bools, options: Options
) -> tuple[Slice, ...]:
    sizes = np.bincount(pairs.group[judged], minlength=len(pairs.groups)).tolist()
    return tuple(
        Slice(name=name, accuracy=_estimate(by_axis[f"group:{name}"], r, n, options))
        for name, n in zip(pairs.groups, sizes, strict=True)
        if f"group:{name}" in by_axis
    )


def _rates(outcomes: dict[str, int], level: float) -> tuple[OutcomeRate, ...]:
    total = sum(outcomes.values())
    return tuple(
        OutcomeRate(outcome=o, count=k, rate=wilson(k, total, level, "judgements"))
        for o, k in outcomes.items()
    )


def _by_judgement(
    pairs: PairSet, verdicts: list[Verdicts], options: Options
) -> list[list[Estimate | None]]:
    """Count in judgements, not pairs, for rewarders that compare.

    Consistency in both orders, signed position bias, and the share of right verdicts.
    """
    zeros = np.zeros((len(pairs.preferred), 2, 4))
    counts = np.stack([zeros if v.counts is None else v.counts for v in verdicts], axis=-1)
    better, other, read = counts[:, :, 0], counts[:, :, 1], counts[:, :, :3].sum(axis=2)
    both = (read > 0).all(axis=1)  # (P, R)
    lean = np.sign(better - other)
    same = both & (lean[:, 0] == lean[:, 1])
    # side o shown first: its votes are `better` where o is the better side, else `other`
    is_better = (pairs.preferred[:, None] == np.arange(2))[:, :, None]
    shown_first = np.where(is_better, better, other).sum(axis=1)
    decided = (better + other).sum(axis=1)
    return [
        _ratios(pairs, same.astype(float), both.astype(float), options),
        _ratios(pairs, 2.0 * shown_first - decided, decided, options),
        _ratios(pairs, better.sum(axis=1), read.sum(axis=1), options),
    ]


def _ratios(pairs: PairSet, num: Floats, den: Floats, options: Options) -> list[Estimate | None]:
    """Estimate ratios of column sums (P, R); None for an empty denominator."""
    known = np.flatnonzero(den.sum(axis=0) > 0)
    result: list[Estimate | None] = [None] * num.shape[1]
    if not len(known):
        return result
    everything = np.ones(len(num), dtype=bool)
    axis = ratio(pairs, Worth(num[:, known], den[:, known]), everything)
    for k, r in enumerate(known.tolist()):
        result[r] = _estimate(axis, k, int((den[:, r] > 0).sum()), options)
    return result


def _length_biases(pairs: PairSet, worth: Worth, options: Options) -> list[Estimate | None]:
    """Accuracy where the better response is the longer one, minus the rest."""
    gap = length_gap(pairs.frame)
    longer, shorter = np.asarray(gap > 0), np.asarray(gap < 0)
    if not longer.any() or not shorter.any():
        return [None] * worth.num.shape[1]
    one, other = ratio(pairs, worth, longer), ratio(pairs, worth, shorter)
    values = one.values - other.values
    n = int((longer | shorter).sum())
    low, high = quantiles(one.draws - other.draws, options.level, min(n, one.units + other.units))
    return [
        estimate(value, a, b, n, "pairs") if np.isfinite(value) else nothing()
        for value, a, b in zip(values, low, high, strict=True)
    ]
