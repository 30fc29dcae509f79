"""The Rasch model of few rewarders and many items, by conditional maximum likelihood.

P(rewarder r is right on item i) = σ(ability_r − difficulty_i). Given how many rewarders were right
on an item, its difficulty drops out (Rasch 1960; Andersen 1972), so abilities are estimated without
supposing anything of the difficulties, and consistently as items grow. Difficulties follow from the
abilities, item by item, by Warm's (1989) weighted likelihood, finite where all or none were right.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

MIN_REWARDERS = 8
MIN_TWO_PARAMETERS = 20
STEPS = 100
FAR = 12.0  # logits; beyond this the likelihood has no maximum


@dataclass(frozen=True)
class Abilities:
    """Of R rewarders: `ability` in logits, mean 0; `covariance` (R, R); from so many items."""

    ability: Floats
    covariance: Floats
    items: int

    @property
    def error(self) -> Floats:
        """(R): standard errors."""
        return np.sqrt(np.diag(self.covariance))


def elementary(easiness: Floats) -> Floats:
    """(…, K + 1): elementary symmetric functions of K numbers on the last axis.

    The t-th is the sum, over all sets of t of the numbers, of their product.
    """
    found = np.zeros((*easiness.shape[:-1], easiness.shape[-1] + 1))
    found[..., 0] = 1
    for k in range(easiness.shape[-1]):
        found[..., 1:] += easiness[..., k, None] * found[..., :-1]
    return found


def abilities(right: Floats) -> Abilities | None:
    """Of rewarders from what they got right: (I, R) of 0, 1, and NaN where one was not asked.

    None where the likelihood has no maximum: a rewarder, or a group of them, is right wherever
    the others are and more (Fischer 1981).
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
        np.bincount(totals[which == at], minlength=size + 1).astype(float)
        for at in range(len(patterns))
    ]
    theta = np.zeros(size)
    for _ in range(STEPS):
        expected, information = np.zeros(size), np.zeros((size, size))
        for asked_of, by_total in zip(patterns, counts, strict=True):
            one, two = _moments(theta, asked_of, by_total)
            expected += one
            information += two
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
    """(R), (R, R): expected scores and their covariance, over items with these totals."""
    size = len(theta)
    easiness = np.where(asked, np.exp(theta), 0.0)
    without = np.broadcast_to(easiness, (size, size, size)).copy()
    place = np.arange(size)
    without[place, :, place] = 0
    without[:, place, place] = 0
    whole, rest = elementary(easiness), elementary(without)  # rest[r, s] is without both
    totals = np.flatnonzero(by_total)
    weight = by_total[totals] / whole[totals]
    first = easiness * (rest[place, place][:, totals - 1] @ weight)
    pairs = np.where(totals > 1, weight, 0.0)
    both = np.outer(easiness, easiness) * (rest[:, :, totals - 2] @ pairs)
    np.fill_diagonal(both, first)
    chance = easiness[:, None] * rest[place, place][:, totals - 1] / whole[totals]
    return first, both - (chance * by_total[totals]) @ chance.T


def sample(ability: Floats, right: Floats, count: int, rng: np.random.Generator) -> Floats:
    """(count, I, R): what rewarders of these abilities might get right, each item's total kept.

    Exact draws from the conditional distribution; NaN stays where a rewarder was not asked.
    """
    size = len(ability)
    known = np.isfinite(right)
    easiness = np.where(known, np.exp(ability), 0.0)
    tails = [elementary(easiness[:, k:]) for k in range(size + 1)]
    left = np.broadcast_to(np.nansum(right, axis=1).astype(int), (count, len(right))).copy()
    drawn = np.full((count, len(right), size), np.nan)
    rows = np.arange(len(right))
    for k in range(size):
        taken = tails[k + 1][rows, np.maximum(left - 1, 0)] * (left > 0)
        taken *= easiness[:, k]
        whole = np.zeros_like(taken)
        np.copyto(whole, tails[k][rows, left])
        hit = rng.random(left.shape) * whole < taken
        drawn[:, :, k] = np.where(known[:, k], hit, np.nan)
        left -= hit & known[:, k]
    return drawn


def difficulties(right: Floats, ability: Floats) -> tuple[Floats, Floats]:
    """(I), (I): difficulty of each item and its standard error, given the abilities."""
    known = np.isfinite(right)
    value, error = np.full(len(right), np.nan), np.full(len(right), np.nan)
    cells, which = np.unique(
        np.column_stack([known, np.nansum(right, axis=1)]), axis=0, return_inverse=True
    )
    for at, cell in enumerate(cells):
        theta, total = ability[cell[:-1].astype(bool)], cell[-1]
        if len(theta) == 0:
            continue

        def slope(b: float, theta: Floats = theta, total: float = total) -> float:
            p = special.expit(theta - b)
            spread = p * (1 - p)
            return float(p.sum() - total - (spread @ (1 - 2 * p)) / (2 * spread.sum()))

        b = float(optimize.brentq(slope, theta.min() - 15, theta.max() + 15))
        p = special.expit(theta - b)
        value[which == at], error[which == at] = b, 1 / np.sqrt((p * (1 - p)).sum())
    return value, error


def information(at: Floats, difficulty: Floats) -> Floats:
    """(A): how much the items tell of a rewarder of each ability; its error is 1 / √ of it."""
    p = special.expit(at[:, None] - difficulty[np.isfinite(difficulty)])
    return np.asarray((p * (1 - p)).sum(axis=1))
