"""Item statistics: difficulty, discrimination, order flips, reliability, number of items needed.

`credit` (I, R) is the score of each rewarder on each item, in [0, 1], the mean over orders; NaN not
judged. All statistics are relative to these rewarders.
"""

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import special

from bon.analysis.correlation.paired_accuracies import difference_errors
from bon.analysis.estimators.resampling import Draws, estimate, holm, nothing
from bon.analysis.results import Estimate
from bon.analysis.results.audit import Below, PairsNeeded
from bon.choosing.opinion import Floats

MIN_REWARDERS = 4
"""Below this many rewarders there is no item–rest correlation."""

CUTOFFS = (0.0, -0.3, -0.5)
DIFFERENCES = (0.1, 0.05, 0.03, 0.02, 0.01)
POWER = 0.8
SIMULATED = 200
FLAT = 1e-12


def share_right(credit: Floats) -> Floats:
    """(I): mean credit over rewarders; NaN where none judged it."""
    judged = np.isfinite(credit).sum(axis=1)
    return np.where(judged > 0, np.nansum(credit, axis=1) / np.maximum(judged, 1), np.nan)


def discrimination(credit: Floats) -> Floats:
    """(I): item–rest correlation over rewarders (Pearson, point-biserial for credits of 0 or 1).

    NaN below four rewarders, and where an item or the rest does not vary.
    """
    rest = _rest(credit)
    return _correlation(np.where(np.isfinite(rest), credit, np.nan), rest)


def _rest(credit: Floats) -> Floats:
    """(I, R): each rewarder's mean credit on all other items."""
    known = np.isfinite(credit)
    others = known.sum(axis=0) - known
    return np.where(
        known & (others > 0),
        (np.nansum(credit, axis=0) - np.nan_to_num(credit)) / np.maximum(others, 1),
        np.nan,
    )


def _correlation(x: Floats, y: Floats) -> Floats:
    """Pearson's r along the last axis, over entries known in both."""
    known = np.isfinite(x) & np.isfinite(y)
    n = known.sum(axis=-1, keepdims=True)
    dx, dy = (
        np.where(known, side - np.where(known, side, 0.0).sum(-1, keepdims=True) / n.clip(1), 0.0)
        for side in (x, y)
    )
    scale = np.sqrt((dx * dx).sum(axis=-1) * (dy * dy).sum(axis=-1))
    usable = (scale > FLAT) & (n[..., 0] >= MIN_REWARDERS)
    return np.where(usable, (dx * dy).sum(axis=-1) / np.where(usable, scale, 1.0), np.nan)


def negatives(credit: Floats, right: Floats, seed: int) -> tuple[Below, ...]:
    """Count the items below each of `CUTOFFS`, and how many would be by chance.

    By chance: if every label were right and rewarders differed by their log odds of being right
    alone (Rasch 1960), simulated with each item's total fixed, against the observed rest; the
    bounds hold 95 of 100 draws. Wrong labels and hard items shrink the odds, so the number by
    chance is conservative.

    Args:
        credit: (I, R) as observed.
        right: (I, R) 0, 1 or NaN.
        seed: of the draws.
    """
    drawn = sample(odds(right), right, SIMULATED, np.random.default_rng([seed, 41]))
    rest, observed = _rest(credit), discrimination(credit)
    chance = np.stack([_correlation(draw, rest) for draw in drawn])
    below = []
    for cutoff in CUTOFFS:
        counts = (chance < cutoff).sum(axis=1)
        low, high = np.quantile(counts, [0.025, 0.975])
        by_chance = estimate(counts.mean(), low, high, len(right), "simulated")
        items = int((observed < cutoff).sum())
        below.append(Below(r=cutoff, items=items, by_chance=by_chance))
    return tuple(below)


def odds(right: Floats) -> Floats:
    """(R): odds of each rewarder to be right, with half an item more on either side."""
    hits, judged = np.nansum(right, axis=0), np.isfinite(right).sum(axis=0)
    return np.asarray((hits + 0.5) / (judged - hits + 0.5))


def sample(odds: Floats, right: Floats, count: int, rng: np.random.Generator) -> Floats:
    """(count, I, R): draws of `right` given the odds (R) and each item's total; NaN stays."""
    known = np.isfinite(right)
    easiness = np.where(known, odds, 0.0)
    size = right.shape[1]
    tails = [elementary(easiness[:, k:]) for k in range(size + 1)]
    remaining = np.broadcast_to(np.nansum(right, axis=1).astype(int), (count, len(right))).copy()
    drawn = np.full((count, len(right), size), np.nan)
    rows = np.arange(len(right))
    for k in range(size):
        weight = tails[k + 1][rows, np.maximum(remaining - 1, 0)] * (remaining > 0)
        hit = rng.random(remaining.shape) * tails[k][rows, remaining] < weight * easiness[:, k]
        drawn[:, :, k] = np.where(known[:, k], hit, np.nan)
        remaining -= hit & known[:, k]
    return drawn


