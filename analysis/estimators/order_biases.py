"""Consistency and position bias of comparisons of candidates."""

from dataclasses import dataclass

import numpy as np

from bon.analysis.data.arrays import Judged
from bon.analysis.estimators.resampling import Draws, from_draws
from bon.analysis.results import Estimate
from bon.choosing.opinion import OUTCOMES, Floats, Ints

_LEAN = {"first": 1.0, "tie": 0.0, "second": -1.0}


@dataclass(frozen=True)
class OrderBiases:
    """Share of pairs with the same winner in both orders; (first − second) / decided votes."""

    consistency: Estimate | None
    position: Estimate | None


def order_biases(judged: Judged, draws: Draws, level: float) -> OrderBiases:
    """Estimate both biases, with questions resampled; None without comparisons."""
    compared = np.flatnonzero(judged.second >= 0)
    value = np.array([_LEAN.get(name, np.nan) for name in OUTCOMES])[judged.outcome[compared]]
    rows, value = compared[~np.isnan(value)], value[~np.isnan(value)]
    item = judged.item[rows]
    first, second = judged.first[rows], judged.second[rows]
    size = int(max(first.max(initial=0), second.max(initial=0))) + 1
    pair = (item * size + np.minimum(first, second)) * size + np.maximum(first, second)
    names, index = np.unique(pair, return_inverse=True)
    turned = (first > second).astype(np.int64)
    cell = turned * len(names) + index
    lean = np.bincount(cell, np.where(turned, -value, value), 2 * len(names)).reshape(2, -1)
    count = np.bincount(cell, minlength=2 * len(names)).reshape(2, -1)
    both = (count > 0).all(axis=0)
    same = both & (np.sign(lean[0]) == np.sign(lean[1]))
    question = names // (size * size)

    def ratio(num: Floats, den: Floats, question: Ints, share: bool) -> Estimate | None:
        questions = len(draws.counts)
        columns = [np.bincount(question, x, questions) for x in (num, den)]
        sums = np.stack(columns, axis=1).astype(float)
        if not sums[:, 1].sum():
            return None
        drawn = draws.sums(sums)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = np.array([sums[:, 0].sum() / sums[:, 1].sum()])
            spread = drawn[[0]] / drawn[[1]]
        n = int((sums[:, 1] > 0).sum())
        return from_draws(mean, spread, n, "questions", level, proportion=share)[0]

    decided = (value != 0).astype(float)
    return OrderBiases(
        ratio(same.astype(float), both.astype(float), question, share=True),
        ratio(value, decided, item, share=False),
    )
