"""Several runs as one meta-analysis: does the benchmark predict for the next policy too?

A study is a policy of a run, on its primary axis, leaked questions included. r enters on Fisher's
scale with variance 1/(n − 3), the slope with its squared standard error. Studies share rewarders
and rewarders share bases, so their errors are not independent: the mean is also computed without
each base (in all studies at once), and where that jackknife gives the larger standard error it is
read.
With fewer than five bases no interval is said.
"""

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from bon.analysis.correlation.pooled import slope_error
from bon.analysis.correlation.random_effects import next_study, random_effects
from bon.analysis.estimators.resampling import estimate, pearson_rows
from bon.analysis.results import (
    ENOUGH_BASES,
    Correlation,
    Estimate,
    PooledMean,
    PooledRuns,
    PooledStudy,
    Results,
)
from bon.analysis.results.phrasing import bounded, coefficient, percent, probability
from bon.core.errors import BonError

Floats = NDArray[np.float64]
Points = tuple[list[str], list[str], Floats, Floats]
"""Of one study: rewarders, their bases, x and y."""

MIN_REWARDERS = 5
LIMIT = 0.9999999


def pool_runs(runs: Sequence[tuple[str, Results]]) -> tuple[PooledRuns, ...]:
    """One meta-analysis for each benchmark of two studies or more.

    Args:
        runs: a name and the results of each run.

    Raises:
        BonError: no benchmark has two studies, or two runs were reported at another level.
    """
    levels = {results.options.level for _, results in runs}
    if len(levels) > 1:
        raise BonError(
            "the runs were reported with intervals of different levels",
            "report them alike: bon report RUN --set analysis.confidence=0.95",
        )
    level = next(iter(levels), 0.95)
    studies: dict[str, list[tuple[str, Results, Correlation]]] = {}
    few = []
    for name, results in runs:
        for c in (c for c in results.correlations if c.primary):
            if c.num_rewarders < MIN_REWARDERS or c.fit is None or c.pearson.estimate.value is None:
                few.append(f"{name}, {c.policy}: {c.num_rewarders} rewarders are too few to pool")
            else:
                studies.setdefault(c.benchmark, []).append((name, results, c))
    made = tuple(
        _pooled(benchmark, found, level, tuple(few))
        for benchmark, found in studies.items()
        if len(found) > 1
    )
    if not made:
        raise BonError(
            "no two studies with one benchmark: pooling takes two policies or more, each with "
            f"{MIN_REWARDERS} rewarders on both axes",
            "name more runs: bon pool RUN RUN …",
        )
    return made


def _pooled(
    benchmark: str,
    found: list[tuple[str, Results, Correlation]],
    level: float,
    warnings: tuple[str, ...],
) -> PooledRuns:
    cs = [c for _, _, c in found]
    points = [_points(c) for c in cs]
    bases = {base for _, of, _, _ in points for base in of}
    count = Counter(name for names, *_ in points for name in names)
    variances = np.array([1 / (len(names) - 3) for names, *_ in points])
    errors = np.array([slope_error(c) for c in cs])
    pearson, weights = _mean(points, bases, variances, _z, np.tanh, level)
    slope, _ = _mean(points, bases, errors**2, _slope, float, level)
    return PooledRuns(
        benchmark=benchmark,
        level=level,
        studies=tuple(
            PooledStudy(
                run=name,
                policy=c.policy,
                task=", ".join(results.run.downstream),
                num_rewarders=c.num_rewarders,
                num_bases=len(set(of)),
                pearson=c.pearson.estimate,
                slope=c.fit.slope if c.fit else estimate(None, None, None, 0, "none"),
                weight=float(weight),
            )
            for (name, results, c), (_, of, _, _), weight in zip(
                found, points, weights, strict=True
            )
        ),
        pearson=pearson,
        slope=slope,
        num_rewarders=len(count),
        num_shared=sum(k > 1 for k in count.values()),
        num_bases=len(bases),
        sentence=_sentence(benchmark, len(cs), len({name for name, _, _ in found}), pearson),
        warnings=(*warnings, *_caveats(bases, count, found)),
    )


