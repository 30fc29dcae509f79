"""Bootstrap and closed-form intervals, and correlation coefficients.

A bootstrap draw is a row of counts, how often each question (or pair) was drawn, so that all means
of all draws are one matrix product. The same draws serve every policy and rewarder: differences
between them are paired.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import special

from bon.analysis.results import Estimate
from bon.choosing.opinion import Bools, Floats, Ints

Floats32 = NDArray[np.float32]

FEW = 100
"""Percentile intervals of fewer units are widened: the bootstrap makes them too narrow."""

RARE = 10
"""Differences on fewer questions are rare: the sample may hold none of the large ones."""

MIN_DRAWS_KEPT = 0.5  # below this share of usable draws there is no interval


@dataclass(frozen=True)
class Draws:
    """Bootstrap draws of items that are averaged: counts (Q, B) as float32.

    clusters (Q): codes of the clusters that were drawn whole; None if every item was drawn alone.
    """

    counts: Floats32
    clusters: Ints | None = None

    def of(self, rows: NDArray[np.integer] | Bools) -> "Draws":
        """Restrict the draws to some of the units."""
        index = np.arange(len(self.counts))
        if np.array_equal(index[rows], index):
            return self
        clusters = None if self.clusters is None else self.clusters[rows]
        return Draws(self.counts[rows], clusters)

    @property
    def units(self) -> int | None:
        """The number of clusters; None if every item was drawn alone."""
        return None if self.clusters is None else len(np.unique(self.clusters))

    @cached_property
    def _sizes(self) -> Floats32:
        """(B): number of units in each draw, at least almost none."""
        return np.asarray(np.maximum(self.counts.sum(axis=0), 1e-9), np.float32)

    def means(self, values: NDArray[np.floating]) -> Floats32:
        """(C, B): mean of each column of values (Q, C) in every draw."""
        sums = self.sums(values)
        sums /= self._sizes
        return sums

    def sums(self, values: NDArray[np.floating]) -> Floats32:
        """(C, B): sum of each column of values (Q, C) in every draw."""
        return np.asarray(np.asarray(values, dtype=np.float32).T @ self.counts, np.float32)


def draw(size: int, count: int, seed: int, label: str) -> Draws:
    """Draw `size` units with replacement `count` times; the label separates random streams."""
    rng = np.random.default_rng([seed, *label.encode()])
    return Draws(_counts(rng, size, count))


def folds_of(names: Iterable[object], count: int) -> Ints:
    """Return the fold of each name, from its hash: the same in every run."""
    return np.array([hashlib.sha256(str(n).encode()).digest()[0] % count for n in names], np.int64)


def draw_clusters(clusters: Ints, strata: Ints, count: int, seed: int, label: str) -> Draws:
    """Draw whole clusters within strata.

    `clusters`, `strata` (Q): codes. The stratum of a cluster is that of its first unit.
    """
    rng = np.random.default_rng([seed, *label.encode()])
    names, first, cluster = np.unique(clusters, return_index=True, return_inverse=True)
    counts = np.empty((len(names), count), dtype=np.float32)
    for stratum in np.unique(strata[first]):
        members = np.flatnonzero(strata[first] == stratum)
        counts[members] = _counts(rng, len(members), count)
    return Draws(counts[cluster], clusters)


def _counts(rng: np.random.Generator, size: int, count: int) -> Floats32:
    counts = np.empty((size, count), dtype=np.float32)
    step = max(1, 4_000_000 // max(size, 1))
    for at in range(0, count, step):
        rows = min(step, count - at)
        drawn = rng.integers(0, size, (rows, size), dtype=np.int32)
        drawn += (np.arange(rows, dtype=np.int32) * size)[:, None]
        counted = np.bincount(drawn.ravel(), minlength=rows * size)
        counts[:, at : at + rows] = counted.reshape(rows, size).T
    return counts


def _tail(level: float, n: int | None) -> float:
    """Share of draws beyond either bound of an interval from n units (None: many).

    For few units the expanded percentile interval (Hesterberg 2015): as far out as Student's t
    with the sample's own standard error.
    """
    tail = (1 - level) / 2
    if n is None or not 1 < n < FEW:
        return tail
    return float(special.ndtr(special.stdtrit(n - 1, tail) * np.sqrt(n / (n - 1))))


def quantiles(
    draws: NDArray[np.floating], level: float, n: int | None = None
) -> tuple[Floats, Floats]:
    """Percentile bounds (C) of draws (C, B) of n units, NaN draws left out.

    NaN where fewer than half of the draws are finite.
    """
    tail = _tail(level, n)
    draws = np.atleast_2d(draws)
    if np.isfinite(draws.sum(axis=-1)).all():
        return _between(draws, tail)
    bounds = np.full((2, len(draws)), np.nan)
    for row, drawn in enumerate(draws):
        known = drawn[np.isfinite(drawn)]
        if len(known) >= max(MIN_DRAWS_KEPT * len(drawn), 1):
            bounds[:, [row]] = _between(known[None], tail)
    return bounds[0], bounds[1]


def _between(draws: NDArray[np.floating], tail: float) -> tuple[Floats, Floats]:
    """Quantiles `tail` and 1 − `tail` of each row; `np.quantile` sorts along columns, slowly."""
    places = np.array([tail, 1 - tail]) * (draws.shape[1] - 1)
    below = places.astype(int)
    above = np.minimum(below + 1, draws.shape[1] - 1)
    ordered = np.partition(draws, [*below, *above], axis=-1)
    a, b, part = ordered[:, below], ordered[:, above], places - below
    low, high = np.where(part < 0.5, a + (b - a) * part, b - (b - a) * (1 - part)).T
    return low, high


def number(value: float | np.floating | None) -> float | None:
    """Return a finite float, or None."""
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
    """Return an Estimate without NaN whose bounds enclose the value."""
    v, a, b = number(value), number(low), number(high)
    if v is None:
        return Estimate(value=None, n=n, method="none")
    if a is None or b is None:
        return Estimate(value=v, n=n, method="none")
    return Estimate(value=v, low=min(a, v), high=max(b, v), n=n, method=method)


def around(value: float | np.floating, half: float | np.floating, n: int, method: str) -> Estimate:
    """Return an Estimate with bounds at the same distance from the value."""
    return estimate(value, value - half, value + half, n, method)


def nothing(n: int = 0) -> Estimate:
    """Return an estimate without a value."""
    return Estimate(value=None, n=n, method="none")


def from_draws(
    values: Floats,
    draws: NDArray[np.floating],
    n: int | Sequence[int],
    method: str,
    level: float,
    proportion: bool = True,
    units: int | None = None,
    differing: Ints | None = None,
) -> list[Estimate]:
    """Estimate values (C), each of n items, with percentile bounds of draws (C, B).

    A proportion of 0 or 1 that no draw moves gets Wilson's interval: the bootstrap cannot see how
    rare an exception is. Differences are not proportions. `units`: number of resampled units, where
    the n items come in clusters. `differing` (C): items on which differences in [-1, 1] are not
    zero; where these are RARE, every draw gets one more item of ±1 with an exponential weight
    (Gaffke 2005; of a proportion the bounds of Clopper and Pearson).
    """
    draws, sizes = np.atleast_2d(draws), np.broadcast_to(n, len(values))
    low, high = np.empty(len(values)), np.empty(len(values))
    for size in np.unique(sizes):  # mostly one: then the draws are not copied
        rows: slice | Bools = slice(None) if (sizes == size).all() else sizes == size
        low[rows], high[rows] = quantiles(draws[rows], level, units or int(size))
    if differing is not None and (rare := differing < RARE).any():
        weight = np.random.default_rng(RARE).exponential(size=draws.shape[1])
        sums, total = draws[rare] * sizes[rare, None], sizes[rare, None] + weight
        low[rare] = quantiles((sums - weight) / total, level)[0]
        high[rare] = quantiles((sums + weight) / total, level)[1]
    estimates = []
    for value, a, b, size in zip(values, low, high, sizes.tolist(), strict=True):
        if proportion and a == b and np.isclose(value, a, atol=1e-6) and value in (0.0, 1.0):
            estimates.append(sure(value, units or size, size, level))
        else:
            estimates.append(estimate(value, a, b, size, method))
    return estimates


def of_sums(
    columns: Floats,
    statistic: Callable[[Floats], Floats],
    draws: Draws,
    n: int,
    method: str,
    level: float,
    proportion: bool = True,
    units: int | None = None,
) -> Estimate:
    """Estimate a statistic of the sums (K, B) of columns (Q, K), its bounds from draws of units."""
    if n == 0:
        return nothing()
    with np.errstate(invalid="ignore", divide="ignore"):
        value = statistic(columns.sum(axis=0)[:, None])
        spread = statistic(draws.sums(columns).astype(float))
    return from_draws(value, spread, n, method, level, proportion, units)[0]


def first_by_second(sums: Floats) -> Floats:
    """Ratio of two sums (2, B), for `of_sums`."""
    return np.asarray(sums[0] / sums[1])


def sure(value: float, units: int, n: int, level: float) -> Estimate:
    """Estimate a proportion of 0 or 1 of n items that no draw of its `units` can change."""
    return wilson(value * units, units, level).model_copy(update={"n": n})


def wilson(hits: float, n: int, level: float, method: str = "wilson") -> Estimate:
    """Wilson's interval of a proportion (conservative for a mean of values in [0, 1])."""
    if n == 0:
        return nothing()
    z = special.ndtri((1 + level) / 2)
    p = hits / n
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return estimate(p, max(centre - half, 0.0), min(centre + half, 1.0), n, method)


