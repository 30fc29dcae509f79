"""Results on a reward benchmark: overall, macro, groups, tags, and what may bias them."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import special

from bon.analysis.data.verdicts import (
    NOT_ASKED,
    RIGHT,
    Verdicts,
    code_chances,
    official_code,
)
from bon.analysis.estimators.pair_sets import (
    Axis,
    PairSet,
    Worth,
    axes,
    length_gap,
    ratio,
    worth_of,
    worths,
)
from bon.analysis.estimators.resampling import (
    estimate,
    from_draws,
    nothing,
    quantiles,
    wilson,
)
from bon.analysis.results import (
    BenchmarkResult,
    Estimate,
    Options,
    OutcomeRate,
    PairLengths,
    Slice,
    Treatment,
    TreatmentResult,
    VotesPoint,
)
from bon.analysis.results.phrasing import signed
from bon.choosing.opinion import Bools, Floats, Ints

TREATMENTS: tuple[Treatment, ...] = ("drop", "wrong", "chance", "official")
SLACK = 0.003  # of an overall accuracy that follows from its groups
NEWTON_STEPS = 25


def benchmark_results(
    pairs: PairSet, verdicts: dict[str, Verdicts], options: Options
) -> list[BenchmarkResult]:
    """Return one result per rewarder, in the order of `verdicts`."""
    codes = np.stack([v.code for v in verdicts.values()], axis=1)
    worth = worth_of(codes, "headline", options)
    everything = axes(pairs, worth)
    treated = {"headline": everything} | {
        t: _treated(pairs, verdicts, t, options, worth, everything) for t in TREATMENTS
    }
    tags = pairs.frame["tag"].fillna("").to_numpy(dtype=str)
    tagged = _by_label(pairs, worth, codes, tags, sorted(set(tags) - {""}), options)
    by_length = _by_label(pairs, worth, codes, *length_quartiles(length_gap(pairs.frame)), options)
    controlled = _length_controlled(pairs, worth, options)
    consistent, position, per_judgement = _by_judgement(pairs, list(verdicts.values()), options)
    length = _length_biases(pairs, worth, options)
    best_of_k = _best_of_k(pairs, codes, options)
    results = []
    for r, (name, verdict) in enumerate(verdicts.items()):
        judged = codes[:, r] != NOT_ASKED
        n = int(judged.sum())
        if not n:
            continue

        sensitivity = [
            TreatmentResult(
                treatment=treatment,
                overall=_estimate(by_axis["overall"], r, n, options),
                macro=_estimate(by_axis["macro"], r, n, options),
            )
            for treatment, by_axis in treated.items()
        ]
        overall, macro = sensitivity[0].overall, sensitivity[0].macro
        groups = _slices(pairs, everything, r, judged, options)
        size = sum(s.accuracy.n for s in groups)
        hits = sum((s.accuracy.value or 0.0) * s.accuracy.n for s in groups)
        implied = hits / size if size else None
        results.append(
            BenchmarkResult(
                benchmark=pairs.name,
                rewarder=name,
                num_pairs=n,
                overall=overall,
                macro=macro,
                natural=_estimate(everything["natural"], r, n, options)
                if "natural" in everything
                else None,
                groups=groups,
                tags=tagged[r],
                by_length=by_length[r],
                overall_from_groups=implied,
                overall_agrees=implied is None or abs(implied - (overall.value or 0)) <= SLACK,
                acc_plus=_acc_plus(pairs, codes[:, r], options),
                best_of_k=best_of_k[r],
                per_judgement=per_judgement[r],
                votes=_votes(pairs, verdict, judged, options, overall, macro),
                outcomes=_rates(verdict.outcomes, options.level),
                sensitivity=tuple(sensitivity) if verdict.outcomes else (),
                consistency=consistent[r],
                position_bias=position[r],
                length_bias=length[r],
                length_controlled=controlled[r],
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


def _treated(
    pairs: PairSet,
    verdicts: dict[str, Verdicts],
    treatment: Treatment,
    options: Options,
    headline: Worth,
    headline_axes: dict[str, Axis],
) -> dict[str, Axis]:
    """Return the axes under another treatment."""
    official = treatment == "official"
    by_rewarder = [
        official_code(v.counts) if official and v.counts is not None else v.code
        for v in verdicts.values()
    ]
    codes = np.stack(by_rewarder, axis=1)
    worth = worth_of(codes, treatment, options)
    same = np.array_equal(worth.num, headline.num) and np.array_equal(worth.den, headline.den)
    return headline_axes if same else axes(pairs, worth)


def _slices(
    pairs: PairSet, by_axis: dict[str, Axis], r: int, judged: Bools, options: Options
) -> tuple[Slice, ...]:
    sizes = np.bincount(pairs.group[judged], minlength=len(pairs.groups)).tolist()
    return tuple(
        Slice(name=name, accuracy=_estimate(by_axis[f"group:{name}"], r, n, options))
        for name, n in zip(pairs.groups, sizes, strict=True)
        if f"group:{name}" in by_axis
    )


def _by_label(
    pairs: PairSet,
    worth: Worth,
    codes: Ints,
    labels: NDArray[np.str_],
    names: Sequence[str],
    options: Options,
) -> list[tuple[Slice, ...]]:
    """Accuracy of every rewarder on the pairs of each label."""
    slices: list[list[Slice]] = [[] for _ in codes.T]
    for name in names:
        inside = np.asarray(labels == name, dtype=bool)
        axis = ratio(pairs, worth, inside)
        counts = (codes[inside] != NOT_ASKED).sum(axis=0)
        for r, count in enumerate(counts.tolist()):
            if count:
                slices[r].append(Slice(name=name, accuracy=_estimate(axis, r, count, options)))
    return [tuple(part) for part in slices]


def _rates(outcomes: dict[str, int], level: float) -> tuple[OutcomeRate, ...]:
    total = sum(outcomes.values())
    return tuple(
        OutcomeRate(outcome=o, count=k, rate=wilson(k, total, level, "judgements"))
        for o, k in outcomes.items()
    )


def _votes(
    pairs: PairSet,
    verdicts: Verdicts,
    judged: Bools,
    options: Options,
    overall: Estimate,
    macro: Estimate,
) -> tuple[VotesPoint, ...]:
    """Accuracy against the number of votes; all of them is the headline."""
    most, (num, den) = verdicts.votes, worths("headline", options)
    if not most:
        return ()
    points, n = [], int(judged.sum())
    for k in range(1, most):
        chance = code_chances(verdicts, pairs.preferred, k, options.seed)
        worth = Worth(
            np.where(judged, chance @ (num * den), 0.0)[:, None],
            np.where(judged, chance @ den, 0.0)[:, None],
        )
        by_axis = axes(pairs, worth)
        both = {name: _estimate(by_axis[name], 0, n, options) for name in ("overall", "macro")}
        points.append(VotesPoint(k=k, **both))
    return (*points, VotesPoint(k=most, overall=overall, macro=macro))


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


def length_quartiles(gap: Floats) -> tuple[NDArray[np.str_], list[str]]:
    """Return the quartile of each length difference (P; empty where unknown), and their names.

    Equal differences have no quartiles.
    """
    known = pd.Series(gap).dropna()
    if known.nunique() < 2:
        return np.full(len(gap), ""), []
    quartiles = pd.qcut(known, 4, duplicates="drop").cat.categories
    names = [f"{signed(q.left, 0, True)} to {signed(q.right, 0, True)}" for q in quartiles]
    at = quartiles.get_indexer(pd.Index(gap))
    return np.where(at < 0, "", np.array(names)[at]), names


def lengths(pairs: PairSet) -> list[PairLengths]:
    """Return the quartiles of the lengths of both responses and of their difference."""
    frame = pairs.frame[["length_0", "length_1"]].astype(float)
    better = np.where(pairs.preferred == 0, frame["length_0"], frame["length_1"])
    frame = pd.DataFrame({"better": better, "worse": frame.sum(axis=1, skipna=False) - better})
    frame = frame.assign(difference=frame["better"] - frame["worse"]).dropna()
    quartiles = frame.quantile([0.25, 0.5, 0.75]) if len(frame) else pd.DataFrame()
    return [
        PairLengths(
            benchmark=pairs.name, response=str(name), num_pairs=len(frame),
            first_quartile=low, median=median, third_quartile=high,
        )
        for name, (low, median, high) in quartiles.items()
    ]  # fmt: skip


def _length_controlled(pairs: PairSet, worth: Worth, options: Options) -> list[Estimate | None]:
    """Accuracy expected if both responses were of one length, as AlpacaEval 2 controls win rates.

    Logistic regression of right on tanh of the standardised length difference, at a difference of
    zero (Dubois et al. 2024).
    """
    gap = length_gap(pairs.frame)
    known = np.isfinite(gap)
    if len(np.unique(gap[known])) < 2:
        return [None] * worth.num.shape[1]
    x = np.stack([np.ones(len(gap)), np.tanh(gap / np.nanstd(gap))], axis=1)
    z = float(special.ndtri((1 + options.level) / 2)) * np.array([0, -1, 1])
    results: list[Estimate | None] = []
    for num, den in zip(worth.num.T, worth.den.T, strict=True):
        used = known & (den > 0)
        logit, error = intercept(x[used], num[used] / den[used], pairs.cluster[used])
        value, low, high = special.expit(logit + z * error)
        fitted = np.isfinite([value, low, high]).all()
        results.append(estimate(value, low, high, int(used.sum()), "pairs") if fitted else None)
    return results


def intercept(x: Floats, y: Floats, cluster: Ints) -> tuple[float, float]:
    """Return the first coefficient of a logistic regression of y in [0, 1] on x (P, K).

    Its standard error is robust to clusters (Liang and Zeger 1986). NaN where the likelihood has no
    maximum (separation).
    """
    beta = np.zeros(x.shape[1])
    for _ in range(NEWTON_STEPS):
        p = special.expit(x @ beta)
        information = (x.T * (p * (1 - p))) @ x
        if not np.linalg.cond(information) < 1e8:
            return np.nan, np.nan
        step = np.linalg.solve(information, x.T @ (y - p))
        beta = beta + step
        if np.abs(step).max() < 1e-9:
            break
    else:
        return np.nan, np.nan
    scores = pd.DataFrame(x * (y - p)[:, None]).groupby(cluster).sum().to_numpy()
    half = np.linalg.solve(information, scores.T)[0]
    return float(beta[0]), float(np.sqrt(half @ half * len(half) / max(len(half) - 1, 1)))


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
