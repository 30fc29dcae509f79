"""The Rasch model of few rewarders and many items, by conditional maximum likelihood.

P(rewarder r is right on item i) = σ(ability_r − difficulty_i). Conditional on the number of right
rewarders the difficulty of an item drops out (Rasch 1960; Andersen 1972), so that abilities are
consistent without assumptions on difficulties. Difficulties follow from the abilities by Warm's
(1989) weighted likelihood, finite where all or none were right.
"""

from dataclasses import dataclass

import numpy as np
from scipy import optimize, special

from bon.choosing.opinion import Bools, Floats

MIN_REWARDERS = 8
STEPS = 100
FAR = 12.0  # logits; beyond this the likelihood has no maximum


@dataclass(frozen=True)
class Abilities:
    """Abilities (R) in logits, mean 0, with `covariance` (R, R), from `items` items."""

    ability: Floats
    covariance: Floats
    items: int

    @property
    def error(self) -> Floats:
        """(R): standard errors."""
        return np.sqrt(np.diag(self.covariance))


def elementary(easiness: Floats) -> Floats:
    """(…, K + 1): elementary symmetric functions of K numbers on the last axis."""
    functions = np.zeros((*easiness.shape[:-1], easiness.shape[-1] + 1))
    functions[..., 0] = 1
    for k in range(easiness.shape[-1]):
        functions[..., 1:] += easiness[..., k, None] * functions[..., :-1]
    return functions


def abilities(right: Floats) -> Abilities | None:
    """Estimate abilities from `right` (I, R): 0, 1, NaN not asked.

    None where the likelihood has no maximum: a group of rewarders is right wherever the others are
    and more (Fischer 1981).
    """
    known = np.isfinite(right)
    total, asked = np.nansum(right, axis=1), known.sum(axis=1)
    right, known = (x[(total > 0) & (total < asked)] for x in (right, known))
    if len(right) == 0:
        return None
    patterns, which = np.unique(known, axis=0, return_inverse=True)
    scores = np.nansum(right, axis=0)
    totals = np.nansum(right, axis=1).astype(int)
    size = right.shape[1]
    counts = [
        np.bincount(totals[which == k], minlength=size + 1).astype(float)
        for k in range(len(patterns))
    ]
    theta = np.zeros(size)
    for _ in range(STEPS):
        expected, information = np.zeros(size), np.zeros((size, size))
        for pattern, by_total in zip(patterns, counts, strict=True):
            mean, covariance = _moments(theta, pattern, by_total)
            expected += mean
            information += covariance
        step = np.linalg.pinv(information, rcond=1e-9, hermitian=True) @ (scores - expected)
        theta = theta + step * min(1.0, 2 / max(np.abs(step).max(), 1e-12))
        theta -= theta.mean()
        if np.abs(theta).max() > FAR:
            return None
        if np.abs(step).max() < 1e-9:
            break
    else:
        return None
    if np.linalg.matrix_rank(information, tol=1e-6 * len(right)) < size - 1:
        return None
    covariance = np.asarray(np.linalg.pinv(information, rcond=1e-9, hermitian=True), dtype=float)
    return Abilities(theta, covariance, len(right))


def _moments(theta: Floats, asked: Bools, by_total: Floats) -> tuple[Floats, Floats]:
    """Return expected scores (R) and their covariance (R, R) over items with these totals."""
    size = len(theta)
    easiness = np.where(asked, np.exp(theta), 0.0)
    without = np.broadcast_to(easiness, (size, size, size)).copy()
    index = np.arange(size)
    without[index, :, index] = 0
    without[:, index, index] = 0
    whole, rest = elementary(easiness), elementary(without)  # rest[r, s] is without both
    totals = np.flatnonzero(by_total)
    weight = by_total[totals] / whole[totals]
    first = easiness * (rest[index, index][:, totals - 1] @ weight)
    pairs = np.where(totals > 1, weight, 0.0)
    both = np.outer(easiness, easiness) * (rest[:, :, totals - 2] @ pairs)
    np.fill_diagonal(both, first)
    chance = easiness[:, None] * rest[index, index][:, totals - 1] / whole[totals]
    return first, both - (chance * by_total[totals]) @ chance.T


def sample(ability: Floats, right: Floats, count: int, rng: np.random.Generator) -> Floats:
    """(count, I, R): draws of `right` given abilities and item totals; NaN stays."""
    size = len(ability)
    known = np.isfinite(right)
    easiness = np.where(known, np.exp(ability), 0.0)
    tails = [elementary(easiness[:, k:]) for k in range(size + 1)]
    remaining = np.broadcast_to(np.nansum(right, axis=1).astype(int), (count, len(right))).copy()
    drawn = np.full((count, len(right), size), np.nan)
    rows = np.arange(len(right))
    for k in range(size):
        weight = tails[k + 1][rows, np.maximum(remaining - 1, 0)] * (remaining > 0)
        weight *= easiness[:, k]
        total = tails[k][rows, remaining]
        hit = rng.random(remaining.shape) * total < weight
        drawn[:, :, k] = np.where(known[:, k], hit, np.nan)
        remaining -= hit & known[:, k]
    return drawn


def difficulties(right: Floats, ability: Floats) -> tuple[Floats, Floats]:
    """Return the difficulty of each item (I) and its standard error (I), given the abilities."""
    known = np.isfinite(right)
    value, error = np.full(len(right), np.nan), np.full(len(right), np.nan)
    cells, which = np.unique(
        np.column_stack([known, np.nansum(right, axis=1)]), axis=0, return_inverse=True
    )
    for k, cell in enumerate(cells):
        theta, total = ability[cell[:-1].astype(bool)], cell[-1]
        if len(theta) == 0:
            continue

        def slope(b: float, theta: Floats = theta, total: float = total) -> float:
            p = special.expit(theta - b)
            spread = p * (1 - p)
            return float(p.sum() - total - (spread @ (1 - 2 * p)) / (2 * spread.sum()))

        b = float(optimize.brentq(slope, theta.min() - 15, theta.max() + 15))
        p = special.expit(theta - b)
        value[which == k], error[which == k] = b, 1 / np.sqrt((p * (1 - p)).sum())
    return value, error


def information(ability: Floats, difficulty: Floats) -> Floats:
    """(A): Fisher information of the items on each ability."""
    p = special.expit(ability[:, None] - difficulty[np.isfinite(difficulty)])
    return np.asarray((p * (1 - p)).sum(axis=1))
