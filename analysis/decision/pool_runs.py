"""Meta-analysis of several runs: does the benchmark predict for the next policy too?

A study is a policy of a run, on its primary axis; copies are refused. r enters on Fisher's scale
with variance 1/(n − 3). Studies share rewarders and rewarders share base models, so the mean is
also jackknifed over families (in all studies at once), and the larger standard error is read. There
is no interval with fewer than five base models.

The spread between studies, tau, is estimated by restricted maximum likelihood (Viechtbauer 2005,
Journal of Educational and Behavioral Statistics 30, 261-293); the mean has the interval of Hartung
and Knapp (2001, Statistics in Medicine 20, 3875-3889) unless the plain standard error is larger.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

from bon.analysis.decision.shared_content import blocks
from bon.analysis.estimators.resampling import estimate, fisher_z, pearson_rows
from bon.analysis.results import (
    ENOUGH_BASES,
    Correlation,
    Estimate,
    PooledMean,
    PooledRuns,
    PooledStudy,
    Results,
)
from bon.analysis.results.phrasing import bounded, coefficient, percent, plural, probability
from bon.choosing.opinion import Floats
from bon.core.base_models import without_mark
from bon.core.errors import BonError

MIN_REWARDERS = 5
UNEQUAL = 2
"""Ratio of the largest to the smallest study from which a caveat names the sizes."""


@dataclass(frozen=True)
class Study:
    """One policy of a run: `families`, x and y of its rewarders (R)."""

    run: str
    results: Results
    correlation: Correlation
    names: tuple[str, ...]
    families: NDArray[np.str_]
    x: Floats
    y: Floats

    @classmethod
    def of(cls, run: str, results: Results, c: Correlation) -> "Study":
        """Read the points that are known on both axes."""
        points = [p for p in c.points if p.x.value is not None and p.y.value is not None]
        return cls(
            run,
            results,
            c,
            tuple(p.rewarder for p in points),
            np.array([without_mark(p.family) or f"\0{p.rewarder}" for p in points]),
            np.array([p.x.value for p in points], dtype=float),
            np.array([p.y.value for p in points], dtype=float),
        )


def pool_runs(runs: Sequence[tuple[str, Results]]) -> tuple[PooledRuns, ...]:
    """Run one meta-analysis for each benchmark with two studies or more.

    Args:
        runs: a name and the results of each run.

    Raises:
        BonError: no benchmark has two studies, two studies have the same candidates, or runs were
            reported at different levels.
    """
    block = blocks(runs)
    levels = {results.options.level for _, results in runs}
    if len(levels) > 1:
        raise BonError(
            "the runs were reported with intervals of different levels",
            "report them alike: bon report RUN --set analysis.confidence=0.95",
        )
    level = next(iter(levels), 0.95)
    studies: dict[str, list[Study]] = {}
    few: list[str] = []
    if len(set(block.values())) < len(runs):
        few.append(
            "Runs share questions: the prediction is for a further policy on these questions."
        )
    for name, results in runs:
        for c in (c for c in results.correlations if c.primary):
            if c.num_rewarders < MIN_REWARDERS or c.fit is None or c.pearson.estimate.value is None:
                few.append(f"{name}, {c.policy}: {c.num_rewarders} rewarders are too few to pool")
            else:
                studies.setdefault(c.benchmark, []).append(Study.of(name, results, c))
    pooled = tuple(_pooled(group, level, few) for group in studies.values() if len(group) > 1)
    if not pooled:
        raise BonError(
            "no two studies with one benchmark: pooling takes two policies or more, each with "
            f"{MIN_REWARDERS} rewarders on both axes",
            "name more runs: bon pool RUN RUN …",
        )
    return pooled


def _pooled(studies: list[Study], level: float, warnings: list[str]) -> PooledRuns:
    families = {family for s in studies for family in s.families.tolist()}
    counts = Counter(name for s in studies for name in s.names)
    pearson, weights = _mean(studies, level)

    def without(left_out: Study) -> Estimate | None:
        rest = [s for s in studies if s is not left_out]
        return _mean(rest, level)[0].mean if len(rest) > 1 else None

    return PooledRuns(
        benchmark=studies[0].correlation.benchmark,
        level=level,
        studies=tuple(
            PooledStudy(
                run=s.run,
                policy=s.correlation.policy,
                task=", ".join(s.results.run.downstream),
                num_rewarders=s.correlation.num_rewarders,
                num_bases=len(known_bases(s.families.tolist())),
                num_unknown=sum(f.startswith("\0") for f in s.families.tolist()),
                pearson=s.correlation.pearson.estimate,
                weight=float(weight),
                without=without(s),
                samples=next(
                    (x for x in s.results.samples if x.policy == s.correlation.policy), None
                ),
            )
            for s, weight in zip(studies, weights, strict=True)
        ),
        pearson=pearson,
        num_rewarders=len(counts),
        num_bases=len(known_bases(families)),
        num_unknown=len(families) - len(known_bases(families)),
        sentence=_sentence(studies, pearson),
        warnings=(*warnings, *_caveats(families, counts, studies)),
    )


def _mean(studies: list[Study], level: float) -> tuple[PooledMean, Floats]:
    """Pool r of the studies; also return the weights."""
    families = {family for s in studies for family in s.families.tolist()}
    values, k = np.array([fisher_z(pearson_rows(s.x, s.y)) for s in studies]), len(studies)
    pooled = random_effects(values, np.array([1 / (len(s.names) - 3) for s in studies]))
    low, high = pooled.interval(level, _jackknife(studies, families, pooled.weights))
    if len(families) < ENOUGH_BASES:
        low = high = float("nan")
    next_low, next_high = next_study(values, level)
    mean, low, high = np.tanh([pooled.mean, low, high])
    predicted, next_low, next_high = np.tanh([values.mean(), next_low, next_high])
    return PooledMean(
        mean=estimate(mean, low, high, k, "random effects"),
        predicted=estimate(predicted, next_low, next_high, k, "next policy"),
        tau=float(np.sqrt(pooled.tau2)),
        q=pooled.q,
        q_p=pooled.q_p,
        i_squared=pooled.i_squared,
    ), pooled.weights


def _jackknife(studies: list[Study], families: set[str], weights: Floats) -> float:
    """Return the standard error of the mean from leaving each family out of all studies, or 0."""
    means = []
    for family in sorted(families):
        values = np.full(len(studies), np.nan)
        for i, s in enumerate(studies):
            keep = s.families != family
            if keep.sum() >= 3:
                values[i] = fisher_z(pearson_rows(s.x[keep], s.y[keep]))
        known = ~np.isnan(values)
        if known.any():
            means.append(weights[known] @ values[known] / weights[known].sum())
    return float(np.sqrt((len(means) - 1) * np.var(means))) if means else 0.0


# ------------------------------------------------------------------ random effects


@dataclass(frozen=True)
class RandomEffects:
    """A random-effects mean of k studies; `weights` (k) add up to one."""

    mean: float
    error: float
    tau2: float
    q: float
    q_p: float
    i_squared: float
    weights: Floats

    def interval(self, level: float, error: float = 0.0) -> tuple[float, float]:
        """Return bounds of the mean, with a larger standard error if one is known."""
        half = _t(level, len(self.weights)) * max(self.error, error)
        return self.mean - half, self.mean + half


def _t(level: float, k: int) -> float:
    return float(special.stdtrit(k - 1, (1 + level) / 2))


def next_study(values: Floats, level: float) -> tuple[float, float]:
    """Return Student's prediction interval for the next study of this size; NaN below three.

    Studies of the same rewarders with other policies are exchangeable, so this needs neither tau
    nor independent errors; mean ± t · sqrt(tau² + error²) covers as little as 88 of 100 for
    studies as small as these (docs/statistics.md).
    """
    k = len(values)
    if k < 3:
        return float("nan"), float("nan")
    half = _t(level, k) * values.std(ddof=1) * np.sqrt(1 + 1 / k)
    return float(values.mean() - half), float(values.mean() + half)


def random_effects(values: Floats, variances: Floats) -> RandomEffects:
    """Pool two studies or more: their values (k) and positive sampling variances (k)."""
    k = len(values)
    assert k >= 2
    tau2 = _reml(values, variances)
    weights = 1 / (variances + tau2)
    mean = float(weights @ values / weights.sum())
    knapp = float(weights @ (values - mean) ** 2) / ((k - 1) * weights.sum())
    own = 1 / variances
    q = float(own @ (values - own @ values / own.sum()) ** 2)
    typical = (k - 1) * own.sum() / (own.sum() ** 2 - (own**2).sum())
    return RandomEffects(
        mean=mean,
        error=float(np.sqrt(max(knapp, 1 / weights.sum()))),
        tau2=tau2,
        q=q,
        q_p=float(special.chdtrc(k - 1, q)),
        i_squared=float(tau2 / (tau2 + typical)),
        weights=weights / weights.sum(),
    )


def _reml(values: Floats, variances: Floats) -> float:
    """Maximise the restricted likelihood over tau²."""

    def loss(tau2: float) -> float:
        weights = 1 / (variances + tau2)
        mean = weights @ values / weights.sum()
        likelihood = np.log(weights).sum() - np.log(weights.sum())
        return float(weights @ (values - mean) ** 2 - likelihood)

    most = 10 * float(values.var(ddof=1)) + 1e-12
    grid = np.concatenate([[0.0], np.geomspace(most * 1e-6, most, 60)])
    at = int(np.argmin([loss(t) for t in grid]))
    bounds = grid[max(at - 1, 0)], grid[min(at + 1, len(grid) - 1)]
    best = float(
        optimize.minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-12}).x
    )
    return best if loss(best) < loss(0.0) else 0.0


# ------------------------------------------------------------------ words


def _sentence(studies: list[Study], r: PooledMean) -> str:
    benchmark, runs = studies[0].correlation.benchmark, len({s.run for s in studies})
    nexts = ""
    if r.predicted.low is not None and r.predicted.high is not None:
        nexts = (
            f"; the next policy can be expected to show an r between "
            f"{coefficient(r.predicted.low)} and {coefficient(r.predicted.high)}"
        )
    return (
        f"Over {len(studies)} policies of {plural(runs, 'run')}, {benchmark} has a mean r of "
        f"{bounded(r.mean)} with Best-of-N accuracy{nexts}. {percent(r.i_squared, 0)} of the "
        f"spread between policies is more than noise ({probability(r.q_p)})."
    )


def known_bases(families: Iterable[str]) -> set[str]:
    """Return the base models that are known, of labels as in `Study`."""
    return {family for family in families if not family.startswith("\0")}


def _caveats(families: set[str], counts: Counter[str], studies: list[Study]) -> list[str]:
    caveats = []
    shared = sum(k > 1 for k in counts.values())
    if len(families) < ENOUGH_BASES:
        caveats.append(
            f"{len(counts)} rewarders from {plural(len(families), 'base model')}: no interval "
            f"holds below {ENOUGH_BASES} base models."
        )
    if unknown := len(families) - len(known_bases(families)):
        caveats.append(
            f"The base models of {unknown} rewarders are unknown and taken as different: intervals "
            "may be too narrow. Add `family` to their cards or tables."
        )
    if shared:
        caveats.append(
            f"{shared} of {len(counts)} rewarders are in more than one study, so studies err "
            "alike: the intervals allow for it, Q and I² do not and may be too low."
        )
    sizes = sorted(len(s.names) for s in studies)
    if sizes[-1] >= UNEQUAL * sizes[0]:
        caveats.append(
            f"The studies have {sizes[0]} to {sizes[-1]} rewarders: the prediction is for a policy "
            f"with at least {sizes[len(sizes) // 2]}; with {sizes[0]} it may cover only 83%."
        )
    if len({s.correlation.axis for s in studies}) > 1:
        caveats.append("The runs' primary axes differ: macro and overall accuracy are mixed.")
    for s in studies:
        if s.results.completeness is not None and not s.results.completeness.complete:
            caveats.append(f"{s.run} is not complete.")
    return list(dict.fromkeys(caveats))
