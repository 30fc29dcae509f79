"""A race: round robin that stops once no open comparison can change the choice.

A candidate's points are its preferences over all others, ½ for a tie. An open comparison is worth
between 0 and 1, so points have bounds. A candidate whose upper bound is below another's lower
bound cannot be chosen, alone or in a tie. The rest are contenders; once all of them belong to one
class, so does the choice.

The order of comparisons decides most of the saving: the projected winner (the king) plays the
strongest contender of another class until it is proven or falls.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from bon.choosing.opinion import Bools, Floats, Ints, Opinion

PAIRS = 4
"""Comparisons per round: fewer save calls and take more rounds (docs/measurements/calls.md)."""

SLACK = 1e-6
"""Points closer than this may be tied: more than rounding and `tallies.CLOSE` amount to."""


@dataclass(frozen=True, slots=True)
class EarlyStopping:
    """When a choice among the texts of a question is settled.

    copies: number of candidates with each text key. classes: codes of the text keys; a choice
    within a class makes no difference.
    """

    copies: Mapping[str, int]
    classes: Mapping[str, int]


def bounds(prefer: Floats, copies: Ints | None = None) -> tuple[Floats, Floats]:
    """Bound the points (..., M) under preferences (..., M, M), NaN open.

    `copies` (M): candidates behind each row, which tie with each other.
    """
    weights = np.ones(prefer.shape[-1]) if copies is None else copies.astype(float)
    unknown = np.isnan(prefer)
    low = np.where(unknown, 0.0, prefer) @ weights - 0.5  # less the ½ against itself
    return low, low + unknown @ weights


def contenders(low: Floats, high: Floats) -> Bools:
    """Mark those who may still have the most points, or share them (..., M)."""
    return np.asarray(high >= low.max(axis=-1, keepdims=True) - SLACK)


def settled_choice(opinion: Opinion, gold: Floats) -> Floats:
    """Choice probabilities (Q, M) worth as much as round robin's; NaN where uncertain.

    All contenders share the choice: which of them wins may be open, but they are worth the
    same `gold` (Q, M).
    """
    assert opinion.prefer is not None
    alive = contenders(*bounds(opinion.prefer))
    highest = np.where(alive, gold, -np.inf).max(axis=1)
    sure = highest == np.where(alive, gold, np.inf).min(axis=1)
    share = alive / alive.sum(axis=1, keepdims=True)
    return np.where(sure[:, None], share, np.nan)


def next_matches(
    prefer: Floats, copies: Ints, classes: Ints, pairs: int = PAIRS
) -> list[tuple[int, int]]:
    """Return the next comparisons (a < b) of one question's L texts; none once it is settled.

    Args:
        prefer: (L, L) preferences, NaN open; ties in priority follow the order of the rows.
        copies: (L) candidates with that text.
        classes: (L) classes within which the choice makes no difference.
        pairs: comparisons at once, at most; a quarter as many as texts where there are few, and
            towards the end as many as rivals have excess points.
    """
    pairs = max(1, min(pairs, len(copies) // 4))
    low, high = bounds(prefer, copies)
    alive = contenders(low, high)
    if len(np.unique(classes[alive])) < 2:
        return []
    # Open matches are projected at the share won so far, shrunk towards a half by two matches.
    won = low - 0.5 * (copies - 1)
    played = copies.sum() - copies - (high - low)
    projected = low + (high - low) * (won + 1) / (played + 2)
    king = int(np.argmax(np.where(alive, projected, -np.inf)))
    rival = alive & (classes != classes[king])
    challenger = int(np.argmax(np.where(rival, high + 1e-3 * projected, -np.inf)))
    # A comparison takes about one point from what all rivals together may still reach.
    excess = (high[rival] - low.max()).sum() / copies.mean()
    pairs = min(pairs, max(1, math.ceil(excess)))
    # Against the king: the challenger, rivals, other contenders, the rest. Once all of those have
    # met, the challenger against contenders; then anyone. A fraction prefers strong opponents.
    strength = 0.5 * projected / max(copies.sum(), 1)
    rank = np.add.outer(strength, strength) + 2.0 * np.add.outer(alive, alive)
    row = 64.0 + 32.0 * (np.arange(len(low)) == challenger) + 16.0 * rival + 8.0 * alive + strength
    own = 32.0 + 8.0 * alive + strength
    rank[challenger], rank[:, challenger] = own, own
    rank[king], rank[:, king] = row, row
    rank = np.where(np.isnan(prefer), rank, -np.inf)
    first, second = np.triu_indices(len(low), 1)
    priority = rank[first, second]
    best = np.argsort(-priority, kind="stable")[:pairs]
    best = best[np.isfinite(priority[best])]
    if (priority[best] >= 32).any():
        best = best[priority[best] >= 32]  # only these two, while they have open matches
    return [(int(first[k]), int(second[k])) for k in best]
