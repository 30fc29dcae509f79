"""Within questions: does a rewarder's margin say when its favourite is right?

A benchmark may order rewarders well and yet nothing a rewarder says about a single question need
be worth anything: surrogates are validated on both levels (Buyse, Molenberghs, Burzykowski, Renard
and Geys 2000, Biostatistics 1, 49-67). Between rewarders that is r; within questions it is the area
under the ROC curve of the margin: the chance that the margin is larger where the favourite is right
than where it is wrong (Hanley and McNeil 1982, Radiology 143, 29-36).
"""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from bon.analysis.data.arrays import Pool
from bon.analysis.estimators import resampling
from bon.analysis.estimators.resampling import Draws, estimate
from bon.analysis.results import Margins
from bon.choosing.opinion import Opinion

Floats = NDArray[np.float64]
Floats32 = NDArray[np.float32]
Bools = NDArray[np.bool_]

DRAWS = 1000  # enough for one interval a rewarder
TOGETHER = 48  # questions at a time: few enough to stay in the processor's cache


def counted(draws: Draws) -> Floats32:
    """(Q, 1 + B): each question once, then as often as the first draws hold it, for `margins`."""
    drawn = draws.counts[:DRAWS].T
    return np.concatenate([np.ones((len(drawn), 1), dtype=np.float32), drawn], axis=1)


def margins(
    pool: Pool, said: Opinion, rewarder: str, counts: Floats32, level: float
) -> Margins | None:
    """The area under the curve of one rewarder, or None where it never was right or never wrong.

    Over the questions where a choice matters; questions are resampled (`counts`: see `counted`).
    """
    margin, right = favourite(said, pool)
    margin = np.where(pool.constant, np.nan, margin)
    used = np.isfinite(margin)
    areas = area(margin, right, counts)
    value = float(areas[0])
    if not np.isfinite(value):
        return None
    n = int(used.sum())
    low, high = resampling.quantiles(areas[1:], level, n)
    found = estimate(value, low[0], high[0], n, "questions")
    if low[0] == high[0] == value and value in (0.0, 1.0):  # as sure as its rarer outcome is
        hits = right[used].sum()
        rarer = max(1, round(min(hits, n - hits)))
        found = resampling.sure(value, rarer, n, level)
    return Margins(policy=pool.policy, rewarder=rewarder, area=found)


def favourite(said: Opinion, pool: Pool) -> tuple[Floats, Floats]:
    """Of each question the lead of its favourite over the best other text, and how right it is.

    (Q) each; a favourite that several candidates share is right as often as they are. The lead is
    NaN where nothing, or only one text, was heard of.
    """
    standing = said.standing()
    scores = np.where(np.isnan(standing), -np.inf, standing)
    top = scores.max(axis=1, keepdims=True)
    best = (scores == top) & np.isfinite(top)
    first = np.argmax(best, axis=1)
    local = pool.candidates.local
    other = local != local[np.arange(len(local)), first][:, None]
    with np.errstate(invalid="ignore"):
        margin = top[:, 0] - np.where(other, scores, -np.inf).max(axis=1)
    margin = np.where(np.isfinite(margin), margin, np.nan)
    right = (best * pool.correct).sum(axis=1) / np.maximum(best.sum(axis=1), 1)
    return margin, right


def area(margin: Floats, right: Floats, counts: NDArray[np.floating]) -> Floats:
    """(B): area under the ROC curve with every question counted `counts` (Q, B) times.

    `right` (Q) in [0, 1]: a question counts as right with that weight and as wrong with the rest.
    Equal margins count one half; where a margin is NaN the question is left out. NaN where nothing
    is right, or nothing wrong.
    """
    order = np.argsort(margin, kind="stable")[: int((~np.isnan(margin)).sum())]
    whole = np.isin(right[order], (0, 1)).all()  # sums of whole numbers: exact in single precision
    counts = counts.astype(np.float32 if whole else np.float64, copy=False)
    right = right.astype(counts.dtype)
    new = np.flatnonzero(np.diff(margin[order], prepend=np.nan) != 0)  # equal margins stay together
    edges = np.append(new, len(order))
    edges = np.unique(edges[np.searchsorted(edges, np.arange(0, len(order), TOGETHER))])
    edges = np.append(edges, len(order))
    above, hits, misses = np.zeros((3, counts.shape[1]))
    for start, end in pairwise(edges):
        rows = order[start:end]
        hit, miss = rows[right[rows] > 0], rows[right[rows] < 1]
        won, lost = counts[hit], counts[miss]
        share, rest = right[hit], 1 - right[miss]
        higher = (1 + np.sign(margin[hit, None] - margin[miss])) / 2 * np.outer(share, rest)
        more = share @ won
        above += (won * (higher.astype(counts.dtype) @ lost)).sum(axis=0, dtype=float)
        above += more * misses
        hits += more
        misses += rest @ lost
    total = hits * misses
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(total > 0, above / total, np.nan)