def clopper_pearson(hits: float, n: float, level: float) -> tuple[float, float]:
    """Bounds of a proportion (Clopper and Pearson 1934); n and hits may be effective numbers."""
    tail = (1 - level) / 2
    low = special.betaincinv(hits, n - hits + 1, tail) if hits > 0 else 0.0
    high = special.betaincinv(hits + 1, n - hits, 1 - tail) if hits < n else 1.0
    return float(low), float(high)


def proportion(
    value: float, variance: float, n: int, units: float, level: float, method: str, most: int
) -> Estimate:
    """Estimate a proportion of n items, by Clopper and Pearson at their effective number.

    Korn and Graubard (1998): value (1 − value) / variance, for few `units` (clusters) times the
    squared ratio of Student's quantiles, and no more than `most`. Without a variance, the units.
    """
    spread, size = value * (1 - value), units
    if spread > 0 and variance > 0:
        few = special.stdtrit([n - 1, units - 1], (1 + level) / 2)
        size = min(spread / variance * (few[0] / few[1]) ** 2, most)
    low, high = clopper_pearson(value * size, size, level)
    return estimate(value, low, high, n, method)


def share_of(
    hits: Floats, sizes: Floats, n: int, level: float, method: str = "clusters"
) -> Estimate:
    """Estimate the sum of hits (C) over that of sizes (C) by cluster, of n items.

    Where every draw agrees, one cluster counts as one item: Kish's (1965) effective number of them.
    """
    total = float(sizes.sum())
    if not total:
        return nothing()
    value = float(hits.sum()) / total
    variance = float(np.square(hits - value * sizes).sum()) / total**2
    return proportion(value, variance, n, kish(sizes), level, method, n)


