"""Intervals by resampling, and the closed ones beside them.

Resampling is matrix arithmetic: a draw is a row of counts, how often each question (or pair)
was drawn, and all means of all draws are one product. The same draws serve every policy and
rewarder, so differences between them are paired.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import special

from bon.analysis.results import Estimate, PermutationMethod

Floats = NDArray[np.float64]
Floats32 = NDArray[np.float32]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

FEW = 100
"""Below this many things a percentile interval is widened: resampling few makes it too narrow."""

MIN_DRAWS_KEPT = 0.5  # below this share of usable draws there is no interval


@dataclass(frozen=True)
class Draws:
    """Bootstrap draws of things that are averaged: counts (B, Q) as float32."""

    counts: Floats32

    def of(self, rows: NDArray[np.integer] | Bools) -> "Draws":
        """The same draws, of some of the things."""
        places = np.arange(self.counts.shape[1])
        if np.array_equal(places[rows], places):
            return self
        return Draws(self._by_thing[rows].T)

    @cached_property
    def _by_thing(self) -> Floats32:
        """(Q, B): from rows, some of them are taken many times faster than from columns."""
        return np.ascontiguousarray(self.counts.T)

    def means(self, values: NDArray[np.floating]) -> Floats32:
        """(C, B): means of each column of values (Q, C) in every draw."""
        sums = self.sums(values)
        sums /= self._totals
        return sums

    @cached_property
    def _totals(self) -> Floats32:
        return np.asarray(np.maximum(self.counts.sum(axis=1), 1e-9), dtype=np.float32)

    def sums(self, values: NDArray[np.floating]) -> Floats32:
        """(C, B): sums of each column of values (Q, C) in every draw."""
        if not np.any(values):
            return np.zeros((np.shape(values)[1], len(self.counts)), dtype=np.float32)
        return np.asarray(np.asarray(values, dtype=np.float32).T @ self.counts.T, np.float32)


def draw(size: int, count: int, seed: int, label: str) -> Draws:
    """`count` draws of `size` things with replacement; the label keeps streams apart."""
    rng = np.random.default_rng([seed, *label.encode()])
    return Draws(_counts(rng, size, count))


def draw_clusters(clusters: Ints, strata: Ints, count: int, seed: int, label: str) -> Draws:
    """Draws of whole clusters, within strata: things of one cluster come and go together.

    `clusters`, `strata` (Q): codes. The stratum of a cluster is that of its first member.
    """
    rng = np.random.default_rng([seed, *label.encode()])
    names, first, cluster = np.unique(clusters, return_index=True, return_inverse=True)
    counts = np.empty((len(names), count), dtype=np.float32)
    for stratum in np.unique(strata[first]):
        members = np.flatnonzero(strata[first] == stratum)
        counts[members] = _counts(rng, len(members), count).T
    return Draws(counts[cluster].T)


def _counts(rng: np.random.Generator, size: int, count: int) -> Floats32:
    counts = np.empty((count, size), dtype=np.float32)
    step = max(1, 4_000_000 // max(size, 1))
    for at in range(0, count, step):
        rows = min(step, count - at)
        drawn = rng.integers(0, size, (rows, size), dtype=np.int32)
        drawn += (np.arange(rows, dtype=np.int32) * size)[:, None]
        counts[at : at + rows] = np.bincount(drawn.ravel(), minlength=rows * size).reshape(
            rows, size
        )
    return counts


def _tail(level: float, n: int | None) -> float:
    """The share of draws beyond either bound of an interval from n things (None: from many).

    Of few things the expanded percentile interval (Hesterberg 2015): as far out as Student's t
    with the sample's own standard error would be.
    """
    tail = (1 - level) / 2
    if n is None or not 1 < n < FEW:
        return tail
    return float(special.ndtr(special.stdtrit(n - 1, tail) * np.sqrt(n / (n - 1))))


def quantiles(
    draws: NDArray[np.floating], level: float, n: int | None = None
) -> tuple[Floats, Floats]:
    """Percentile bounds (C) of draws (C, B) of n things, draws that are not numbers left out.

    NaN where fewer than half of the draws are numbers.
    """
    tail = _tail(level, n)
    draws = np.atleast_2d(draws)
    usable = np.isfinite(draws)
    if usable.all() and draws.shape[-1] > 1:
        low, high = _both_tails(draws, tail)
    else:
        few = usable.mean(axis=-1) < MIN_DRAWS_KEPT
        low, high = np.full(len(draws), np.nan), np.full(len(draws), np.nan)
        rows = np.flatnonzero(~few)
        if len(rows):
            filled = np.where(usable, draws, np.nan)[rows]
            low[rows], high[rows] = np.nanquantile(filled, [tail, 1 - tail], axis=-1)
    return np.asarray(low, dtype=float), np.asarray(high, dtype=float)


def _both_tails(draws: NDArray[np.floating], tail: float) -> tuple[Floats, Floats]:
    """The quantiles `tail` and 1 − `tail` of each row, as np.quantile has them.

    It selects two places of each row instead of four, each among what is still left.
    """
    last = draws.shape[-1] - 1
    (low, part_low), (high, part_high) = (
        (min(int(place), last - 1), place - min(int(place), last - 1))
        for place in (last * tail, last * (1 - tail))
    )
    some = np.partition(draws, low + 1, axis=-1)
    at, after = some[:, : low + 1].max(axis=-1), some[:, low + 1]
    bound = _between(at, after, part_low)
    if high == low:  # no more than a few draws
        return bound, _between(at, after, part_high)
    rest = some[:, low + 1 :]
    rest.partition(high - low - 1, axis=-1)
    at, after = rest[:, high - low - 1], rest[:, high - low :].min(axis=-1)
    return bound, _between(at, after, part_high)


def _between(a: NDArray[np.floating], b: NDArray[np.floating], part: float) -> Floats:
    """From a to b; from the nearer end, as numpy does, so that rounding never overshoots."""
    step = np.asarray(b - a)
    return a + step * np.float64(part) if part < 0.5 else b - step * np.float64(1 - part)


def number(value: float | np.floating | None) -> float | None:
    """A float that is a number, or None."""
    if value is None or not np.isfinite(value):
        return None
    return float(value)


def estimate(
    value: float | np.floating | None,
    low: float | np.floating | None,
    high: float | np.floating | None,
    n: int,
    method: str,
) -> Estimate:
    """An Estimate without NaN; bounds always enclose the value."""
    v, a, b = number(value), number(low), number(high)
    if v is None:
        return Estimate(value=None, n=n, method="none")
    if a is None or b is None:
        return Estimate(value=v, n=n, method="none")
    return Estimate(value=v, low=min(a, v), high=max(b, v), n=n, method=method)


def nothing(n: int = 0) -> Estimate:
    """A number that does not exist."""
    return Estimate(value=None, n=n, method="none")


def from_draws(
    values: Floats,
    draws: NDArray[np.floating],
    n: int | Sequence[int],
    method: str,
    level: float,
    proportion: bool = True,
    units: int | None = None,
) -> list[Estimate]:
    """Estimates of values (C) with percentile bounds of draws (C, B), resting on n things each.

    A proportion that no draw moves (all right, all wrong) gets Wilson's interval: resampling
    cannot see how rare an exception would be. Differences are not proportions. `units`: how many
    things were resampled, where the n things come in clusters.
    """
    draws, rests = np.atleast_2d(draws), np.broadcast_to(n, len(values))
    low, high = np.empty(len(values)), np.empty(len(values))
    for count in np.unique(rests):  # mostly one: then the draws are not copied
        rows: slice | Bools = slice(None) if (rests == count).all() else rests == count
        low[rows], high[rows] = quantiles(draws[rows], level, units or int(count))
    made = []
    for value, a, b, count in zip(values, low, high, rests.tolist(), strict=True):
        if proportion and a == b and np.isclose(value, a, atol=1e-6) and value in (0.0, 1.0):
            made.append(sure(value, units or count, count, level))
        else:
            made.append(estimate(value, a, b, count, method))
    return made


def sure(value: float, units: int, n: int, level: float) -> Estimate:
    """A proportion of n things, all or none of them, that no draw of its `units` can move."""
    return wilson(value * units, units, level).model_copy(update={"n": n})


def wilson(hits: float, n: int, level: float, method: str = "wilson") -> Estimate:
    """Wilson's interval of a proportion (also of a mean of values in [0, 1], then wide)."""
    if n == 0:
        return nothing()
    z = special.ndtri((1 + level) / 2)
    p = hits / n
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return estimate(p, max(centre - half, 0.0), min(centre + half, 1.0), n, method)


