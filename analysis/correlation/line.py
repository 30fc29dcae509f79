"""The line through rewarders, by least squares."""

from dataclasses import dataclass

import numpy as np
from scipy import special

from bon.analysis.correlation.paired_accuracies import MIN_REWARDERS, Measured
from bon.analysis.estimators.resampling import around
from bon.analysis.results import BandPoint, Fit
from bon.choosing.opinion import Floats


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

    def error(self, x: float, new: int = 0) -> float:
        """Return the standard error of the line at x, or of the mean of `new` = 1 point there."""
        return self.sd * float(np.sqrt(new + 1 / self.n + (x - self.centre) ** 2 / self.sxx))

    def t(self, level: float) -> float:
        """Return the quantile of Student's t for an interval of this level."""
        return float(special.stdtrit(self.n - 2, (1 + level) / 2))


def fit(m: Measured, level: float, points: int = 25, bounded: bool = True) -> Fit | None:
    """Fit a least-squares line with its bands, or without any bounds."""
    line = Line.through(m.x, m.y)
    if line is None:
        return None
    t = line.t(level) if bounded else np.nan
    band = []
    for a in np.linspace(m.x.min(), m.x.max(), points).tolist():
        mean, new = (around(line.at(a), t * line.error(a, new=n), line.n, "t") for n in (0, 1))
        band.append(
            BandPoint(
                x=a, y=mean.value, low=mean.low, high=mean.high,
                predict_low=new.low, predict_high=new.high,
            )
        )  # fmt: skip
    return Fit(
        slope=around(line.slope, t * line.sd / np.sqrt(line.sxx), line.n, "t"),
        intercept=around(line.at(0.0), t * line.error(0.0), line.n, "t"),
        residual_sd=line.sd,
        band=tuple(band),
    )