def elementary(numbers: Floats) -> Floats:
    """(…, K + 1): elementary symmetric functions of K numbers on the last axis."""
    functions = np.zeros((*numbers.shape[:-1], numbers.shape[-1] + 1))
    functions[..., 0] = 1
    for k in range(numbers.shape[-1]):
        functions[..., 1:] += numbers[..., k, None] * functions[..., :-1]
    return functions


def flips(verdicts: pd.DataFrame) -> pd.DataFrame:
    """Share of an item's comparisons whose verdict flips with the order, items by rewarders.

    Flipped: right in one order and wrong in the other; a tie is neither. NaN where nothing was
    compared in both orders.

    Args:
        verdicts: columns item, rewarder, `order` (positions as "1-0"; empty: none), `credit`.
    """
    ordered = verdicts[verdicts["order"] != ""].dropna(subset=["credit"])
    pair = ordered["order"].map(lambda order: "-".join(sorted(order.split("-"))))
    both = ordered.groupby(["item", "rewarder", pair])["credit"].agg(["size", "min", "max"])
    both = both[both["size"] > 1]
    flipped = ((both["min"] < 0.5) & (both["max"] > 0.5)).astype(float)
    return flipped.groupby(level=["item", "rewarder"]).mean().unstack("rewarder")


# ------------------------------------------------------------------ reliability


def reliability(credit: Floats, level: float) -> Estimate:
    """KR-20 (Kuder and Richardson 1937), or Cronbach's alpha where credits are not 0 or 1.

    Over the items that all rewarders judged, with Feldt's (1965) interval.
    """
    x = _complete(credit)
    items, rewarders = x.shape
    if items < 2 or rewarders < 3:
        return nothing(items)
    total = float(x.sum(axis=0).var(ddof=1))
    if total < FLAT:
        return nothing(items)
    value = items / (items - 1) * (1 - float(x.var(axis=1, ddof=1).sum()) / total)
    df = rewarders - 1, (rewarders - 1) * (items - 1)
    tail = (1 - level) / 2
    low, high = (1 - (1 - value) * special.fdtri(*df, p) for p in (1 - tail, tail))
    return estimate(value, low, high, items, "Feldt")


def judged_enough(credit: Floats) -> NDArray[np.bool_]:
    """(R): rewarders that judged at least half as many items as any other.

    Statistics on common items would otherwise be limited by those that judged the fewest.
    """
    judged = np.isfinite(credit).sum(axis=0)
    return np.asarray(2 * judged >= judged.max(initial=0))


def _complete(credit: Floats) -> Floats:
    """Items that every rewarder judged."""
    return credit[np.isfinite(credit).all(axis=1)]


# ------------------------------------------------------------------ how many items


def distinguished(credit: Floats, draws: Draws, level: float, items: int | None = None) -> float:
    """Share of pairs of rewarders with a significant paired difference after Holm (1979).

    Over the items that all judged. `items`: predicted for so many items, with errors in proportion
    to 1 / √items.
    """
    rows = np.flatnonzero(np.isfinite(credit).all(axis=1))
    x = credit[rows]
    errors = difference_errors(draws.of(rows).means(x).astype(float))
    if items is not None:
        errors = errors * np.sqrt(len(x) / items)
    a, b = np.triu_indices(x.shape[1], 1)
    difference = np.abs(x.mean(axis=0)[a] - x.mean(axis=0)[b])
    error = errors[a, b]
    score = np.where(error > FLAT, difference / np.where(error > FLAT, error, 1), 0.0)
    p_values: list[float | None] = (2 * special.ndtr(-score)).tolist()
    return float(np.mean([p is not None and p < 1 - level for p in holm(p_values)]))


def discordance(credit: Floats) -> float | None:
    """Mean over pairs of rewarders of the squared difference in credit on an item.

    The share of the items on which exactly one of two is right, where credits are 0 or 1.
    """
    a, b = np.triu_indices(credit.shape[1], 1)
    squares = (credit[:, a] - credit[:, b]) ** 2
    known = np.isfinite(squares)
    pairs = known.any(axis=0)
    if not pairs.any():
        return None
    return float((np.nansum(squares, axis=0)[pairs] / known.sum(axis=0)[pairs]).mean())


def items_needed(difference: float, q: float, level: float) -> int:
    """Items needed to distinguish two rewarders of a given difference with 80% power.

    n = (z + z')² (q − d²) / d²: the variance of a paired difference of discordance q (the paired
    form of Connor 1987).
    """
    z = _z(level)
    return int(np.ceil(z * z * max(q - difference**2, 0.0) / difference**2))


def smallest_difference(items: int, q: float, level: float) -> float:
    """Smallest difference that so many items distinguish, the inverse of `items_needed`."""
    z = _z(level)
    return float(z * np.sqrt(q / (items + z * z)))


def needed(q: float, level: float) -> tuple[PairsNeeded, ...]:
    """Tabulate `items_needed` for differences possible with this discordance."""
    return tuple(
        PairsNeeded(difference=d, items=items_needed(d, q, level)) for d in DIFFERENCES if d * d < q
    )


def _z(level: float) -> float:
    return float(special.ndtri((1 + level) / 2) + special.ndtri(POWER))
