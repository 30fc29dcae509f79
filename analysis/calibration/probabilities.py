"""Scores against labels: area under the ROC curve, calibration, maps to probabilities."""

import numpy as np
from scipy import optimize, special

from bon.analysis.calibration.labelled import FOLDS, Labelled
from bon.analysis.calibration.verdict_accuracy import clustered
from bon.analysis.estimators.resampling import (
    Draws,
    clopper_pearson,
    estimate,
    kish,
    nothing,
    wilson,
)
from bon.analysis.results import Estimate
from bon.analysis.results.calibration import Reliability, ReliabilityBin
from bon.choosing.opinion import Floats, Ints

BINS = 10
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


def reliability(votes: Labelled, draws: Draws, level: float) -> tuple[Reliability, ...]:
    """Return the calibration of scores in [0, 1] as they are, and of both maps by cross-fitting."""
    rows = votes.scored
    y = votes.label[rows]
    if rows.sum() < 2 * BINS or not 0 < y.mean() < 1:
        return ()
    maps: dict[str, Floats] = {"raw": votes.score} if votes.is_probability else {}
    maps |= {"platt": cross_fitted(votes, "platt"), "isotonic": cross_fitted(votes, "isotonic")}
    return tuple(reliability_of(votes, p, name, draws, level) for name, p in maps.items())


def reliability_of(
    votes: Labelled, probability: Floats, name: str, draws: Draws, level: float
) -> Reliability:
    """Return the calibration of one probability per vote (V)."""
    rows = votes.scored
    p, y = np.where(rows, probability, 0), np.nan_to_num(votes.label)
    place = bins_of(probability[rows], votes.weight[rows])
    bins = np.zeros(len(p), dtype=np.int64)
    bins[rows] = place
    member = np.eye(BINS)[bins]
    n = votes.num_items(rows)
    blocks = [votes.sums(member * column[:, None], rows) for column in (np.ones(len(p)), p, y)]
    cells = np.concatenate(blocks, axis=1)

    def split(sums: Floats) -> tuple[Floats, Floats, Floats]:
        size, mean, share = sums.reshape(3, BINS, -1)
        with np.errstate(invalid="ignore", divide="ignore"):
            return size, np.nan_to_num(mean / size), np.nan_to_num(share / size)

    def rmsce(sums: Floats) -> Floats:
        size, mean, share = split(sums)
        noise = share * (1 - share) / np.maximum(size - 1, 1)
        total = (size * (np.square(share - mean) - noise)).sum(axis=0) / size.sum(axis=0)
        return np.asarray(np.sqrt(np.maximum(total, 0)))

    size, mean, share = (part[:, 0] for part in split(cells.sum(axis=0)[:, None]))
    return Reliability(
        map=name,
        rmsce=clustered(cells, rmsce, draws, n, level),
        bins=tuple(
            ReliabilityBin(score=m, share=wilson(s * k, round(k), level))
            for k, m, s in zip(size.tolist(), mean.tolist(), share.tolist(), strict=True)
            if round(k)
        ),
    )


def bins_of(probability: Floats, weight: Floats) -> Ints:
    """Return the bin of each probability: ten of equal weight, equal values in one bin."""
    place = np.unique(probability, return_inverse=True)[1]
    mass = np.bincount(place, weights=weight)
    middle = (mass.cumsum() - mass / 2) / mass.sum()
    return np.asarray(np.minimum((middle * BINS).astype(np.int64), BINS - 1)[place])


def cross_fitted(votes: Labelled, name: str) -> Floats:
    """(V): probabilities from a map of the scores that the other folds of clusters fit.

    `platt`: logistic regression (Platt 1999, without his prior counts); `isotonic`: the monotone
    least-squares map (Zadrozny and Elkan 2002). NaN without a score.
    """
    fold, result = votes.folds(), np.full(len(votes.label), np.nan)
    for k in range(FOLDS):
        fit = votes.scored & (fold != k)
        own = (fold == k) & np.isfinite(votes.score)
        y, s, w = votes.label[fit], votes.score[fit], votes.weight[fit]
        if not own.any() or not len(y):
            continue
        result[own] = (platt if name == "platt" else isotonic)(y, s, w, votes.score[own])
    return result


def platt(label: Floats, score: Floats, weight: Floats, at: Floats) -> Floats:
    """Return logistic probabilities at scores; scores are replaced by z-scores for the fit."""
    centre, scale = score.mean(), score.std() or 1.0
    z = (score - centre) / scale
    share = np.clip((weight @ label) / weight.sum(), 1e-6, 1 - 1e-6)

    def loss(beta: Floats) -> float:
        eta = beta[0] + beta[1] * z
        ridge = 1e-6 * float(beta @ beta)  # separable labels have no maximum
        return float(weight @ (np.logaddexp(0, eta) - label * eta)) + ridge

    def slope(beta: Floats) -> Floats:
        rest = weight * (special.expit(beta[0] + beta[1] * z) - label)
        return np.array([rest.sum(), rest @ z]) + 2e-6 * beta

    beta = optimize.minimize(loss, [special.logit(share), 0.0], jac=slope, method="BFGS").x
    return np.asarray(special.expit(beta[0] + beta[1] * (at - centre) / scale))


def isotonic(label: Floats, score: Floats, weight: Floats, at: Floats) -> Floats:
    """Return the isotonic regression of labels on scores, interpolated linearly at scores."""
    values, place = np.unique(score, return_inverse=True)
    mass = np.bincount(place, weights=weight)
    mean = np.bincount(place, weights=weight * label) / mass
    return np.asarray(np.interp(at, values, optimize.isotonic_regression(mean, weights=mass).x))
