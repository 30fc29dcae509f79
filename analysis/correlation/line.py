"""The least-squares line through rewarders."""

import numpy as np
from scipy import special

from bon.analysis.correlation.paired_accuracies import MIN_REWARDERS, Measured
from bon.analysis.estimators.resampling import around
from bon.analysis.results import BandPoint, Estimate, Fit

POINTS = 25


def fit(m: Measured, level: float, bounded: bool = True) -> Fit | None:
    """Fit a least-squares line with its band, or without any bounds.

    None for fewer than three points, or if x does not vary.
    """
    n, centre = len(m.x), float(m.x.sum()) / max(len(m.x), 1)
    dx = m.x - centre
    sxx = float(dx @ dx)
    if n < MIN_REWARDERS or sxx < 1e-18:
        return None
    slope, height = float(dx @ m.y) / sxx, float(m.y.mean())
    residual = m.y - height - slope * dx
    half = float(special.stdtrit(n - 2, (1 + level) / 2)) if bounded else np.nan
    half *= float(np.sqrt(residual @ residual / (n - 2)))

    def at(x: float) -> Estimate:
        u = x - centre
        return around(height + slope * u, half * np.sqrt(1 / n + u * u / sxx), n, "t")

    grid = np.linspace(m.x.min(), m.x.max(), POINTS).tolist()
    return Fit(
        slope=around(slope, half / np.sqrt(sxx), n, "t"),
        band=tuple(
            BandPoint(x=x, y=e.value, low=e.low, high=e.high)
            for x, e in zip(grid, map(at, grid), strict=True)
        ),
    )
