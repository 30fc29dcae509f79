"""Agreement of annotators: percent and Krippendorff's alpha.

Both are functions of sums over items, so that their intervals come from resampling items.
"""

import numpy as np

from bon.analysis.estimators.resampling import Draws, first_by_second, of_sums
from bon.analysis.results import Estimate
from bon.choosing.opinion import Floats, Ints

MISSING = -1


def agreement(ratings: Ints, draws: Draws, level: float) -> tuple[Estimate, Estimate]:
    """Return the share of equal pairs of ratings of one item, and Krippendorff's (2011) alpha.

    ratings: nominal codes (I, A) of items by annotators, `MISSING` where there is none. Alpha is
    1 − D_o / D_e, the disagreement within items against that of any two ratings; it is undefined
    where all ratings are equal.
    """
    codes = range(max(int(ratings.max(initial=MISSING)) + 1, 1))
    counts = np.stack([(ratings == code).sum(axis=1) for code in codes], axis=1).astype(float)
    counts[counts.sum(axis=1) < 2] = 0  # a single rating is not pairable
    total = counts.sum(axis=1)
    equal = (counts * (counts - 1)).sum(axis=1)
    within = (total * (total - 1) - equal) / np.maximum(total - 1, 1)
    n = int((total > 1).sum())

    def alpha(sums: Floats) -> Floats:
        totals = sums[1:]
        ratings = totals.sum(axis=0)
        between = (totals * (ratings - totals)).sum(axis=0) / (ratings - 1)
        return np.asarray(1 - sums[0] / np.where(between > 0, between, np.nan))

    pairs = np.stack([equal, total * (total - 1)], axis=1)
    shares = of_sums(pairs, first_by_second, draws, n, "items", level)
    columns = np.column_stack([within, counts])
    return shares, of_sums(columns, alpha, draws, n, "items", level, False)