def _points(c: Correlation) -> Points:
    known = [p for p in c.points if p.x.value is not None and p.y.value is not None]
    return (
        [p.rewarder for p in known],
        [p.family or f"\0{p.rewarder}" for p in known],
        np.array([p.x.value for p in known], dtype=float),
        np.array([p.y.value for p in known], dtype=float),
    )


def _z(points: Points) -> float:
    return float(np.arctanh(np.clip(pearson_rows(points[2], points[3]), -LIMIT, LIMIT)))


def _slope(points: Points) -> float:
    _, _, x, y = points
    dx = x - x.mean()
    return float(dx @ y / (dx @ dx))


def _jackknife(
    points: list[Points], bases: set[str], weights: Floats, of: Callable[[Points], float]
) -> float:
    """Standard error of the mean from leaving each base out of all studies; 0 where it cannot."""
    means = []
    for base in sorted(bases):
        values, known = np.zeros(len(points)), np.zeros(len(points), dtype=bool)
        for i, (names, own, x, y) in enumerate(points):
            keep = np.array([b != base for b in own])
            if keep.sum() >= 3 and np.ptp(x[keep]) > 1e-9 and np.ptp(y[keep]) > 1e-9:
                kept = [n for n, k in zip(names, keep, strict=True) if k]
                values[i] = of((kept, [], x[keep], y[keep]))
                known[i] = True
        if known.any():
            means.append(weights[known] @ values[known] / weights[known].sum())
    k = len(means)
    return (
        float(np.sqrt((k - 1) / k * ((np.array(means) - np.mean(means)) ** 2).sum())) if k else 0.0
    )


def _mean(
    points: list[Points],
    bases: set[str],
    variances: Floats,
    of: Callable[[Points], float],
    back: Callable[[float], float],
    level: float,
) -> tuple[PooledMean, Floats]:
    """The mean of what `of` says of each study, `back` on its own scale; and the weights."""
    values = np.array([of(p) for p in points])
    found = random_effects(values, variances)
    low, high = found.interval(level, _jackknife(points, bases, found.weights, of))
    if len(bases) < ENOUGH_BASES:
        low = high = float("nan")
    next_low, next_high = next_study(values, level)
    k = len(points)

    def made(value: float, a: float, b: float, method: str) -> Estimate:
        return estimate(back(value), back(a), back(b), k, method)

    mean = PooledMean(
        mean=made(found.mean, low, high, "random effects"),
        predicted=made(float(values.mean()), next_low, next_high, "next policy"),
        tau=float(np.sqrt(found.tau2)),
        q=found.q,
        q_p=found.q_p,
        i_squared=found.i_squared,
    )
    return mean, found.weights


def _sentence(benchmark: str, studies: int, runs: int, r: PooledMean) -> str:
    nexts = ""
    if r.predicted.low is not None and r.predicted.high is not None:
        nexts = (
            f"; a study of the next policy can be expected to show an r between "
            f"{coefficient(r.predicted.low)} and {coefficient(r.predicted.high)}"
        )
    return (
        f"Over {studies} policies of {runs} run{'s' if runs > 1 else ''}, {benchmark} has a mean r "
        f"of {bounded(r.mean)} with Best-of-N accuracy{nexts}. "
        f"{percent(r.i_squared, 0)} of the spread between policies is more than noise "
        f"({probability(r.q_p)})."
    )


def _caveats(
    bases: set[str], count: Counter[str], found: list[tuple[str, Results, Correlation]]
) -> list[str]:
    said = []
    shared = sum(k > 1 for k in count.values())
    if len(bases) < ENOUGH_BASES:
        said.append(
            f"{len(count)} rewarders from {len(bases)} {'base' if len(bases) == 1 else 'bases'}: "
            f"no interval holds below {ENOUGH_BASES} bases."
        )
    if shared:
        said.append(
            f"{shared} of {len(count)} rewarders are in more than one study, so studies err alike: "
            "the intervals allow for it, Q and I² do not and may be too low."
        )
    if len({c.axis for _, _, c in found}) > 1:
        said.append("The runs' primary axes differ: macro and overall accuracy are mixed.")
    for name, results, _ in found:
        if results.completeness is not None and not results.completeness.complete:
            said.append(f"{name} is not complete.")
    return list(dict.fromkeys(said))