def fisher_interval(r: float, n: int, level: float) -> tuple[float, float]:
    """Fisher's interval of a correlation of n points; NaN below four points."""
    if n < 4 or not np.isfinite(r):
        return float("nan"), float("nan")
    z = np.arctanh(np.clip(r, -0.9999999, 0.9999999))
    half = special.ndtri((1 + level) / 2) / np.sqrt(n - 3)
    return float(np.tanh(z - half)), float(np.tanh(z + half))


def jackknife_interval(x: Floats, y: Floats, level: float) -> tuple[float, float]:
    """Interval of Pearson's r from leaving each point out, on Fisher's scale; NaN below five.

    Student's t with n − 1 degrees of freedom. Unlike Fisher's it does not take the points for
    normal: a few far-off points make it as wide as they deserve.
    """
    n = len(x)
    if n < 5:
        return float("nan"), float("nan")
    rest = pearson_without(x, y, np.arange(n)[:, None])
    z, zs = (np.arctanh(np.clip(r, -0.9999999, 0.9999999)) for r in (pearson_rows(x, y), rest))
    error = np.sqrt((n - 1) / n * ((zs - zs.mean()) ** 2).sum())
    half = special.stdtrit(n - 1, (1 + level) / 2) * error
    return float(np.tanh(z - half)), float(np.tanh(z + half))


