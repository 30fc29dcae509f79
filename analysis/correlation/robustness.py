"""What carries a correlation: one rewarder, one family, or a few groups of rewarders.

A line through the rewarders has a rival: a few groups whose members have nothing in common but
their group, as broken, reversed and healthy rewarders have. `groups` compares the two by the
Bayesian information criterion (Schwarz 1978); a yes needs strong evidence for the line.
docs/statistics.md gives error rates and power.
"""

import numpy as np

from bon.analysis.correlation.paired_accuracies import MIN_REWARDERS, Measured
from bon.analysis.estimators import resampling
from bon.analysis.estimators.resampling import number, t_test_p
from bon.analysis.results import BetterHalf, Coefficient, Groups, LeaveOneOut
from bon.analysis.results.phrasing import coefficient as written
from bon.analysis.results.phrasing import tested
from bon.choosing.opinion import Floats, Ints

STRONG = 0.5
"""The verdict's line: a lower r is not a useful prediction."""
ALPHA = 0.05
CARRIES = 0.15
"""Fall of r without one rewarder or family that is reported."""

MANY = 500  # rewarders above which computations over all pairs of them are skipped
MOST_GROUPS = 4

HALF = 8  # rewarders from which on half of them have an r with an interval
HOLDS = 0.3
"""Minimal r within the better half that supports a yes."""


# ------------------------------------------------------------------ one rewarder or one family


def leave_one_out(m: Measured) -> tuple[LeaveOneOut, ...]:
    """Correlate without each rewarder."""
    r = len(m.names)
    if r < MIN_REWARDERS + 1:
        return ()
    pearson = resampling.pearson_among(m.x, m.y, ~np.eye(r, dtype=bool))
    spearman = np.full(r, np.nan)
    if r <= MANY:
        rest = np.array([[j for j in range(r) if j != i] for i in range(r)])
        spearman = resampling.spearman_rows(m.x[rest], m.y[rest])
    return tuple(
        LeaveOneOut(
            left_out=name,
            pearson=number(pearson[i]),
            p_value=t_test_p(float(pearson[i]), r - 1),
            spearman=number(spearman[i]),
        )
        for i, name in enumerate(m.names)
    )


def leave_family_out(m: Measured) -> tuple[LeaveOneOut, ...]:
    """Correlate without each family of several rewarders."""
    result = []
    for family in dict.fromkeys(f for f in m.families if f):
        rest = np.array([i for i, f in enumerate(m.families) if f != family], dtype=int)
        if len(m.names) - len(rest) < 2 or len(rest) < MIN_REWARDERS:
            continue
        pearson = float(resampling.pearson_rows(m.x[rest], m.y[rest]))
        result.append(
            LeaveOneOut(
                left_out=family,
                pearson=number(pearson),
                p_value=t_test_p(pearson, len(rest)),
                spearman=number(float(resampling.spearman_rows(m.x[rest], m.y[rest]))),
            )
        )
    return tuple(result)


def carried(pearson: Coefficient, left_out: tuple[LeaveOneOut, ...]) -> LeaveOneOut | None:
    """Return the rewarder or family without which the result falls, if there is one.

    It falls if |r| drops by 0.15 or more, or if p (Student's t) rises above .05 from below.
    """
    value = pearson.estimate.value
    known = [row for row in left_out if row.pearson is not None]
    if value is None or not known:
        return None
    sign = np.sign(value) or 1.0
    worst = min(known, key=lambda row: sign * (row.pearson or 0.0))
    fall = abs(value) - sign * (worst.pearson or 0.0)
    significant = pearson.p_parametric is not None and pearson.p_parametric <= ALPHA
    loses = significant and (worst.p_value is None or worst.p_value > ALPHA)
    return worst if fall >= CARRIES or (loses and fall > 0.02) else None


def without(name: str, r: float | None, left: LeaveOneOut) -> str:
    """Describe what r becomes without a rewarder or family."""
    rises = left.pearson is not None and r is not None and left.pearson > r
    moves = "rises" if rises else "falls"
    return f"Without {name}, r {moves} to {tested(left.pearson, left.p_value)}."


def influence_sentence(
    m: Measured, carrier: LeaveOneOut | None, left_out: tuple[LeaveOneOut, ...]
) -> str:
    """Describe the effect of leaving out one rewarder."""
    if carrier is not None:
        return without(carrier.left_out, float(resampling.pearson_rows(m.x, m.y)), carrier)
    known = [row.pearson for row in left_out if row.pearson is not None]
    if not known:
        return ""
    return (
        f"Leaving out any one rewarder leaves r between {written(min(known))} and "
        f"{written(max(known))}."
    )


# ------------------------------------------------------------------ better half, groups


