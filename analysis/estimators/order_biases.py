"""How much the order shown decides, where a rewarder compared candidates."""

from dataclasses import dataclass

import numpy as np

from bon.analysis.data.arrays import Judged
from bon.analysis.estimators.resampling import Draws, from_draws
from bon.analysis.results import Estimate
from bon.choosing.opinion import OUTCOMES

_WORTH = {"first": 1.0, "tie": 0.0, "second": -1.0}


@dataclass(frozen=True)
class OrderBiases:
    """Share of comparisons with the same winner in both orders; (first − second) / decided."""

    consistency: Estimate | None
    position: Estimate | None


def order_biases(judged: Judged, draws: Draws, level: float) -> OrderBiases:
    """Of comparisons of candidates, with questions resampled; None where there are none."""
    compared = np.flatnonzero(judged.second >= 0)
    worth = np.array([_WORTH.get(name, np.nan) for name in OUTCOMES])[judged.outcome[compared]]
    rows, worth = compared[~np.isnan(worth)], worth[~np.isnan(worth)]
    item = judged.item[rows]
    first, second = judged.first[rows], judged.second[rows]
    size = int(max(first.max(initial=0), second.max(initial=0))) + 1
    two = (item * size + np.minimum(first, second)) * size + np.maximum(first, second)
    names, at = np.unique(two, return_inverse=True)
    turned = (first > second).astype(np.int64)
    cell = turned * len(names) + at
    lean = np.bincount(cell, np.where(turned, -worth, worth), 2 * len(names)).reshape(2, -1)
    made = np.bincount(cell, minlength=2 * len(names)).reshape(2, -1)
    both = (made > 0).all(axis=0)
    same = both & (np.sign(lean[0]) == np.sign(lean[1]))
    where = names // (size * size)

    def ratio(top: np.ndarray, of: np.ndarray, by: np.ndarray, share: bool) -> Estimate | None:
        questions = draws.counts.shape[1]
        sums = np.stack(
            [np.bincount(by, each, questions).astype(float) for each in (top, of)], axis=1
        )
        if not sums[:, 1].sum():
            return None
        drawn = draws.sums(sums)
        with np.errstate(invalid="ignore", divide="ignore"):
            value = np.array([sums[:, 0].sum() / sums[:, 1].sum()])
            spread = drawn[[0]] / drawn[[1]]
        n = int((sums[:, 1] > 0).sum())
        return from_draws(value, spread, n, "questions", level, proportion=share)[0]

    decided = (worth != 0).astype(float)
    return OrderBiases(
        ratio(same.astype(float), both.astype(float), where, share=True),
        ratio(worth, decided, item, share=False),
    )
