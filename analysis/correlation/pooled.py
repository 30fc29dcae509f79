"""Several policies together: do they tell the same story?

Each policy keeps its own intercept (a strong policy is higher for every rewarder). Slopes are
combined with random effects (DerSimonian and Laird 1986), correlations as the mean on Fisher's
scale. The policies share their rewarders, so more policies do not make the interval of r
narrower: it is that of one policy. Where rewarders share bases it is the widest of the policies'
own, and there is none where one of them has none (bon.analysis.correlation.families).
"""

import numpy as np
from scipy import special

from bon.analysis.estimators.resampling import estimate, nothing
from bon.analysis.results import Correlation, PolicySlope, Pooled
from bon.analysis.results.phrasing import coefficient, interval, names


def pool(correlations: list[Correlation], level: float) -> Pooled | None:
    """Correlations of one benchmark, axis and leaks over several policies; None for one."""
    usable = [
        c
        for c in correlations
        if c.fit is not None and c.num_rewarders > 3 and c.pearson.estimate.value is not None
    ]
    if len({c.policy for c in usable}) < 2:
        return None
    z = float(special.ndtri((1 + level) / 2))
    slopes = np.array([c.fit.slope.value for c in usable if c.fit], dtype=float)
    errors = np.array([slope_error(c) for c in usable])
    weights = 1 / np.maximum(errors, 1e-12) ** 2
    fixed = (weights * slopes).sum() / weights.sum()
    q = float((weights * (slopes - fixed) ** 2).sum())
    df = len(slopes) - 1
    scale = weights.sum() - (weights**2).sum() / weights.sum()
    tau2 = max(0.0, (q - df) / scale)
    mixed = 1 / (errors**2 + tau2)
    slope = float((mixed * slopes).sum() / mixed.sum())
    half = z / np.sqrt(mixed.sum())
    values = np.array([c.pearson.estimate.value for c in usable], dtype=float)
    zs = np.arctanh(np.clip(values, -0.9999999, 0.9999999))
    r_min = min(c.num_rewarders for c in usable)
    shared = any(c.families is not None for c in usable)
    spread = z / np.sqrt(r_min - 3)
    if shared or any(c.pearson.estimate.low is None for c in usable):
        spread = float(np.max([_spread(c) for c in usable]))  # NaN where one has no interval
    low, high = np.tanh(zs.mean() - spread), np.tanh(zs.mean() + spread)
    pearson = estimate(
        np.tanh(zs.mean()), low, high, r_min, "jackknife over bases" if shared else "fisher"
    )
    p = float(special.chdtrc(df, q))
    if any(c.families is not None and not c.families.enough for c in usable):
        half = float("nan")
    first = usable[0]
    return Pooled(
        benchmark=first.benchmark,
        axis=first.axis,
        leaks=first.leaks,
        policies=tuple(
            PolicySlope(
                policy=c.policy,
                num_rewarders=c.num_rewarders,
                pearson=c.pearson.estimate,
                slope=c.fit.slope if c.fit else nothing(),
            )
            for c in usable
        ),
        pearson=pearson,
        slope=estimate(slope, slope - half, slope + half, len(usable), "random effects"),
        heterogeneity_q=q,
        heterogeneity_p=p,
        i_squared=max(0.0, (q - df) / q) if q > 0 else 0.0,
        tau=float(np.sqrt(tau2)),
        sentence=_sentence(usable, pearson.value, interval(pearson), p),
    )


def _spread(c: Correlation) -> float:
    """Half the width of the interval of r on Fisher's scale; NaN where there is none."""
    r = c.pearson.estimate
    if r.low is None or r.high is None:
        return float("nan")
    low, high = np.arctanh(np.clip([r.low, r.high], -0.9999999, 0.9999999))
    return float(high - low) / 2


def slope_error(c: Correlation) -> float:
    """Standard error of the slope of least squares."""
    assert c.fit is not None
    assert c.fit.residual_sd is not None
    x = np.array([point.x.value for point in c.points], dtype=float)
    return max(c.fit.residual_sd / float(np.sqrt(((x - x.mean()) ** 2).sum())), 1e-9)


def _sentence(usable: list[Correlation], r: float | None, bounds: str, p: float) -> str:
    policies = names([c.policy for c in usable])
    alike = (
        "the slopes differ by more than chance, so read each policy on its own"
        if p < 0.05
        else "nothing speaks against one slope for all of them"
    )
    return f"Over {policies} the mean r is {coefficient(r)}{bounds}; {alike}."
