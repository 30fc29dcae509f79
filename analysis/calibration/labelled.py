"""Verdicts beside labels, as arrays of one rewarder."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from bon.analysis.estimators.resampling import Draws, draw, folds_of
from bon.choosing.opinion import Bools, Floats, Ints

COLUMNS = (
    "rewarder",
    "kind",
    "item",
    "cluster",
    "category",
    "label",
    "verdict",
    "score",
    "vote",
    "length",
    "cost",
    "probability",
    "text",
    "other",
)
"""One row per vote.

`kind`: answers or pairs; `label`: 1 right, 0 wrong, NaN unknown (pairs: whether the response shown
first is the better one); `verdict`: 1, 0, .5 for a tie, NaN if unparsed or only a score was given;
`score`: any scale, higher is better; `cluster`: items that are resampled together; `length`: any
unit (pairs: first minus second); `probability`: with which the item was drawn to be labelled;
`text`, `other`: of the response, and of the one shown second in a pair.
"""

FOLDS = 5


@dataclass(frozen=True)
class Labelled:
    """V votes of one rewarder, sorted by cluster; `weight` sums to one over an item's votes.

    `item`, `cluster`: codes. `verdict` is never NaN: an unparsed one is wrong where there is a
    label, else .5.
    """

    frame: pd.DataFrame
    label: Floats
    verdict: Floats
    score: Floats
    weight: Floats
    item: Ints
    cluster: Ints
    unparsed: Bools
    threshold: float | None
    cross_fitted: bool

    @property
    def known(self) -> Bools:
        """Votes on labelled items."""
        return np.isfinite(self.label)

    @property
    def scored(self) -> Bools:
        """Votes with a score on labelled items."""
        return self.known & np.isfinite(self.score)

    def sums(self, columns: Floats, rows: Bools) -> Floats:
        """(C, K): weighted sums of columns (V, K) over some rows by cluster."""
        values = np.where(rows[:, None], columns * self.weight[:, None], 0.0)
        total = np.zeros((int(self.cluster.max(initial=-1)) + 1, columns.shape[1]))
        np.add.at(total, self.cluster, values)
        return total

    def num_items(self, rows: Bools) -> int:
        """Number of distinct items among some rows."""
        return int(np.count_nonzero(np.bincount(self.item[rows])))

    def draws(self, seed: int, count: int) -> Draws:
        """Bootstrap draws of the clusters."""
        return draw(int(self.cluster.max(initial=-1)) + 1, count, seed, "calibration")


def by_rewarder(frame: pd.DataFrame, threshold: float | None = None) -> Iterator[Labelled]:
    """Yield the votes of each rewarder and kind (columns: `COLUMNS`).

    Without verdicts, scores from the threshold on are positive: .5 for scores in [0, 1]; otherwise
    the one with the largest TPR + TNR (Youden 1950) on the other folds of clusters. Differences of
    a pair's scores have the threshold 0.
    """
    frame = frame.assign(_fold=folds_of(frame["cluster"], FOLDS))
    for (_, kind), part in frame.groupby(["rewarder", "kind"], sort=False, observed=True):
        part = part.sort_values("cluster", kind="stable").reset_index(drop=True)
        label, score, verdict = (
            part[name].to_numpy(dtype=float) for name in ("label", "score", "verdict")
        )
        weight = 1 / part.groupby("item")["item"].transform("size").to_numpy(dtype=float)
        weight = weight / part["probability"].fillna(1.0).to_numpy(dtype=float)
        cut = threshold
        if cut is None and kind == "pairs":
            cut = 0.0
        finite = score[np.isfinite(score)]
        if cut is None and len(finite) and finite.min() >= 0 and finite.max() <= 1:
            cut = 0.5
        missing = np.isnan(verdict) & np.isfinite(score)
        if cut is not None:
            verdict = np.where(missing, _positive(score, cut, tied=kind == "pairs"), verdict)
        elif missing.any():
            verdict = np.where(missing, _cross_fitted(label, score, weight, part["_fold"]), verdict)
        unparsed = np.isnan(verdict)
        wrong = np.where(np.isnan(label), 0.5, 1 - label)
        yield Labelled(
            part,
            label,
            np.where(unparsed, wrong, verdict),
            score,
            weight,
            pd.factorize(part["item"])[0].astype(np.int64),
            pd.factorize(part["cluster"])[0].astype(np.int64),
            unparsed,
            cut if missing.any() else None,
            bool(missing.any()) and cut is None,
        )


def _positive(score: Floats, cut: float, tied: bool) -> Floats:
    return np.where(tied & (score == cut), 0.5, (score >= cut).astype(float))


def _cross_fitted(label: Floats, score: Floats, weight: Floats, fold: "pd.Series[int]") -> Floats:
    """(V): verdicts by the threshold that the other folds choose."""
    verdict = np.full(len(score), np.nan)
    for k in range(FOLDS):
        own = (fold == k).to_numpy()
        known = ~own & np.isfinite(label) & np.isfinite(score)
        cut = youden(label[known], score[known], weight[known])
        verdict[own] = np.where(np.isnan(score[own]), np.nan, score[own] >= cut)
    return verdict


def youden(label: Floats, score: Floats, weight: Floats) -> float:
    """Return the threshold with the largest TPR + TNR; 0 without labels of both kinds."""
    if not (0 < label.mean() < 1 if len(label) else False):
        return 0.0
    values, place = np.unique(score, return_inverse=True)
    right = np.bincount(place, weights=label * weight)[::-1].cumsum()[::-1]
    wrong = np.bincount(place, weights=(1 - label) * weight)[::-1].cumsum()[::-1]
    return float(values[np.argmax(right / right[0] - wrong / wrong[0])])
