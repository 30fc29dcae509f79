"""The least-squares line with Student's t intervals."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from bon.analysis.correlation.paired_accuracies import MIN_REWARDERS
from bon.analysis.estimators.resampling import estimate
from bon.analysis.results import BandPoint, Fit

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Line:
    """Least squares through n points; `sd` is the residual standard deviation."""

    n: int
    centre: float
    height: float
    sxx: float
    slope: float
    sd: float

    @classmethod
    def through(cls, x: Floats, y: Floats) -> "Line | None":
        """Fit; None for fewer than three points, or if x does not vary."""
        n = len(x)
        dx = x - x.mean() if n else x
        sxx = float(dx @ dx)
        if n < MIN_REWARDERS or sxx < 1e-18:
            return None
        slope, height = float(dx @ y) / sxx, float(y.mean())
        residual = y - height - slope * dx
        return cls(
            n, float(x.mean()), height, sxx, slope, float(np.sqrt(residual @ residual / (n - 2)))
        )

    def at(self, x: float) -> float:
        """Return the height of the line."""
        return self.height + self.slope * (x - self.centre)

    def error(self, x: float, *, new: bool = False) -> float:
        """Return the standard error of the line at x, or of a new point there."""
        variance = new + 1 / self.n + (x - self.centre) ** 2 / self.sxx
        return self.sd * float(np.sqrt(variance))

    def t(self, level: float) -> float:
        """Return the quantile of Student's t for an interval of this level."""
        return float(special.stdtrit(self.n - 2, (1 + level) / 2))


def fit(x: Floats, y: Floats, level: float, points: int = 25, bounded: bool = True) -> Fit | None:
    """Fit a line with its bands, or without any bounds."""
    line = Line.through(x, y)
    if line is None:
        return None
    t = line.t(level) if bounded else np.nan
    slope_half, zero_half = t * line.sd / np.sqrt(line.sxx), t * line.error(0.0)
    zero = line.at(0.0)
    band = []
    for a in np.linspace(x.min(), x.max(), points).tolist():
        mean, half, wide = line.at(a), t * line.error(a), t * line.error(a, new=True)
        bounds = {
            "low": mean - half,
            "high": mean + half,
            "predict_low": mean - wide,
            "predict_high": mean + wide,
        }
        band.append(BandPoint(x=a, y=mean, **(bounds if bounded else {})))
    return Fit(
        slope=estimate(line.slope, line.slope - slope_half, line.slope + slope_half, line.n, "t"),
        intercept=estimate(zero, zero - zero_half, zero + zero_half, line.n, "t"),
        residual_sd=line.sd,
        band=tuple(band),
    )
