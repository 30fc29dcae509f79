"""Random-effects meta-analysis of studies: does the benchmark predict in the next one too?

Each study, a policy of a run or a pair of columns of a published table, gives an exact posterior of
its r (bon.analysis.verdict.posterior); r of studies is normal on Fisher's scale, with a half-normal
prior of the standard deviation between studies (Higgins, Thompson and Spiegelhalter 2009, J. R.
Stat. Soc. A 172; Röver 2020, J. Stat. Softw. 93). Studies that share rewarders err alike, as their
residuals show, so their likelihoods are tempered: one of k benchmarks of a table or policy, whose
residuals' correlations with those of other tables and policies sum to c, counts as 1 / (k + c).
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache

import numpy as np

from bon.analysis.decision.pooled_studies import (
    FEWEST,
    KINDS,
    Study,
    disagreements,
    shared_outcomes,
    without_copies,
)
from bon.analysis.results import (
    STRONG,
    Description,
    MetaAnalysis,
    OutcomeAgreement,
    Pool,
    PooledMean,
    PooledStudy,
    PooledWithout,
)
from bon.analysis.results.phrasing import bounded, chance, coefficient, names, plural
from bon.analysis.verdict.posterior import CORRELATIONS, Posterior
from bon.choosing.opinion import Floats
from bon.core.errors import BonError

TRAINING = ("DPO", "PPO", "other RL", "fine-tuning")
OWN = "the authors' own models"
SELECTED = (
    "No study was registered beforehand, and papers that find nothing print no table: published r "
    "are likely too high."
)
ENOUGH, MANY = 10, 3
"""Reward models of others in a study, and sources of a kind of outcome, that would say more."""


def pool(
    studies: Sequence[Study],
    sources: Mapping[str, Description] | None = None,
    level: float = 0.95,
    warnings: Sequence[str] = (),
) -> MetaAnalysis:
    """Run a meta-analysis by kind of outcome, by benchmark and by modality.

    Raises:
        BonError: no two studies of different policies or tables have anything of these in common.
    """
    said = [SELECTED, *warnings] if sources else list(warnings)
    kept = without_copies(studies, said)
    kept.sort(key=lambda s: KINDS.index(s.kind))
    pools = list(_pools(kept, level))
    if not pools:
        raise BonError(
            "no two studies with one kind of outcome: pooling takes two policies or tables or "
            f"more, each with {FEWEST} rewarders on both axes",
            "name more of them: bon pool RUN TABLE.csv …",
        )
    if unknown := len({base for s in kept for base in s.bases if base.startswith("\0")}):
        said.append(
            f"The base models of {unknown} rewarders are unknown and taken as different: intervals "
            "may be too narrow. Add `family` to their cards or tables."
        )
    return MetaAnalysis(
        level=level,
        studies=tuple(_study(s, level) for s in kept),
        pools=tuple(pools),
        agreements=tuple(
            OutcomeAgreement(
                outcomes=(a, b),
                num_rewarders=len(s.x),
                measured=float(np.corrcoef(s.x, s.y)[0, 1]),
                r=_of(s.likelihood).interval(level, len(s.x)),
            )
            for a, b, s in shared_outcomes(kept)
        ),
        sources=dict(sources or {}),
        sentence=_sentence(pools[0], kept),
        would_change=tuple(_would_change(kept)),
        warnings=tuple(dict.fromkeys((*said, *disagreements(kept)))),
    )


def _study(s: Study, level: float) -> PooledStudy:
    others = s.without(s.own)
    unknown = sum(base.startswith("\0") for base in s.bases)
    return PooledStudy(
        source=s.source,
        policy=s.policy,
        benchmark=s.benchmark,
        outcome=s.outcome,
        kind=s.kind,
        modality=s.modality,
        num_rewarders=len(s.x),
        num_bases=len(set(s.bases)) - unknown,
        num_unknown=unknown,
        measured=float(np.corrcoef(s.x, s.y)[0, 1]),
        r=_of(s.likelihood).interval(level, len(s.x)),
        num_own=sum(s.own),
        without_own=None
        if others is None or others is s
        else _of(others.likelihood).interval(level, len(others.x)),
    )


def _pools(studies: Sequence[Study], level: float) -> Iterator[Pool]:
    """Pool what two policies or tables have in common, and nothing twice."""
    groups: list[tuple[str, str, list[bool]]]
    groups = [("outcome", kind, [s.kind == kind for s in studies]) for kind in KINDS]
    groups.append(("outcome", "training of any kind", [s.kind in TRAINING for s in studies]))
    for by in ("benchmark", "modality"):
        values = [getattr(s, by) for s in studies]
        groups += [(by, v, [other == v for other in values]) for v in dict.fromkeys(values) if v]
    done = []
    for by, name, belongs in groups:
        at = np.flatnonzero(belongs).tolist()
        part = [studies[i] for i in at]
        if at in done or not _is_several(part):
            continue
        done.append(at)
        bases = {base for s in part for base in s.bases}
        yield Pool(
            by=by,
            name=name,
            studies=tuple(at),
            num_sources=len({s.source for s in part}),
            num_rewarders=len({model for s in part for model in s.names}),
            num_bases=sum(not base.startswith("\0") for base in bases),
            r=mean_of(part, level),
            without=tuple(_without(part, level)),
        )


def _is_several(studies: Sequence[Study]) -> bool:
    return len(set(map(_unit, studies))) > 1


def _unit(study: Study) -> tuple[str, str]:
    """Return what studies of the same models and outcomes share: the table or the policy."""
    return study.source, study.policy


def _without(studies: Sequence[Study], level: float) -> Iterator[PooledWithout]:
    """Repeat a pool without the authors' own models, each source and each maker."""
    rests: dict[str, list[Study | None]] = {OWN: [s.without(s.own) for s in studies]}
    for source in dict.fromkeys(s.source for s in studies):
        rests[source] = [None if s.source == source else s for s in studies]
    for maker in dict.fromkeys(m for s in studies for m in s.makers if m):
        rests[f"models of {maker}"] = [s.without([m == maker for m in s.makers]) for s in studies]
    for left_out, rest in rests.items():
        part = [s for s in rest if s is not None]
        if _is_several(part) and any(a is not b for a, b in zip(rest, studies, strict=True)):
            yield PooledWithout(left_out=left_out, studies=len(part), r=mean_of(part, level))


