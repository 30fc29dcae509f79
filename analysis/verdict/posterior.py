"""The correlation of true accuracies on two axes, given measured ones: an exact grid posterior.

Model. Measured accuracy = true accuracy + error of known variance. True accuracies (x, y) of
rewarders are bivariate normal with correlation r, standard deviations σx and σy, and a share s of
both variances between base models. Errors that move all rewarders alike (shared questions) only
move the mean, which is free, so one variance an axis remains: half the mean variance of paired
differences (`error_variance`).

Priors: r uniform on (−1, 1); σx, σy uniform on (0, 2) in standard deviations of the measured axis;
s uniform on `SHARES`; means, and slopes on covariates, flat and integrated out.

The covariance s·FFᵀ + (1 − s)·I between rewarders is diagonalised once per s; every direction is
then an independent pair with a 2 × 2 covariance, and the posterior is a sum over a grid: no
sampling, no seed. Errors in both variables: Fuller (1987), Measurement Error Models, ch. 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import special

from bon.choosing.opinion import Floats

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
    same = np.equal.outer(np.asarray(bases, object), np.asarray(bases, object)).astype(float)
    shares = SHARES if same.sum() > n else SHARES[:1]
    basis, rank = np.linalg.svd(design, len(shares) > 1)[0], np.linalg.matrix_rank(design)
    fixed, rest = basis[:, :rank], basis[:, rank:]
    units = [max(float(np.std(v, ddof=1)), 1e-12) for v in (x, y)]
    vx, vy = (float(np.clip(e / u**2, 1e-6, 4)) for e, u in zip(errors, units, strict=True))
    ax, ay = (v / u - fixed @ (fixed.T @ v) / u for v, u in zip((x, y), units, strict=True))
    r, sx, sy = CORRELATIONS[:, None, None], DEVIATIONS[None, :, None], DEVIATIONS[None, None, :]
    logs = []
    for share in shares:
        a, b, level, code = ax, ay, np.ones(1), np.zeros(n, int)
        counts = np.array([n - rank])
        if share:
            values, vectors = np.linalg.eigh(
                rest.T @ (share * same + (1 - share) * np.eye(n)) @ rest
            )
            a, b = vectors.T @ (rest.T @ ax), vectors.T @ (rest.T @ ay)
            level, code, counts = np.unique(
                np.round(values, 6), return_inverse=True, return_counts=True
            )
        xx, yy, xy = (np.bincount(code, w) for w in (a * a, b * b, a * b))
        log = np.zeros((len(CORRELATIONS), len(DEVIATIONS), len(DEVIATIONS)))
        for k, scale in enumerate(level):
            cx, cy, cxy = scale * sx**2 + vx, scale * sy**2 + vy, scale * r * sx * sy
            det = cx * cy - cxy**2
            squares = (cy * xx[k] - 2 * cxy * xy[k] + cx * yy[k]) / det
            log -= 0.5 * (counts[k] * np.log(det) + squares)
        logs.append(log)
    weight = np.exp(np.stack(logs) - np.max(logs)).sum(axis=0)
    weight /= weight.sum()
    probability = weight.sum(axis=(1, 2))
    reliable = sx**2 / (sx**2 + vx), sy**2 / (sy**2 + vy)
    seen = (weight * np.sqrt(reliable[0])).sum(axis=(1, 2)) / np.maximum(probability, 1e-300)
    return Posterior(
        probability,
        CORRELATIONS * seen,
        (float((weight * reliable[0]).sum()), float((weight * reliable[1]).sum())),
    )
