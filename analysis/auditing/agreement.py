"""How far annotators agree: percent, Cohen's kappa, Krippendorff's alpha.

Ratings are codes (I, A): what annotator a said of item i, −1 where nothing. Every coefficient is a
function of sums over items, so its interval comes from resampling items.
"""

from collections.abc import Callable
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from bon.analysis.estimators.resampling import Draws, from_draws
from bon.analysis.results import Estimate

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MISSING = -1


def tallies(ratings: Ints) -> Floats:
    """(I, C): how many annotators said each of the codes of each item."""
    codes = max(int(ratings.max(initial=MISSING)) + 1, 1)
    return np.stack([(ratings == code).sum(axis=1) for code in range(codes)], axis=1).astype(float)


def percent(ratings: Ints, draws: Draws, level: float) -> Estimate:
    """Share of the pairs of answers to one item that are the same."""
    counts = tallies(ratings)
    made = counts.sum(axis=1)
    pairs = made * (made - 1) / 2
    same = (counts * (counts - 1) / 2).sum(axis=1)

    def of(sums: Floats) -> Floats:
        return np.asarray(sums[0] / sums[1])

    return _estimated(
        np.stack([same, pairs], axis=1), of, draws, int((made > 1).sum()), level, share=True
    )


def alpha(ratings: Ints, draws: Draws, level: float) -> Estimate:
    """Krippendorff's alpha for nominal codes; any number of annotators, answers may be missing.

    1 − D_o / D_e (Krippendorff 2011): the disagreement within items against that between any two
    answers. No number where all answers are the same: then nothing could have differed.
    """
    counts = tallies(ratings)
    made = counts.sum(axis=1, keepdims=True)
    counts = np.where(made > 1, counts, 0.0)  # an answer without another says nothing
    within = (counts * (made - counts)).sum(axis=1) / np.maximum(made[:, 0] - 1, 1)

    def of(sums: Floats) -> Floats:
        totals = sums[1:]
        n = totals.sum(axis=0)
        between = (totals * (n - totals)).sum(axis=0) / (n - 1)
        return np.asarray(1 - sums[0] / np.where(between > 0, between, np.nan))

    columns = np.column_stack([within, counts])
    return _estimated(columns, of, draws, int((made > 1).sum()), level)


def kappa(one: Ints, other: Ints, draws: Draws, level: float) -> Estimate:
    """Cohen's kappa (1960) of two annotators (I) each, over the items that both answered."""
    both = (one != MISSING) & (other != MISSING)
    codes = max(int(one.max(initial=MISSING)), int(other.max(initial=MISSING))) + 1
    cells = np.where(both, one * codes + other, 0)
    columns = np.eye(max(codes, 1) ** 2)[cells] * both[:, None]

    def of(sums: Floats) -> Floats:
        table = sums.reshape(codes, codes, -1)
        n = table.sum(axis=(0, 1))
        observed = np.trace(table) / n
        chance = (table.sum(axis=0) * table.sum(axis=1)).sum(axis=0) / (n * n)
        return np.asarray((observed - chance) / np.where(chance < 1, 1 - chance, np.nan))

    return _estimated(columns, of, draws, int(both.sum()), level)


def pairs_of(ratings: Ints) -> list[tuple[int, int]]:
    """Annotators (columns) who share at least two items."""
    known = ratings != MISSING
    return [
        (a, b)
        for a, b in combinations(range(ratings.shape[1]), 2)
        if (known[:, a] & known[:, b]).sum() > 1
    ]


def _estimated(
    columns: Floats,
    of: Callable[[Floats], Floats],
    draws: Draws,
    n: int,
    level: float,
    share: bool = False,
) -> Estimate:
    """A function of sums of columns (I, K), with bounds from the same function of each draw."""
    if n == 0:
        return Estimate(value=None, method="none")
    with np.errstate(invalid="ignore", divide="ignore"):
        value = of(columns.sum(axis=0)[:, None])
        spread = of(draws.sums(columns).astype(float))
    return from_draws(value, spread, n, "items", level, proportion=share)[0]
