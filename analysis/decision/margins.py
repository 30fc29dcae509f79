"""Within questions: does a rewarder's margin tell when its favourite is right?

Area under the ROC curve of the margin: the probability that the margin is larger where the
favourite is right than where it is wrong (Hanley and McNeil 1982, Radiology 143, 29-36).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bon.analysis.data.arrays import Pool
from bon.analysis.estimators import resampling
from bon.analysis.estimators.resampling import Draws, Floats32, estimate
from bon.analysis.results import Margins
from bon.choosing.opinion import Floats, Opinion

DRAWS = 1000


def counted(draws: Draws) -> Floats32:
    """Return counts (Q, 1 + B) for `margins`: every question once, then the first draws."""
    drawn = draws.counts[:DRAWS].T
    return np.concatenate([np.ones((len(drawn), 1), dtype=np.float32), drawn], axis=1)


def margins(
    pool: Pool, opinion: Opinion, rewarder: str, counts: Floats32, level: float
) -> Margins | None:
    """Return a rewarder's area over the questions where a choice matters.

    Questions are resampled by `counts`. None if the favourite is always or never right.
    """
    margin, right = favourite(opinion, pool)
    margin = np.where(pool.constant, np.nan, margin)
    used = np.isfinite(margin)
    areas, n = area(margin, right, counts), int(used.sum())
    value = float(areas[0])
    if not np.isfinite(value):
        return None
    low, high = resampling.quantiles(areas[1:], level, n)
    result = estimate(value, low[0], high[0], n, "questions")
    if low[0] == high[0] == value and value in (0.0, 1.0):  # as sure as its rarer outcome is
        hits = right[used].sum()
        result = resampling.sure(value, max(1, round(min(hits, n - hits))), n, level)
    return Margins(policy=pool.policy, rewarder=rewarder, area=result)


def favourite(opinion: Opinion, pool: Pool) -> tuple[Floats, Floats]:
    """Return the lead of each favourite and how right it is: (Q) each (`Opinion.lead`)."""
    margin, best = opinion.lead()
    return margin, (best * pool.correct).sum(axis=1) / np.maximum(best.sum(axis=1), 1)


def area(margin: Floats, right: Floats, counts: NDArray[Any]) -> Floats:
    """Return the area under the ROC curve (B) with questions weighted by `counts` (Q, B).

    `right` (Q) in [0, 1] splits a question into a right and a wrong part; equal margins count one
    half; questions with a NaN margin are left out. NaN if nothing is right, or nothing wrong.
    """
    known = ~np.isnan(margin)
    margin, right, counts = margin[known], right[known], counts[known]
    whole = np.isin(right, (0, 1)).all()  # sums of whole numbers: exact in single precision
    dtype = np.float32 if whole else np.float64
    hit, miss = right > 0, right < 1
    share, rest = right[hit].astype(dtype), 1 - right[miss].astype(dtype)
    won, lost = (share[:, None] * counts[hit]), (rest[:, None] * counts[miss])
    lead: Floats = np.sign(margin[hit, None] - margin[miss])
    above = (won * (((1 + lead) / 2).astype(dtype) @ lost)).sum(axis=0, dtype=float)
    total = won.sum(axis=0, dtype=float) * lost.sum(axis=0, dtype=float)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(total > 0, above / total, np.nan)
