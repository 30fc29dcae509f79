"""What else could give this correlation: separate groups, or a line with a ceiling.

Three accounts of the points, compared by Bayes' rule with priors .4, .4 and .2:

- one rising line;
- one to four groups without association inside. Groups are runs of the points ordered along the
  diagonal; all ways to cut are averaged by dynamic programming, with Dirichlet-multinomial sizes
  (a product partition model: Barry and Hartigan 1992, Ann. Statist. 20);
- a line that is flat above one of the middle ranks.

All have the same unit-information priors on levels and slopes, and a grid of residual variances.
"""

from typing import NamedTuple

import numpy as np
from scipy import special

from bon.choosing.opinion import Floats

VARIANCES = np.geomspace(0.003, 1.2, 9)
PRIOR = np.log([0.4, 0.4, 0.2])
MOST_GROUPS = 4


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
    on_x = _level_evidence(sx)
    groups = _group_evidence(on_x, _level_evidence(sy))
    one = _mean(on_x[:, 0, -1])  # x around one level, which line and ceiling share
    line = one + _mean([_line_evidence(sx, sy, v) for v in VARIANCES])
    edges = np.sort(sx)[max(2, n // 6) : max(3, int(np.ceil(0.67 * n)))]
    ceiling = one + _mean(
        [_line_evidence(np.minimum(sx, edge), sy, v) for v in VARIANCES for edge in edges]
    )
    logs = PRIOR + np.array([line, groups, ceiling])
    return Accounts(*(float(p) for p in np.exp(logs - special.logsumexp(logs))))


def _mean(logs: Floats | list[float]) -> float:
    return float(special.logsumexp(logs) - np.log(len(logs)))


def _line_evidence(x: Floats, y: Floats, variance: float) -> float:
    """Log evidence of y = a + b x + e with e ~ N(0, variance) and a, b ~ N(0, 1)."""
    design = np.column_stack([np.ones(len(x)), x])
    gram, cross = np.eye(2) + design.T @ design / variance, design.T @ y / variance
    fit = y @ y / variance - cross @ np.linalg.solve(gram, cross)
    scale = len(y) * np.log(2 * np.pi * variance) + np.linalg.slogdet(gram)[1]
    return float(-0.5 * (scale + fit))


def _level_evidence(v: Floats) -> Floats:
    """Log evidence (variances, n, n) of v[i..j] around one level ~ N(0, 1); −∞ where j < i."""
    n, variance = len(v), VARIANCES[:, None, None]
    total, squares = np.append(0, np.cumsum(v)), np.append(0, np.cumsum(v * v))
    i, j = np.meshgrid(np.arange(n), np.arange(1, n + 1), indexing="ij")
    size, first, second = np.maximum(j - i, 1), total[j] - total[i], squares[j] - squares[i]
    log = size * np.log(2 * np.pi) + (size - 1) * np.log(variance) + np.log(variance + size)
    log = -0.5 * (log + (second - first**2 / (variance + size)) / variance)
    return np.where(j > i, log, -np.inf)


def _group_evidence(on_x: Floats, on_y: Floats) -> float:
    """Log evidence of 1 to MOST_GROUPS runs, each around a level on x and on y."""
    n = on_x.shape[-1]
    sizes = special.gammaln(np.maximum(np.arange(1, n + 1) - np.arange(n)[:, None], 0) + 1)
    # One residual variance an axis: (variances of x × of y, n, n).
    segment = (on_x[:, None] + on_y[None] + sizes).reshape(-1, n, n)
    prefix = segment[:, 0]  # [:, j]: the first j + 1 points in k groups
    levels = []
    for k in range(1, max(2, min(n // 2, MOST_GROUPS)) + 1):
        levels.append(prefix[:, -1] + special.gammaln(k) - special.gammaln(n + k))
        before = np.concatenate([np.full((len(prefix), 1), -np.inf), prefix[:, :-1]], axis=1)
        prefix = special.logsumexp(before[:, :, None] + segment, axis=1)
    return _mean(np.concatenate(levels))
