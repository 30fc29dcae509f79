"""The Rasch model of few rewarders and many items, by conditional maximum likelihood.

P(rewarder r is right on item i) = σ(ability_r − difficulty_i). Conditional on the number of right
rewarders the difficulty of an item drops out (Rasch 1960; Andersen 1972), so that abilities are
consistent without assumptions on difficulties.
"""

import numpy as np

from bon.choosing.opinion import Bools, Floats

MIN_REWARDERS = 8
STEPS = 100
FAR = 12.0  # logits; beyond this the likelihood has no maximum


def elementary(easiness: Floats) -> Floats:
    """(…, K + 1): elementary symmetric functions of K numbers on the last axis."""
    functions = np.zeros((*easiness.shape[:-1], easiness.shape[-1] + 1))
    functions[..., 0] = 1
    for k in range(easiness.shape[-1]):
        functions[..., 1:] += easiness[..., k, None] * functions[..., :-1]
    return functions


def abilities(right: Floats) -> Floats | None:
    """Estimate abilities (R) in logits, mean 0, from `right` (I, R): 0, 1, NaN not asked.

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
    return np.asarray(theta, dtype=float)


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
