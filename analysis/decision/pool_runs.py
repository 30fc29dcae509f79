"""Meta-analysis of several runs: does the benchmark predict for the next policy too?

A study is a policy of a run, on its primary axis; copies are refused. Each gives an exact posterior
of its r (bon.analysis.verdict.posterior); r of policies is normal on Fisher's scale, with a
half-normal prior of the standard deviation between policies. Studies that share rewarders err
alike, as their residuals show, so their likelihoods are tempered: k studies with the mean
correlation c between their residuals count as k / (1 + (k − 1) c) independent ones.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bon.analysis.decision.shared_content import blocks
from bon.analysis.results import (
    STRONG,
    Correlation,
    Estimate,
    PooledMean,
    PooledRuns,
    PooledStudy,
    Results,
)
from bon.analysis.results.phrasing import bounded, chance, coefficient, plural
from bon.analysis.verdict.posterior import CORRELATIONS, Posterior, posterior
from bon.choosing.opinion import Floats
from bon.core.base_models import without_mark
from bon.core.errors import BonError

MIN_REWARDERS = 5


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
    likelihoods = [_likelihood(s) for s in studies]

    def mean(of: list[int]) -> PooledMean:
        return mean_of([studies[i] for i in of], [likelihoods[i] for i in of], level)

    every = list(range(len(studies)))
    pearson = mean(every)
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
                without=mean([j for j in every if j != i]).mean if len(every) > 2 else None,
            )
            for i, s in enumerate(studies)
        ),
        pearson=pearson,
        num_rewarders=len(counts),
        num_bases=len(known_bases(families)),
        num_unknown=len(families) - len(known_bases(families)),
        sentence=_sentence(studies, pearson),
        warnings=(*warnings, *_caveats(families, studies)),
    )


# ------------------------------------------------------------------ random effects

BETWEEN = np.linspace(0, 2, 21)
"""Standard deviations between policies on Fisher's scale."""
PRIOR_SCALE = 0.8
"""Scale of the half-normal prior of `BETWEEN`: r .9 for one policy and 0 for another is 1.5."""

_Z = np.arctanh(CORRELATIONS)


def _likelihood(s: Study) -> Floats:
    """Return the likelihood of each r of `CORRELATIONS` (its prior is uniform)."""
    return posterior(s.x, s.y, (0.0, 0.0), s.families.tolist()).probability


def mean_of(studies: Sequence[Study], likelihoods: Sequence[Floats], level: float) -> PooledMean:
    """Pool r of the studies, each with its likelihood on `CORRELATIONS`."""
    k, temper = len(studies), _shared_errors(studies)
    logs, kernels = [], []
    for between in BETWEEN:
        kernel = _spread(between)
        logs.append(
            sum(np.log(np.maximum(kernel @ (p / p.max()), 1e-300)) for p in likelihoods) / temper
            - 0.5 * (between / PRIOR_SCALE) ** 2
        )
        kernels.append(kernel)
    joint = np.exp(np.array(logs) - np.max(logs))  # (between, mean r)
    joint /= joint.sum()
    mean = joint.sum(axis=0)
    # A study of as many rewarders shows r with this error on Fisher's scale.
    error = 1 / np.sqrt(max(float(np.median([len(s.names) for s in studies])) - 3, 1))
    following = sum((w @ kernel for w, kernel in zip(joint, kernels, strict=True)), 0 * mean)
    return PooledMean(
        mean=_interval(mean, level, k),
        predicted=_interval(following @ _spread(error), level, k),
        p_mean=Posterior(mean, CORRELATIONS, (1, 1)).above(STRONG),
        p_next=Posterior(following, CORRELATIONS, (1, 1)).above(STRONG),
        between=float(joint.sum(axis=1) @ BETWEEN),
    )


def _spread(deviation: float) -> Floats:
    """Return P(r of a policy | mean r), (mean r, r), for a normal deviation on Fisher's scale."""
    if deviation == 0:
        return np.eye(len(_Z))
    kernel = np.exp(-0.5 * ((_Z[None] - _Z[:, None]) / deviation) ** 2) / (1 - CORRELATIONS**2)
    return np.asarray(kernel / kernel.sum(axis=1, keepdims=True))


def _interval(probability: Floats, level: float, k: int) -> Estimate:
    post, tail = Posterior(probability, CORRELATIONS, (1, 1)), (1 - level) / 2
    low, middle, high = (post.quantile(q) for q in (tail, 0.5, 1 - tail))
    return Estimate(value=middle, low=low, high=high, n=k, method="posterior")


def _shared_errors(studies: Sequence[Study]) -> float:
    """Return by how much to temper: 1 for studies without common rewarders, k for copies."""
    residuals = []
    for s in studies:
        dx, dy = s.x - s.x.mean(), s.y - s.y.mean()
        e = dy - dx * (dx @ dy) / (dx @ dx)
        residuals.append(dict(zip(s.names, e / max(float(np.linalg.norm(e)), 1e-12), strict=True)))
    total = 0.0
    for a in residuals:
        for b in residuals:
            if a is not b:
                total += sum(a[name] * b[name] for name in a.keys() & b.keys())
    return 1 + max(0.0, total / max(len(studies), 1))


# ------------------------------------------------------------------ words


def _sentence(studies: list[Study], r: PooledMean) -> str:
    benchmark, runs = studies[0].correlation.benchmark, len({s.run for s in studies})
    return (
        f"Over {len(studies)} policies of {plural(runs, 'run')}, {benchmark} has a mean r of "
        f"{bounded(r.mean)} with Best-of-N accuracy ({chance(r.p_mean)} for r > .5); the next "
        f"policy can be expected to show an r between {coefficient(r.predicted.low)} and "
        f"{coefficient(r.predicted.high)} (its true r is above .5 with {chance(r.p_next)})."
    )


def known_bases(families: Iterable[str]) -> set[str]:
    """Return the base models that are known, of labels as in `Study`."""
    return {family for family in families if not family.startswith("\0")}


def _caveats(families: set[str], studies: list[Study]) -> list[str]:
    caveats = []
    if unknown := len(families) - len(known_bases(families)):
        caveats.append(
            f"The base models of {unknown} rewarders are unknown and taken as different: intervals "
            "may be too narrow. Add `family` to their cards or tables."
        )
    if len({s.correlation.axis for s in studies}) > 1:
        caveats.append("The runs' primary axes differ: macro and overall accuracy are mixed.")
    for s in studies:
        if s.results.completeness is not None and not s.results.completeness.complete:
            caveats.append(f"{s.run} is not complete.")
    return list(dict.fromkeys(caveats))