def kish(weights: Floats) -> float:
    """Kish's (1965) effective number of weighted units."""
    return float(weights.sum() ** 2 / np.square(weights).sum())


def fisher_z(r: float | Floats) -> Floats:
    """Fisher's transformation of a correlation, finite at ±1."""
    return np.asarray(np.arctanh(np.clip(r, -0.9999999, 0.9999999)))


def fisher(r: float, n: int, level: float, variance: float = 1.0, fewest: int = 4) -> Estimate:
    """Estimate a correlation of n points with Fisher's interval, which takes the `fewest` points.

    Its variance on Fisher's scale is `variance` / (n − 3).
    """
    enough, z = n >= fewest, fisher_z(r)
    half = special.ndtri((1 + level) / 2) * np.sqrt(variance / (n - 3)) if enough else np.nan
    low, high = np.tanh([z - half, z + half])
    return estimate(r, low, high, n, "fisher")


def jackknife(x: Floats, y: Floats, codes: Ints) -> tuple[float, float]:
    """Fisher's z of Pearson's r, and its standard error from leaving out the points of each code.

    Unlike Fisher's error it does not assume normal points: outliers widen it.
    """
    count = int(codes.max()) + 1
    zs = fisher_z(pearson_among(x, y, codes != np.arange(count)[:, None]))
    error = np.sqrt((count - 1) / count * ((zs - zs.mean()) ** 2).sum())
    return float(fisher_z(pearson_rows(x, y))), float(error)


# ------------------------------------------------------------------ coefficients


def pearson_rows(x: NDArray[np.floating], y: NDArray[np.floating]) -> Floats:
    """Pearson's r along the last axis; NaN where either side does not vary."""
    x = np.asarray(x, dtype=float)
    y = np.asarray(y, dtype=float)
    return _pearson(x - x.mean(axis=-1, keepdims=True), y - y.mean(axis=-1, keepdims=True))


def pearson_among(x: Floats, y: Floats, keep: Bools) -> Floats:
    """(S): Pearson's r among the points that each row of `keep` (S, R) keeps."""
    dx, dy = (np.where(keep, v - (keep @ v / keep.sum(axis=1))[:, None], 0) for v in (x, y))
    return _pearson(dx, dy)


def _pearson(dx: Floats, dy: Floats) -> Floats:
    sxx, syy, sxy = (np.einsum("...r,...r->...", a, b) for a, b in ((dx, dx), (dy, dy), (dx, dy)))
    flat = (sxx < 1e-18) | (syy < 1e-18)
    safe = np.where(flat, 1.0, np.sqrt(sxx * syy))
    return np.where(flat, np.nan, np.clip(sxy / safe, -1, 1))


def ranks(x: NDArray[np.floating]) -> Floats:
    """Mean ranks along the last axis; NaN where there is a NaN."""
    ranked = pd.DataFrame(np.reshape(x, (-1, np.shape(x)[-1]))).rank(axis=1).to_numpy(dtype=float)
    known = ~np.isnan(ranked).any(axis=1, keepdims=True)
    return np.where(known, ranked, np.nan).reshape(np.shape(x))


def spearman_rows(x: NDArray[np.floating], y: NDArray[np.floating]) -> Floats:
    """Spearman's rho along the last axis, mean ranks for ties."""
    return pearson_rows(ranks(x), ranks(y))


COEFFICIENTS = {"pearson": pearson_rows, "spearman": spearman_rows}


def two_sided(spread: NDArray[np.floating]) -> float:
    """Return the p of a bootstrap distribution (B) that lies on either side of zero."""
    return float(min(1.0, 2 * min((spread <= 0).mean(), (spread >= 0).mean()) + 1 / len(spread)))


def holm(p_values: list[float | None]) -> list[float | None]:
    """Holm's step-down correction of the known p-values."""
    known = sorted((p, i) for i, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    running = 0.0
    for k, (p, i) in enumerate(known):
        running = max(running, min(1.0, p * (len(known) - k)))
        adjusted[i] = running
    return adjusted
