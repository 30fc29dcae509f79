"""Agreement of annotators: percent and Krippendorff's alpha.

Ratings are codes (I, A) of items by annotators, −1 missing. Every coefficient is a function of sums
over items, so that its interval comes from resampling items.
"""

import numpy as np

from bon.analysis.estimators.resampling import Draws, first_by_second, of_sums
from bon.analysis.results import Estimate
from bon.choosing.opinion import Floats, Ints

MISSING = -1


def tallies(ratings: Ints) -> Floats:
    """(I, C): number of ratings of each item by code."""
    codes = max(int(ratings.max(initial=MISSING)) + 1, 1)
    return np.stack([(ratings == code).sum(axis=1) for code in range(codes)], axis=1).astype(float)


def percent(ratings: Ints, draws: Draws, level: float) -> Estimate:
    """Share of equal pairs of ratings of one item."""
    counts = tallies(ratings)
    total = counts.sum(axis=1)
    pairs = total * (total - 1) / 2
    same = (counts * (counts - 1) / 2).sum(axis=1)

    n, columns = int((total > 1).sum()), np.stack([same, pairs], axis=1)
    return of_sums(columns, first_by_second, draws, n, "items", level)


def alpha(ratings: Ints, draws: Draws, level: float) -> Estimate:
    """Krippendorff's (2011) alpha for nominal codes, any number of annotators, missing ratings.

    1 − D_o / D_e: disagreement within items against that of any two ratings. Undefined where all
    ratings are equal.
    """
    counts = tallies(ratings)
    total = counts.sum(axis=1, keepdims=True)
    counts = np.where(total > 1, counts, 0.0)  # a single rating is not pairable
    within = (counts * (total - counts)).sum(axis=1) / np.maximum(total[:, 0] - 1, 1)

    def statistic(sums: Floats) -> Floats:
        totals = sums[1:]
        n = totals.sum(axis=0)
        between = (totals * (n - totals)).sum(axis=0) / (n - 1)
        return np.asarray(1 - sums[0] / np.where(between > 0, between, np.nan))

    columns = np.column_stack([within, counts])
    return of_sums(columns, statistic, draws, int((total > 1).sum()), "items", level, False)
