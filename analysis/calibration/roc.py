"""Scores against labels: the area under the ROC curve."""

import numpy as np

from bon.analysis.calibration.labelled import Labelled
from bon.analysis.estimators.resampling import (
    clopper_pearson,
    estimate,
    kish,
    nothing,
)
from bon.analysis.results import Estimate
from bon.choosing.opinion import Floats

FURTHER = 2
"""Clusters of either label that are added to the variance of the AUC."""


def auc(votes: Labelled, level: float) -> Estimate:
    """Return the area under the ROC curve of the scores, ties counted one half.

    Clopper and Pearson's interval at the effective number of items, area (1 − area) / variance. The
    variance is DeLong's (1988), its components summed over clusters (Obuchowski 1997), and two
    further clusters of either label at area (1 − area), its largest value (Birnbaum and Klose
    1957): the few items of a rare label show no spread of their own.
    """
    rows = votes.scored
    y, score, w = votes.label[rows], votes.score[rows], votes.weight[rows]
    right, wrong = (w * y).sum(), (w * (1 - y)).sum()
    n = votes.num_items(rows)
    if not right or not wrong:
        return nothing(n)
    below = _weight_below(score, score, w * (1 - y)) / wrong
    above = 1 - _weight_below(score, score, w * y) / right
    area = float((w * y * below).sum() / right)
    parts = w * (y * (below - area) / right + (1 - y) * (above - area) / wrong)
    clusters, *by_label = (
        np.bincount(votes.cluster[rows], weights=x).astype(float)
        for x in (parts, w * y, w * (1 - y))
    )
    sizes = [kish(each) for each in by_label]
    size, spread = min(sizes), area * (1 - area)
    if spread:
        further = sum(FURTHER * spread / k**2 for k in sizes)
        size = spread / (float(clusters @ clusters) + further)
    low, high = clopper_pearson(area * size, size, level)
    return estimate(area, low, high, n, "DeLong, clustered")


def _weight_below(at: Floats, score: Floats, weight: Floats) -> Floats:
    """Return the weight of scores below each place, equal ones counted one half."""
    values, place = np.unique(score, return_inverse=True)
    mass = np.bincount(place, weights=weight)
    below = mass.cumsum() - mass / 2
    return np.asarray(below[np.searchsorted(values, at)])
