"""The correlation of true accuracies on two axes, given measured ones: an exact grid posterior.

Model. Measured accuracy = true accuracy + error of known variance. True accuracies (x, y) of
rewarders are bivariate normal with correlation r, standard deviations σx and σy, and a share s of
both variances between base models. Errors that move all rewarders alike (shared questions) only
move the mean, which is free, so one variance an axis remains: half the mean variance of paired
differences (`error_variance`).

Priors: r uniform on (−1, 1); σx, σy uniform on (0, 2) in standard deviations of the measured axis;
s uniform on `SHARES`; means, and slopes on covariates, flat and integrated out.

The covariance s·FFᵀ + (1 − s)·I between rewarders is diagonalised once for all s; every direction
is then an independent pair with a 2 × 2 covariance, and the posterior is a sum over a grid: no
sampling, no seed. Errors in both variables: Fuller (1987), Measurement Error Models, ch. 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from scipy import special

from bon.analysis.results import Estimate
from bon.choosing.opinion import Floats, Ints

CORRELATIONS = np.linspace(-0.99, 0.99, 67)
DEVIATIONS = (np.arange(14) + 0.5) / 7
SHARES = (0.0, 0.2, 0.4, 0.6, 0.8)
_HALF = (CORRELATIONS[1] - CORRELATIONS[0]) / 2
_EDGES = np.concatenate([[-1.0], CORRELATIONS[:-1] + _HALF, [1.0]])


@dataclass(frozen=True)
class Posterior:
    """The posterior of r on the grid `CORRELATIONS` (67).

    probability: of each r, summing to 1. predictive: the expected correlation of measured x with
    true y given each r. reliability: of the measured x and y, their shares of true variance.
    """

    probability: Floats
    predictive: Floats
    reliability: tuple[float, float]

    @cached_property
    def _cumulative(self) -> Floats:
        return np.append(0.0, np.cumsum(self.probability))

    def above(self, r: float) -> float:
        """Return P(true r > r)."""
        return float(1 - np.interp(r, _EDGES, self._cumulative))

    def quantile(self, level: float) -> float:
        """Return the r below which a share `level` of the posterior lies."""
        return float(np.interp(level, self._cumulative, _EDGES))

    def interval(self, level: float, n: int = 0) -> Estimate:
        """Return the median with the central interval, of n units."""
        low, middle, high = (self.quantile(q) for q in ((1 - level) / 2, 0.5, (1 + level) / 2))
        return Estimate(value=middle, low=low, high=high, n=n, method="posterior")

    def beats(self, gap: float) -> float:
        """Return P(a's true y exceeds b's), where a's measured x exceeds b's by `gap` SDs of x."""
        r = np.clip(self.predictive, -0.999, 0.999)
        return float(self.probability @ special.ndtr(r * gap / np.sqrt(2 * (1 - r**2))))


def error_variance(covariance: Floats) -> float:
    """Return the error variance of an axis from the covariance (n, n) of its accuracies.

    Half the mean variance of a difference of two: what all share does not count.
    """
    n = len(covariance)
    own = float(np.trace(covariance))
    return (own - (float(covariance.sum()) - own) / max(n - 1, 1)) / n


def posterior(
    x: Floats,
    y: Floats,
    errors: tuple[float, float],
    bases: Sequence[object],
    covariates: Floats | None = None,
) -> Posterior:
    """Return the posterior of r.

    Args:
        x: benchmark accuracies (n), any unit.
        y: Best-of-N accuracies (n).
        errors: error variances of x and y, in those units squared.
        bases: base models (n); rewarders of one share a part of both axes.
        covariates: values (n, k) whose linear effect on both axes is removed.
    """
    n = len(x)
    design = np.ones((n, 1)) if covariates is None else np.column_stack([np.ones(n), covariates])
    fixed, shared, level, code = _directions(tuple(bases), design.tobytes())
    units = [max(float(np.std(v, ddof=1)), 1e-12) for v in (x, y)]
    vx, vy = (float(np.clip(e / u**2, 1e-6, 4)) for e, u in zip(errors, units, strict=True))
    a, b = (v - (fixed @ v) @ fixed for v in (x / units[0], y / units[1]))
    total = np.array([n - len(fixed), a @ a, b @ b, a @ b])
    a, b = shared @ a, shared @ b
    sums = np.array([np.bincount(code, w) for w in (np.ones(len(a)), a * a, b * b, a * b)])
    alone = total - sums.sum(axis=1)  # differences within base models
    if alone[0]:
        level, sums = np.append(level, 0), np.column_stack([sums, alone])
    sx, sy = DEVIATIONS[:, None], DEVIATIONS[None, :]
    r = CORRELATIONS[len(CORRELATIONS) // 2 :, None, None]  # r and −r share all but one term
    logs = []
    for share in SHARES if len(set(bases)) < n else SHARES[:1]:
        even, odd, term = np.zeros((3, len(r), len(sx), len(sx)))
        parts = zip(1 - share + share * level, *sums, strict=True)
        for scale, count, xx, yy, xy in parts if share else [(1.0, *total)]:
            cx, cy, cxy = scale * sx**2 + vx, scale * sy**2 + vy, scale * sx * sy
            det = r**2 * cxy**2
            np.log(np.subtract(cx * cy, det, out=det), out=term)
            even += np.multiply(count, term, out=term)
            np.divide(1, det, out=det)
            even += np.multiply(cy * xx + cx * yy, det, out=term)
            odd += np.multiply(xy * cxy, det, out=term)
        odd *= 2 * r
        logs.append(-0.5 * np.concatenate([(even + odd)[:0:-1], even - odd]))
    top, weight = max(float(log.max()) for log in logs), np.zeros_like(logs[0])
    for log in logs:  # what lies further below is lost in rounding, and slow
        weight += np.exp(np.maximum(log - top, -45))
    weight /= weight.sum()
    probability = weight.sum(axis=(1, 2))
    reliable = sx**2 / (sx**2 + vx), sy**2 / (sy**2 + vy)
    seen = (weight * np.sqrt(reliable[0])).sum(axis=(1, 2)) / np.maximum(probability, 1e-300)
    return Posterior(
        probability,
        CORRELATIONS * seen,
        (float((weight * reliable[0]).sum()), float((weight * reliable[1]).sum())),
    )


@lru_cache(maxsize=64)
def _directions(bases: tuple[object, ...], design: bytes) -> tuple[Floats, Floats, Floats, Ints]:
    """Return directions of the design (k, n), those off it in which base models differ (D, n).

    Also the different eigenvalues of FFᵀ along the latter, and codes of them (D): the covariance
    is 1 − s + s · eigenvalue, and along all other directions 1 − s. Studies of one design share
    them.
    """
    n = len(bases)
    fixed, size, _ = np.linalg.svd(np.frombuffer(design).reshape(n, -1), full_matrices=False)
    fixed = fixed[:, size > 1e-10 * size[0]].T
    names = list(dict.fromkeys(bases))
    member = np.eye(len(names))[[names.index(base) for base in bases]]
    if len(names) == n:
        member = member[:, :0]
    shared, values, _ = np.linalg.svd(member - fixed.T @ (fixed @ member), full_matrices=False)
    known = values > 1e-5
    level, code = np.unique(np.round(values[known] ** 2, 9), return_inverse=True)
    return fixed, shared.T[known], level, code
