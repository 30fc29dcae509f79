"""What else could give this correlation: separate groups, or a line with a ceiling.

Three accounts of the points, compared by Bayes' rule with priors .4, .4 and .2:

- one rising line;
- one to four groups without association inside. Groups are runs of the points ordered along the
  diagonal; all ways to cut are averaged by dynamic programming, with Dirichlet-multinomial sizes
  (a product partition model: Barry and Hartigan 1992, Ann. Statist. 20);
- a line that is flat above one of the middle ranks.

All have the same unit-information priors on levels and slopes, and a grid of residual variances.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy import special

from bon.choosing.opinion import Floats, Ints

VARIANCES = np.geomspace(0.003, 1.2, 9)
PRIOR = np.log([0.4, 0.4, 0.2])
MOST_GROUPS = 4
MOST_CUTS = 120
"""Places at which many points may be cut into groups, or a line may become flat."""
FAR = 30
"""What lies so far below the largest log adds less than 1e-12 of it."""


class Accounts(NamedTuple):
    """Probabilities of the accounts; they sum to 1."""

    line: float
    groups: float
    ceiling: float


def accounts(x: Floats, y: Floats) -> Accounts:
    """Return the probability of each account of the points (n); of any unit."""
    sx, sy = ((v - v.mean()) / max(float(v.std(ddof=1)), 1e-12) for v in (x, y))
    order = np.argsort(sx + sy, kind="stable")
    sx, sy, n = sx[order], sy[order], len(x)
    cuts = np.unique(np.linspace(0, n, min(n, MOST_CUTS) + 1).round().astype(int))
    on_x = _level_evidence(sx, cuts)
    one = _mean(on_x[:, 0, -1])  # x around one level, which line and ceiling share
    edges = np.sort(sx)[max(2, n // 6) : max(3, int(np.ceil(0.67 * n)))]
    edges = edges[:: -(-len(edges) // MOST_CUTS)]
    line = one + _mean(_line_evidence(sx[None], sy))
    ceiling = one + _mean(_line_evidence(np.minimum(sx, edges[:, None]), sy))
    on_y = _level_evidence(sy, cuts)
    groups = _group_evidence(on_x, on_y, cuts, max(line, ceiling))
    logs = PRIOR + np.array([line, groups, ceiling])
    return Accounts(*(float(p) for p in np.exp(logs - _log_sum(logs))))


def _log_sum(logs: Floats, axis: int | None = None) -> Floats:
    """Return log(sum(exp(logs))), about −1e300 where there is nothing to add.

    scipy's checks take longer than the sum.
    """
    top = np.maximum(logs.max(axis=axis, keepdims=True), -1e300)
    rest = logs - top
    parts = np.exp(np.maximum(rest, -FAR, out=rest), out=rest).sum(axis=axis)
    total: Floats = np.log(parts) + np.squeeze(top, axis)
    return total


def _mean(logs: Floats) -> float:
    return float(_log_sum(logs) - np.log(logs.size))


def _line_evidence(x: Floats, y: Floats) -> Floats:
    """Log evidence (k, variances) of y = a + b x + e with e ~ N(0, variance) and a, b ~ N(0, 1).

    x (k, n), y (n): the sums of the 2 x 2 posterior of a and b.
    """
    n, v = len(y), VARIANCES
    sx, sxx, sxy = (s[:, None] for s in (x.sum(axis=1), (x * x).sum(axis=1), x @ y))
    aa, bb, ab = 1 + n / v, 1 + sxx / v, sx / v
    det, ya, yb = aa * bb - ab**2, y.sum() / v, sxy / v
    explained = (bb * ya**2 - 2 * ab * ya * yb + aa * yb**2) / det
    log: Floats = n * np.log(2 * np.pi * v) + np.log(det) + y @ y / v - explained
    return -0.5 * log


def _level_evidence(v: Floats, cuts: Ints) -> Floats:
    """Log evidence (variances, c, c) of the points between two cuts around one level ~ N(0, 1).

    −∞ where the second cut comes first.
    """
    level, per_size = _of_sizes(cuts.tobytes())
    first, second = (
        total[1:] - total[:-1, None]
        for total in (np.append(0, np.cumsum(s))[cuts] for s in (v, v * v))
    )
    log: Floats = first**2 * per_size
    log -= second / (2 * VARIANCES[:, None, None])
    log += level
    return log


@lru_cache(maxsize=16)
def _of_sizes(cuts: bytes) -> tuple[Floats, Floats]:
    """What the evidence owes to the numbers of points (variances, c, c), and of a squared sum.

    Studies of one size share them.
    """
    variance, at = VARIANCES[:, None, None], np.frombuffer(cuts, dtype=np.int64)
    between = at[1:] - at[:-1, None]
    size = np.maximum(between, 1)
    log = size * np.log(2 * np.pi) + (size - 1) * np.log(variance) + np.log(variance + size)
    return np.where(between > 0, -0.5 * log, -np.inf), 0.5 / (variance * (variance + size))


def _group_evidence(on_x: Floats, on_y: Floats, cuts: Ints, floor: float = -np.inf) -> float:
    """Log evidence of 1 to MOST_GROUPS runs, each around a level on x and on y.

    One residual variance an axis. Pairs of them whose best runs lie far below `floor`, or one
    group, add nothing and are left out.
    """
    n, c = cuts[-1], len(cuts) - 1
    most = max(2, min(n // 2, MOST_GROUPS))
    sizes = special.gammaln(np.arange(n + 1) + 1)[np.maximum(cuts[1:] - cuts[:-1, None], 0)]
    prior = special.gammaln(np.arange(1, most + 1)) - special.gammaln(n + np.arange(1, most + 1))
    one = on_x[:, 0, -1].max() + on_y[:, 0, -1].max()
    best = np.add.outer(_best_runs(on_x + sizes, prior), _best_runs(on_y, 0 * prior))
    least = max(floor, one) - FAR - (most - 1) * np.log(c)
    x, y = np.nonzero(best >= min(least, best.max()))
    segment = on_x[x]  # (pairs of variances, c, c)
    segment += on_y[y]
    segment += sizes
    prefix, whole = segment[:, 0], segment[:, 0, -1]  # prefix[:, j]: up to cut j + 1
    levels = []
    for k in range(most):
        levels.append(whole + prior[k])
        before = _shifted(prefix)
        whole = _log_sum(before + segment[:, :, -1], axis=1)
        if k < most - 2:
            prefix = _log_sum(before[:, :, None] + segment, axis=1)
    return float(_log_sum(np.concatenate(levels)) - np.log(best.size * most))


def _shifted(prefix: Floats) -> Floats:
    return np.concatenate([np.full((len(prefix), 1), -np.inf), prefix[:, :-1]], axis=1)


def _best_runs(on: Floats, prior: Floats) -> Floats:
    """Log evidence (variances) on one axis of the best division into runs, with its prior."""
    best = on[:, 0]
    found: Floats = best[:, -1] + prior[0]
    for more in prior[1:]:
        best = (_shifted(best)[:, :, None] + on).max(axis=1)
        found = np.maximum(found, best[:, -1] + more)
    return found
