"""Consistency, position bias and components of variance of comparisons of candidates."""

from dataclasses import dataclass

import numpy as np

from bon.analysis.data.arrays import Judged
from bon.analysis.estimators.resampling import Draws, from_draws
from bon.analysis.results import Estimate, VarianceComponents
from bon.choosing.opinion import OUTCOMES, Floats, Ints

_LEAN = {"first": 1.0, "tie": 0.0, "second": -1.0}


@dataclass(frozen=True)
class OrderBiases:
    """Share of pairs with the same winner in both orders; (first − second) / decided votes.

    `variance`: of one verdict on a right and a wrong candidate.
    """

    consistency: Estimate | None
    position: Estimate | None
    variance: VarianceComponents | None = None


def order_biases(
    judged: Judged, draws: Draws, level: float, right: Floats | None = None
) -> OrderBiases:
    """Estimate both biases, with questions resampled; None without comparisons.

    right: 1, 0 or NaN for every response of the run, for the components of variance.
    """
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
        questions = draws.counts.shape[1]
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

    variance = None
    if right is not None:
        gold = np.isfinite(right[first] + right[second]) & (right[first] != right[second])
        win = np.where(right[first] > right[second], 1 + value, 1 - value)[gold] / 2
        codes = (item[gold], index[gold], 2 * index[gold] + turned[gold])
        variance = variance_components(win, codes, draws, level)
    decided = (value != 0).astype(float)
    return OrderBiases(
        ratio(same.astype(float), both.astype(float), question, share=True),
        ratio(value, decided, item, share=False),
        variance,
    )


def variance_components(
    value: Floats, codes: tuple[Ints, Ints, Ints], draws: Draws, level: float
) -> VarianceComponents | None:
    """Split the variance of single verdicts (V) by question, candidates, order and vote.

    Random effects nested in this order (Searle, Casella and McCulloch 1992): the covariance of two
    verdicts that share a level, less that of two that share only the level above. The two orders
    of a pair are all that there are (a fixed effect): its mean over both is the pair's, and what
    lies between them the order's. `codes`: of the question, its pair of candidates, and the order.
    Without a second vote its component is zero and part of the order's; without a second order
    that is zero and part of the pair's. None where a question or a pair of it is never compared
    with another.
    """
    questions = draws.counts.shape[1]
    question = codes[0]
    columns = [np.bincount(question, value, questions), np.bincount(question, None, questions)]
    for code in (*codes, np.arange(len(value))):
        _, at, group = np.unique(code, return_index=True, return_inverse=True)
        for sums in (np.bincount(group, value), np.bincount(group)):
            columns.append(np.bincount(question[at], sums**2, questions))
    table = np.stack(columns, axis=1).astype(float)

    def split(t: Floats) -> Floats:
        """(5): total, then the components as shares of it, of sums (10)."""
        squares, counts = (np.stack([t[k] ** 2, *t[k + 2 :: 2]]) for k in (0, 1))
        with np.errstate(invalid="ignore", divide="ignore"):
            shared = (squares[:-1] - squares[1:]) / (counts[:-1] - counts[1:])
            shared = np.concatenate([shared, (squares[-1] / counts[-1])[None]])
        for k in (3, 2):  # without a second vote, or order, the level is one with the next
            shared[k] = np.where(np.isfinite(shared[k]), shared[k], shared[k + 1])
        shared[2] = (shared[2] + shared[3]) / 2
        total = shared[4] - shared[0]
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.concatenate([total[None], np.diff(shared, axis=0) / total])

    values = split(table.sum(axis=0)[:, None])[:, 0]
    if not np.isfinite(values).all():
        return None
    drawn = split(draws.sums(table).astype(float))
    n = int(np.count_nonzero(table[:, 1]))
    names = ("total", "question", "candidates", "order", "vote")
    estimates = from_draws(values, drawn, n, "questions", level, proportion=False)
    return VarianceComponents(**dict(zip(names, estimates, strict=True)))