# ------------------------------------------------------------------ coefficients


def pearson_rows(x: NDArray[np.floating], y: NDArray[np.floating]) -> Floats:
    """Pearson's r along the last axis; NaN where either side does not vary."""
    x = np.asarray(x, dtype=float)
    y = np.asarray(y, dtype=float)
    return _pearson(x - x.mean(axis=-1, keepdims=True), y - y.mean(axis=-1, keepdims=True))


def pearson_among(x: Floats, y: Floats, keep: Bools) -> Floats:
    """(S): Pearson's r among those of the points that each row of `keep` (S, R) keeps."""
    dx, dy = (np.where(keep, v - (keep @ v / keep.sum(axis=1))[:, None], 0) for v in (x, y))
    return _pearson(dx, dy)


def _pearson(dx: Floats, dy: Floats) -> Floats:
    """Of distances from the means."""
    sxx, syy, sxy = (np.einsum("...r,...r->...", a, b) for a, b in ((dx, dx), (dy, dy), (dx, dy)))
    flat = (sxx < 1e-18) | (syy < 1e-18)
    safe = np.where(flat, 1.0, np.sqrt(sxx * syy))
    return np.where(flat, np.nan, np.clip(sxy / safe, -1, 1))


def pearson_without(x: Floats, y: Floats, sets: Ints) -> Floats:
    """(S): Pearson's r without each of S sets (S, k) of the points, from sums of products."""
    left = len(x) - sets.shape[1]
    x, y = x - x.mean(), y - y.mean()
    a, b = x[sets].sum(axis=1), y[sets].sum(axis=1)
    sxx, syy, sxy = (
        total @ other - (total * other)[sets].sum(axis=1) - one * two / left
        for total, other, one, two in ((x, x, a, a), (y, y, b, b), (x, y, a, b))
    )
    flat = (sxx <= 1e-12 * (x @ x)) | (syy <= 1e-12 * (y @ y))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(flat, np.nan, np.clip(sxy / np.sqrt(sxx * syy), -1, 1))