def better_half(m: Measured, pearson: Coefficient, level: float) -> BetterHalf | None:
    """Correlate within the better half on the benchmark, with ties; from eight rewarders on."""
    r, value = len(m.names), pearson.estimate.value
    if r < HALF or value is None:
        return None
    edge = float(np.sort(m.x)[r // 2])
    x, y = m.x[m.x >= edge], m.y[m.x >= edge]
    inner = float(resampling.pearson_rows(x, y))
    narrow = float(x.std() / m.x.std())
    expected = value * narrow / np.sqrt(1 - value**2 + (value * narrow) ** 2)
    return BetterHalf(
        num_rewarders=len(x),
        pearson=resampling.fisher(inner, len(x), level),
        expected=number(expected),
        holds=bool(inner >= HOLDS),
    )


def groups(m: Measured) -> Groups | None:
    """Compare one line through the rewarders with a few groups; None below five rewarders."""
    r = len(m.names)
    if not 5 <= r <= MANY or np.ptp(m.x) < 1e-12 or np.ptp(m.y) < 1e-12:
        return None
    (difference,), (codes,) = line_or_groups(m.x[None], m.y[None])
    count = int(codes.max()) + 1
    return Groups(
        groups=tuple(
            tuple(m.names[i] for i in np.flatnonzero(codes == code)) for code in range(count)
        ),
        bic_difference=difference,
    )


def line_or_groups(x: Floats, y: Floats) -> tuple[Floats, Ints]:
    """Compare one line through rewarders (S, R) with two to four groups of unrelated ones.

    Either account is normal: the line has one correlation, the groups have a mean and a share
    each, one variance per axis, and no correlation within. k groups have 3k − 4 parameters more.
    Groups are intervals along the sum of both standardised axes (the difference, if r < 0), of
    least squares (k-means). Returns the difference in BIC for the line (S) and the groups (S, R).
    """
    studies, r = x.shape
    axes = np.stack([
        (v - v.mean(axis=1, keepdims=True)) / v.std(axis=1, keepdims=True) for v in (x, y)
    ])  # fmt: skip
    pearson = (axes[0] * axes[1]).mean(axis=1)
    along = axes[0] + np.copysign(1, pearson)[:, None] * axes[1]
    order = np.argsort(along, axis=1, kind="stable")
    within = _squares_within(np.take_along_axis(axes, order[None], axis=2))
    line = np.log(np.maximum(1 - pearson**2, 1e-12))
    best, codes = np.full(studies, np.inf), np.zeros((studies, r), dtype=np.int64)
    rows, place = np.arange(studies)[:, None], np.empty_like(order)
    np.put_along_axis(place, order, np.arange(r)[None], axis=1)
    for edges in _partitions(within.sum(axis=0), min(MOST_GROUPS, r - 2)):
        sizes = np.diff(edges, axis=1)
        squares = within[:, rows, edges[:, :-1], edges[:, 1:]].sum(axis=2) / r
        entropy = -2 * (sizes * np.log(sizes / r)).sum(axis=1)
        rival = np.log(np.maximum(squares, 1e-9)).sum(axis=0)
        difference = r * (rival - line) + entropy + (3 * sizes.shape[1] - 4) * np.log(r)
        group = (edges[:, 1:-1, None] <= place[:, None, :]).sum(axis=1)
        codes = np.where((difference < best)[:, None], group, codes)
        best = np.minimum(best, difference)
    return best, codes


def _squares_within(axes: Floats) -> Floats:
    """Sums of squares around their mean of points i to j - 1, (…, R + 1, R + 1); inf if empty."""
    sums, squares = (
        np.cumsum(np.pad(v, [(0, 0)] * (v.ndim - 1) + [(1, 0)]), axis=-1) for v in (axes, axes**2)
    )
    size = np.arange(sums.shape[-1]) - np.arange(sums.shape[-1])[:, None]
    total, square = (v[..., None, :] - v[..., :, None] for v in (sums, squares))
    return np.where(size > 0, square - total**2 / np.where(size > 0, size, 1), np.inf)


def _partitions(cost: Floats, most: int) -> list[Ints]:
    """Edges (S, k + 1) of the best partition into k = 2, 3, … intervals (Fisher 1958)."""
    total, previous, partitions = cost[:, 0], [], []
    last = np.full((len(cost), 1), cost.shape[1] - 1)
    for _ in range(most - 1):
        candidates = total[:, :, None] + cost
        previous.append(candidates.argmin(axis=1))
        total = candidates.min(axis=1)
        edges = [last]
        for starts in reversed(previous):
            edges.append(np.take_along_axis(starts, edges[-1], axis=1))
        partitions.append(np.concatenate([*edges, 0 * last][::-1], axis=1))
    return partitions