# ------------------------------------------------------------------ random effects

BETWEEN = np.linspace(0, 2, 21)
"""Standard deviations between policies on Fisher's scale."""
PRIOR_SCALE = 0.8
"""Scale of the half-normal prior of `BETWEEN`: r .9 for one policy and 0 for another is 1.5."""

_Z = np.arctanh(CORRELATIONS)


def mean_of(studies: Sequence[Study], level: float) -> PooledMean:
    """Pool r of the studies."""
    k, weights = len(studies), shared_errors(studies)
    likelihoods = np.array([s.likelihood / s.likelihood.max() for s in studies]).T
    kernels = [_spread(between) for between in BETWEEN]
    logs = [
        np.log(np.maximum(kernel @ likelihoods, 1e-300)) @ weights
        - 0.5 * (between / PRIOR_SCALE) ** 2
        for kernel, between in zip(kernels, BETWEEN, strict=True)
    ]
    joint = np.exp(np.array(logs) - np.max(logs))  # (between, mean r)
    joint /= joint.sum()
    mean = joint.sum(axis=0)
    # A study of as many rewarders shows r with this error on Fisher's scale.
    error = 1 / np.sqrt(max(float(np.median([len(s.names) for s in studies])) - 3, 1))
    following = sum((w @ kernel for w, kernel in zip(joint, kernels, strict=True)), 0 * mean)
    return PooledMean(
        mean=_of(mean).interval(level, k),
        predicted=_of(following @ _spread(error)).interval(level, k),
        p_mean=_of(mean).above(STRONG),
        p_next=_of(following).above(STRONG),
        between=float(joint.sum(axis=1) @ BETWEEN),
    )


@cache
def _spread(deviation: float) -> Floats:
    """Return P(r of a policy | mean r), (mean r, r), for a normal deviation on Fisher's scale."""
    if deviation == 0:
        return np.eye(len(_Z))
    kernel = np.exp(-0.5 * ((_Z[None] - _Z[:, None]) / deviation) ** 2) / (1 - CORRELATIONS**2)
    return np.asarray(kernel / kernel.sum(axis=1, keepdims=True))


def _of(probability: Floats) -> Posterior:
    return Posterior(probability, CORRELATIONS, (1, 1))


def shared_errors(studies: Sequence[Study]) -> Floats:
    """Return the weight of each study: 1 without common rewarders, 1 / k for k copies.

    Benchmarks of one table or policy count as copies: its models and outcome move them all.
    """
    residuals: list[dict[str, float]] = []
    for s in studies:
        dx, dy = s.x - s.x.mean(), s.y - s.y.mean()
        e = dy - dx * (dx @ dy) / (dx @ dx)
        residuals.append(dict(zip(s.names, e / max(float(np.linalg.norm(e)), 1e-12), strict=True)))
    units = [_unit(s) for s in studies]
    pairs = list(zip(residuals, units, strict=True))
    shared = [
        sum(a[name] * b[name] for b, v in pairs if v != u for name in a.keys() & b.keys())
        for a, u in pairs
    ]
    return 1 / (np.array([units.count(u) for u in units]) + np.maximum(shared, 0))


# ------------------------------------------------------------------ words


def _sentence(p: Pool, studies: Sequence[Study]) -> str:
    part, r = [studies[i] for i in p.studies], p.r
    benchmarks = {s.benchmark for s in part}
    own = next((w.r.mean for w in p.without if w.left_out == OWN), None)
    return (
        f"Over {len(part)} studies from {plural(p.num_sources, 'source')}, "
        f"{benchmarks.pop() if len(benchmarks) == 1 else 'a reward benchmark'} has a mean r of "
        f"{bounded(r.mean)} with {'Best-of-N accuracy' if p.name == 'Best-of-N' else p.name} "
        f"({chance(r.p_mean)} for r > .5"
        + (f"; {bounded(own)} without {OWN}" if own else "")
        + "); the next study can be expected to show an r between "
        f"{coefficient(r.predicted.low)} and {coefficient(r.predicted.high)} (its true r is above "
        f".5 with probability {chance(r.p_next)})."
    )


def _would_change(studies: Sequence[Study]) -> Iterator[str]:
    """Name what papers would have to add."""
    k = len(studies)
    if bare := sum(not s.has_errors for s in studies):
        yield (
            f"Numbers of items or standard errors: {bare} of {k} studies give none, so noise is "
            "not removed, and can hide any correlation."
        )
    own = [s for s in studies if any(s.own)]
    if few := sum(len(s.x) - sum(s.own) < ENOUGH for s in studies):
        yield (
            f"Ten or more reward models that are not the authors' own: {few} of {k} studies have "
            f"fewer" + (f", {len(own)} rest in part on own models." if own else ".")
        )
    sources = {kind: {s.source for s in studies if s.kind == kind} for kind in KINDS[:-1]}
    if rare := [str(kind) for kind, found in sources.items() if len(found) < MANY]:
        yield f"Other outcomes: fewer than {MANY} sources have {names(rare, 9)}."
