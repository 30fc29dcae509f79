"""Simulated studies of independent rewarders, read as a report reads them.

Plans promise what these give: the interval of `coefficients.read_interval` and the conditions of a
yes (`finding.verdict`), for many studies at once.
"""

from dataclasses import dataclass

import numpy as np
from scipy import special

from bon.analysis.correlation.coefficients import SMALL
from bon.analysis.correlation.robustness import CARRIES, HOLDS, STRONG, line_or_groups
from bon.analysis.estimators.resampling import pearson_among, pearson_rows
from bon.analysis.results import ENOUGH_REWARDERS, STRONG_EVIDENCE
from bon.choosing.opinion import Bools, Floats

STUDIES = 300
ONE_LINE = 24
"""Above this many rewarders a line is not compared with groups, which it would beat in 97 %."""


@dataclass(frozen=True)
class Outcomes:
    """r of S studies with the interval that a report shows, and which verdicts are `yes`.

    A withheld interval is NaN; where it would not lie above zero, it is not checked.
    """

    r: Floats
    low: Floats
    high: Floats
    yes: Bools


def simulate(
    true_r: float, rewarders: int, noise_x: float, noise_y: float, studies: int = STUDIES
) -> tuple[Floats, Floats]:
    """Draw both axes (S, R): unit variance between rewarders, and noise of these variances.

    Studies of one number of rewarders share their random numbers.
    """
    rng = np.random.default_rng([rewarders, studies])
    x, rest, error_x, error_y = rng.normal(size=(4, studies, rewarders))
    y = true_r * x + np.sqrt(1 - true_r**2) * rest
    return x + np.sqrt(noise_x) * error_x, y + np.sqrt(noise_y) * error_y


def interval(x: Floats, y: Floats, level: float) -> tuple[Floats, Floats, Floats]:
    """Return r of each study with Fisher's interval, from SMALL rewarders on the jackknife's."""
    n = x.shape[1]
    r = pearson_rows(x, y)
    z = np.arctanh(np.clip(r, -0.9999999, 0.9999999))
    if n < SMALL:
        half = np.full(len(z), special.ndtri((1 + level) / 2) / np.sqrt(n - 3))
    else:
        zs = np.arctanh(np.clip(_without_each(x, y), -0.9999999, 0.9999999))
        spread = ((zs - zs.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
        half = special.stdtrit(n - 1, (1 + level) / 2) * np.sqrt((n - 1) / n * spread)
    return r, np.tanh(z - half), np.tanh(z + half)


def outcomes(x: Floats, y: Floats, level: float) -> Outcomes:
    """Return what a report on each study says, its base models known and all different."""
    n = x.shape[1]
    r, low, high = interval(x, y, level)
    yes = (low > STRONG) & (n >= ENOUGH_REWARDERS)
    if SMALL <= n <= ONE_LINE:
        checked = np.flatnonzero(low > 0)
        evidence = np.full(len(r), np.inf)
        evidence[checked], _ = line_or_groups(x[checked], y[checked])
        withheld = evidence <= -STRONG_EVIDENCE
        low, high = (np.where(withheld, np.nan, bound) for bound in (low, high))
        yes &= evidence >= STRONG_EVIDENCE
    yes &= r - _without_each(x, y).min(axis=1) < CARRIES
    better = x >= np.sort(x, axis=1)[:, [n // 2]]
    for i in np.flatnonzero(yes):
        yes[i] = pearson_among(x[i], y[i], better[i][None])[0] >= HOLDS
    return Outcomes(r, low, high, yes)


def _without_each(x: Floats, y: Floats) -> Floats:
    """(S, R): r of each study without each rewarder, from sums of products."""
    n = x.shape[1]
    x, y = x - x.mean(axis=1, keepdims=True), y - y.mean(axis=1, keepdims=True)
    left = n / (n - 1)  # of a sum of squares without one point: less its own share
    sxy, sxx, syy = (
        (a * b).sum(axis=1, keepdims=True) - left * a * b for a, b in ((x, y), (x, x), (y, y))
    )
    return np.asarray(sxy / np.sqrt(sxx * syy))
