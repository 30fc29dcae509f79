"""Correlations of several policies of one run, pooled.

Each policy has its own intercept. Slopes are combined with random effects (DerSimonian and Laird
1986), correlations as the mean on Fisher's scale. Policies share their rewarders, so the interval
of r is that of one policy, not narrower. With shared base models it is the widest of the policies'
own, and there is none if one of them has none (bon.analysis.correlation.families).
"""

import numpy as np
from scipy import special

from bon.analysis.correlation.line import Line
from bon.analysis.estimators.resampling import around, estimate, fisher_z
from bon.analysis.results import Correlation, Pooled
from bon.analysis.results.phrasing import bounded, names


def pool(correlations: list[Correlation], level: float, unit: str = "policy") -> Pooled | None:
    """Pool correlations of one benchmark, axis and leaks; None for fewer than two policies.

    unit: what differs between them, which `policy` names.
    """
    usable = [
        c
        for c in correlations
        if c.fit is not None and c.num_rewarders > 3 and c.pearson.estimate.value is not None
    ]
    if len({c.policy for c in usable}) < 2:
        return None
    z = float(special.ndtri((1 + level) / 2))
    slopes, errors = np.array([_slope(c) for c in usable]).T
    variances = errors**2
    weights = 1 / variances
    fixed = (weights * slopes).sum() / weights.sum()
    q, df = float((weights * (slopes - fixed) ** 2).sum()), len(slopes) - 1
    scale = weights.sum() - (weights**2).sum() / weights.sum()
    mixed = 1 / (variances + max(0.0, (q - df) / scale))
    slope, half = float((mixed * slopes).sum() / mixed.sum()), z / np.sqrt(mixed.sum())
    if any(c.families is not None and not c.families.enough for c in usable):
        half = np.nan
    r_min = min(c.num_rewarders for c in usable)
    shared = any(c.families is not None for c in usable)
    spread = z / np.sqrt(r_min - 3)
    if shared or any(c.pearson.estimate.low is None for c in usable):
        spread = float(np.max([_half_width(c) for c in usable]))  # NaN if one has no interval
    values = np.array([c.pearson.estimate.value for c in usable], dtype=float)
    middle = fisher_z(values).mean()
    r, low, high = np.tanh([middle, middle - spread, middle + spread])
    pearson = estimate(r, low, high, r_min, "jackknife over families" if shared else "fisher")
    alike = (
        "the slopes differ by more than chance, so read each " + unit + " on its own"
        if special.chdtrc(df, q) < 0.05
        else "there is no evidence against one common slope"
    )
    policies = names([c.policy for c in usable])
    return Pooled(
        benchmark=usable[0].benchmark,
        axis=usable[0].axis,
        leaks=usable[0].leaks,
        pearson=pearson,
        slope=around(slope, half, len(usable), "random effects"),
        i_squared=None if df < 2 else max(0.0, (q - df) / q) if q > 0 else 0.0,
        sentence=f"Over {policies} the mean r is {bounded(pearson)}; {alike}.",
    )


def _half_width(c: Correlation) -> float:
    """Return half the interval of r on Fisher's scale; NaN without one."""
    bounds = np.array([c.pearson.estimate.low, c.pearson.estimate.high], dtype=float)
    return float(np.diff(fisher_z(bounds))[0]) / 2


def _slope(c: Correlation) -> tuple[float, float]:
    """Return the least-squares slope and its standard error."""
    x, y = np.array([(p.x.value, p.y.value) for p in c.points], dtype=float).T
    line = Line.through(x, y)
    assert line is not None
    return line.slope, max(line.sd / float(np.sqrt(line.sxx)), 1e-9)
