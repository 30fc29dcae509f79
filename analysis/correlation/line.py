"""The line through rewarders: least squares, and with measurement error on both axes."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import special

from bon.analysis.correlation.paired_accuracies import MIN_REWARDERS, Measured
from bon.analysis.estimators.resampling import around
from bon.analysis.results import BandPoint, Estimate, Fit, StructuralFit
from bon.choosing.opinion import Floats

MIN_RELIABILITY = 0.5
"""Below this reliability of the benchmark axis no line is corrected for measurement error."""
STEPS = 30
POINTS = 25


class Structural(NamedTuple):
    """Lines y = height + slope · (x − centre) of true accuracies, one for each leading index.

    `scatter`: variance of true accuracies around the line. `slope_error`, `height_error`: variances
    of the estimates, which are uncorrelated at the centre.
    """

    slope: Floats
    centre: Floats
    height: Floats
    scatter: Floats
    slope_error: Floats
    height_error: Floats


def structural(x: Floats, y: Floats, x_error: Floats, y_error: Floats) -> Structural:
    """Fit lines (…, R) with known error variances of both axes and scatter around the line.

    York's regression (York et al. 2004, Am. J. Phys. 72, 367), its y variances increased by the
    scatter that makes chi² equal to R − 2 (Tremaine et al. 2002, ApJ 574, 740). NaN below
    `MIN_RELIABILITY` of x.
    """
    r = x.shape[-1]
    dx, dy = (v - v.mean(axis=-1, keepdims=True) for v in (x, y))
    sxx = (dx * dx).sum(axis=-1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        slope = (dx * dy).sum(axis=-1, keepdims=True) / sxx
        reliable = 1 - x_error.mean(axis=-1, keepdims=True) * (r - 1) / sxx > MIN_RELIABILITY
        slope = np.where(reliable, slope, np.nan)
        scatter = np.zeros_like(slope)
        for _ in range(STEPS):
            w = 1 / (y_error + scatter + slope**2 * x_error)
            total = w.sum(axis=-1, keepdims=True)
            u, v = (a - (w * a).sum(axis=-1, keepdims=True) / total for a in (x, y))
            beta = w * (u * (y_error + scatter) + slope * v * x_error)
            residual = w * (v - slope * u) ** 2
            excess = residual.sum(axis=-1, keepdims=True) - (r - 2)
            scatter = np.maximum(scatter + excess / (w * residual).sum(axis=-1, keepdims=True), 0.0)
            slope = (w * beta * v).sum(axis=-1, keepdims=True) / (w * beta * u).sum(
                axis=-1, keepdims=True
            )
        mean_x, mean_y = ((w * a).sum(axis=-1, keepdims=True) / total for a in (x, y))
        middle = (w * beta).sum(axis=-1, keepdims=True) / total
        slope_error = 1 / (w * (beta - middle) ** 2).sum(axis=-1, keepdims=True)
    terms = (slope, mean_x + middle, mean_y + slope * middle, scatter, slope_error, 1 / total)
    return Structural(*(term[..., 0] for term in terms))


def structural_fit(m: Measured, level: float, bounded: bool) -> StructuralFit | None:
    """Fit the line of true accuracies with its band; None without known measurement errors."""
    errors, n = m.error_variances, len(m.names)
    line = structural(m.x, m.y, *errors) if errors and n > MIN_REWARDERS else None
    if line is None or not np.isfinite(line.slope_error):
        return None
    t = float(special.stdtrit(n - 2, (1 + level) / 2)) if bounded else np.nan

    def student(value: Floats, variance: Floats) -> Estimate:
        return around(float(value), float(t * np.sqrt(variance)), n, "t")

    def at(x: float) -> Estimate:
        u = x - line.centre
        return student(line.height + line.slope * u, line.height_error + u**2 * line.slope_error)

    return StructuralFit(
        slope=student(line.slope, line.slope_error),
        scatter_sd=float(np.sqrt(line.scatter)),
        band=_band(m, at),
    )


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

    return Fit(
        slope=around(slope, half / np.sqrt(sxx), n, "t"),
        band=_band(m, at),
        structural=structural_fit(m, level, bounded),
    )


def _band(m: Measured, at: Callable[[float], Estimate]) -> tuple[BandPoint, ...]:
    grid = np.linspace(m.x.min(), m.x.max(), POINTS).tolist()
    return tuple(
        BandPoint(x=x, y=e.value, low=e.low, high=e.high)
        for x, e in zip(grid, map(at, grid), strict=True)
    )