def ranks(x: NDArray[np.floating]) -> Floats:
    """Mean ranks along the last axis; NaN where there is a NaN."""
    order = np.argsort(x, axis=-1)
    ordered = np.take_along_axis(x, order, axis=-1)
    first = np.ones(x.shape, dtype=bool)  # of equal values
    first[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    starts = np.flatnonzero(first)
    sizes = np.diff(starts, append=first.size)
    mean = starts % x.shape[-1] + (sizes + 1) / 2
    found = np.empty(x.shape)
    np.put_along_axis(found, order, np.repeat(mean, sizes).reshape(x.shape), axis=-1)
    found[np.isnan(x).any(axis=-1)] = np.nan
    return found


def spearman_rows(x: NDArray[np.floating], y: NDArray[np.floating]) -> Floats:
    """Spearman's rho along the last axis, mean ranks for ties."""
    return pearson_rows(ranks(x), ranks(y))


def kendall_rows(x: NDArray[np.floating], y: NDArray[np.floating]) -> Floats:
    """Kendall's tau-b along the last axis; NaN where there is a NaN, or a side does not vary."""
    x, y = np.broadcast_arrays(np.asarray(x, dtype=float), np.asarray(y, dtype=float))
    agree, apart_x, apart_y = _pairs(x.reshape(-1, x.shape[-1]), y.reshape(-1, y.shape[-1]))
    with np.errstate(invalid="ignore", divide="ignore"):
        found = agree / np.sqrt(apart_x.astype(float) * apart_y)
    found = found.reshape(x.shape[:-1])
    return np.where(np.isnan(x).any(axis=-1) | np.isnan(y).any(axis=-1), np.nan, found)


def _pairs(x: NDArray[np.floating], y: NDArray[np.floating]) -> tuple[Ints, Ints, Ints]:
    """Of the pairs of columns of x, y (B, R): agreeing less disagreeing, apart in x, in y (B each).

    Draws lie along the last axis here, where bytes are compared and added many at a time.
    """
    count, r = x.shape
    found = np.zeros((3, count), dtype=np.int64)
    step = max(1, _AT_ONCE // max(r, 1))
    for at in range(0, count, step):
        a, b = (np.ascontiguousarray(side[at : at + step].T) for side in (x, y))
        for k in range(1, r):
            sx, sy = _signs(a, k), _signs(b, k)
            for total, signs in zip(found, (sx * sy, sx * sx, sy * sy), strict=True):
                total[at : at + step] += signs.sum(axis=0, dtype=np.int32)
    return found[0], found[1], found[2]


_AT_ONCE = 100_000  # numbers that stay in the processor's cache


def _signs(values: NDArray[np.floating], k: int) -> NDArray[np.int8]:
    """(k, B): whether each of the first k rows is above (1) or below (−1) row k."""
    above, below = values[:k] > values[k], values[:k] < values[k]
    return np.asarray(above.view(np.int8) - below.view(np.int8))


COEFFICIENTS = {"pearson": pearson_rows, "spearman": spearman_rows, "kendall": kendall_rows}


# ------------------------------------------------------------------ permutation


EXACT_REWARDERS = 9
"""Up to this many rewarders every permutation is tried (9! = 362,880)."""


@lru_cache(maxsize=2)
def _all_orders(r: int) -> NDArray[np.int8]:
    orders = np.zeros((1, 0), dtype=np.int8)
    for k in range(r):  # insert k at every place of every order of the ones before it
        orders = np.concatenate([np.insert(orders, place, k, axis=1) for place in range(k + 1)])
    return orders


@lru_cache(maxsize=8)
def _sampled_orders(r: int, count: int, seed: int) -> NDArray[np.int16]:
    rng = np.random.default_rng([seed, r, count])
    return rng.permuted(np.tile(np.arange(r, dtype=np.int16), (count, 1)), axis=1)


def permutation_p(
    x: Floats, y: Floats, name: str, count: int, seed: int
) -> tuple[float, PermutationMethod]:
    """Two-sided p of a coefficient if y belonged to other rewarders, and how it was found.

    All orders up to nine rewarders; above, `count` random ones with the observed one added
    (Phipson and Smyth 2010), so p is never zero.
    """
    r = len(x)
    exact = r <= EXACT_REWARDERS
    orders = _all_orders(r) if exact else _sampled_orders(r, count, seed)
    if name == "kendall":
        sums = _pairs(np.broadcast_to(x, orders.shape), y[orders])[0].astype(float)
        observed = float(_pairs(x[None], y[None])[0][0])
    else:
        a, b = (ranks(x), ranks(y)) if name == "spearman" else (x, y)
        a, b = a - a.mean(), b - b.mean()
        sums = b[orders] @ a
        observed = float(b @ a)
    slack = 1e-12 * max(np.abs(sums).max(), 1e-300)
    reached = int((np.abs(sums) >= abs(observed) - slack).sum())
    if exact:
        return reached / len(orders), "exact permutation"
    return (reached + 1) / (len(orders) + 1), "sampled permutation"


def t_test_p(r: float, n: int, given: int = 0) -> float | None:
    """Two-sided p of Pearson's r by Student's t with n − 2 − given degrees of freedom."""
    df = n - 2 - given
    if df < 1 or not np.isfinite(r):
        return None
    if abs(r) >= 1:
        return 0.0
    t = abs(r) * np.sqrt(df / (1 - r * r))
    return float(2 * special.stdtr(df, -t))


def holm(p_values: list[float | None]) -> list[float | None]:
    """Holm's step-down correction over the p-values that exist."""
    known = sorted((p, i) for i, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    running = 0.0
    for k, (p, i) in enumerate(known):
        running = max(running, min(1.0, p * (len(known) - k)))
        adjusted[i] = running
    return adjusted
