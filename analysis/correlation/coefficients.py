"""Correlation of benchmark accuracy with Best-of-N accuracy over the rewarders of one policy."""

from dataclasses import asdict, replace

import numpy as np
from scipy import special

from bon.analysis.correlation.families import (
    clustered,
    family_codes,
    num_bases,
    without_bounds,
)
from bon.analysis.correlation.line import fit
from bon.analysis.correlation.paired_accuracies import (
    MIN_REWARDERS,
    Label,
    Measured,
    points_of,
)
from bon.analysis.estimators import resampling
from bon.analysis.estimators.replay import Replay
from bon.analysis.estimators.resampling import COEFFICIENTS, estimate, nothing
from bon.analysis.results import (
    ENOUGH_BASES,
    Coefficient,
    Correlation,
    CorrelationAtN,
    CorrelationByN,
    Estimate,
    Options,
)
from bon.analysis.results.phrasing import coefficient as written
from bon.analysis.results.phrasing import evidence
from bon.choosing.opinion import Bools

SMALL = 8
"""Below this many rewarders Fisher's interval is read; see docs/measurements/validity.md."""

RANKS = {"spearman": (1.06, 5)}
"""Variance and fewest rewarders of Fisher's interval of ranks (Fieller et al. 1957)."""


def correlate(measured: Measured, label: Label, options: Options) -> Correlation:
    """Compute the coefficients of one axis.

    With shared base models, only Pearson's r keeps bounds (bon.analysis.correlation.families):
    those of ranks would take rewarders as independent.
    """
    m = measured.complete()
    r, bases = len(m.names), num_bases(m)
    pearson, spearman = (coefficient(m, name, options.level) for name in COEFFICIENTS)
    return Correlation(
        **asdict(label),
        num_rewarders=r,
        num_bases=bases,
        points=points_of(m),
        pearson=pearson,
        spearman=spearman,
        fit=fit(m, options.level, bounded=bases is None or bases >= ENOUGH_BASES),
        sentence=_sentence(pearson, label, r, bases),
    )


# ------------------------------------------------------------------ coefficients


def coefficient(m: Measured, name: str, level: float) -> Coefficient:
    """Compute a coefficient with the interval to read (why: docs/measurements/validity.md)."""
    r = len(m.names)
    value = float(COEFFICIENTS[name](m.x, m.y)) if r >= MIN_REWARDERS else float("nan")
    if not np.isfinite(value):
        few = f"{r} rewarders are too few for a correlation."
        flat = "One axis does not vary, so there is no correlation."
        return Coefficient(estimate=nothing(r), read=few if r < MIN_REWARDERS else flat)
    chosen, reason = _for_independent(m, name, value, level)
    codes = family_codes(m)
    if codes is not None and name == "pearson":
        count = int(codes.max()) + 1
        chosen = clustered(m, codes, chosen, level)
        reason = (
            f"The jackknife over {count} base models, or the interval for independent rewarders "
            "if that is wider: rewarders with one base model share its errors."
            if chosen.low is not None
            else "No interval: rewarders with one base model share its errors, and "
            f"fewer than {ENOUGH_BASES} base models are too few to estimate by how much."
        )
    elif codes is not None:
        chosen = without_bounds(chosen)
        reason = "No interval of ranks: none allows for shared base models."
    return Coefficient(estimate=chosen, read=reason)


def _for_independent(m: Measured, name: str, value: float, level: float) -> tuple[Estimate, str]:
    r = len(m.names)
    fisher = resampling.fisher(value, r, level, *RANKS.get(name, ()))
    if fisher.low is None:
        return fisher, f"No interval: {r} rewarders are too few."
    if name != "pearson":
        return fisher, "Fisher's interval for ranks."
    if r < SMALL:
        return fisher, (
            f"Fisher's interval: with only {r} rewarders, the jackknife covers too rarely."
        )
    z, error = resampling.jackknife(m.x, m.y, np.arange(r))
    half = special.stdtrit(r - 1, (1 + level) / 2) * error
    jackknife = estimate(value, np.tanh(z - half), np.tanh(z + half), r, "jackknife")
    if jackknife.low is None:
        return fisher, "Fisher's interval: without one rewarder, an axis does not vary."
    return jackknife, (
        f"The jackknife over {r} rewarders: unlike Fisher's interval it allows for rewarders far "
        "from the others."
    )


# ------------------------------------------------------------------ r against n


def by_n(
    label: Label, measured: Measured, replays: list[Replay], kept: Bools, level: float
) -> CorrelationByN | None:
    """Correlate at every n ≥ 2 that all rewarders have (at n = 1 all have pass@1).

    `kept` (Q): the questions of the label, without leaked ones if it leaves them out.
    """
    # An estimate from fewer questions is noisier, and noise alone would lower r.
    assert label.n is not None
    shared = set.intersection(*(set(replay.comparable(label.n)) for replay in replays))

    def at(n: int) -> CorrelationAtN:
        m = replace(measured, y=np.array([replay.at(n)[kept].mean() for replay in replays]))
        return CorrelationAtN(n=n, pearson=coefficient(m, "pearson", level).estimate)

    points = [at(n) for n in sorted(shared) if n >= 2]
    known = [(p.n, p.pearson.value) for p in points if p.pearson.value is not None]
    if not known:
        return None
    (n, first), (last_n, last) = known[0], known[-1]
    text = f"r is {written(first)} at n = {n}."
    if len(known) > 1:
        text = f"r is {written(first)} at n = {n} and {written(last)} at n = {last_n}."
    return CorrelationByN(**label.scope, points=tuple(points), sentence=text)


# ------------------------------------------------------------------ words


def axis_name(axis: str) -> str:
    """Return the name of an axis in a sentence."""
    if axis.startswith("group:"):
        return f"accuracy on its {axis[6:]} pairs"
    names = {"natural": "accuracy on the natural distribution"}
    return names.get(axis, f"{axis} accuracy")


def _sentence(pearson: Coefficient, label: Label, r: int, bases: int | None) -> str:
    where = label.axis if label.outcome else axis_name(label.axis)
    target = label.outcome or "Best-of-N"
    if label.benchmark:
        where = f"{label.benchmark}'s {where}"
    if pearson.estimate.value is None:
        return f"{where} against {target} on {label.policy}: {pearson.read}"
    without = " without leaked questions" if label.leaks == "out" else ""
    return f"{where} against {target} on {label.policy}{without}: {evidence(pearson, r, bases)}."
