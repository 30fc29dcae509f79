"""What rules add up: votes and win rates, and the shared best of them.

Pure functions over arrays (Q, M). Ties share the choice probability.
"""

import numpy as np

from bon.choosing.opinion import Bools, Floats, Ints

CLOSE = 1e-9  # totals closer than this are tied: sums of thirds differ in their last bits


def tied_best(values: Floats, allowed: Bools | None = None) -> Floats:
    """Choose uniformly among the largest values (..., M) within `allowed` (..., M).

    NaN is never the best, unless all are NaN.
    """
    if allowed is None:
        allowed = np.ones(values.shape, dtype=bool)
    values, allowed = np.broadcast_arrays(values, allowed)
    usable = np.where(allowed & ~np.isnan(values), values, -np.inf)
    top = usable.max(axis=-1, keepdims=True)
    with np.errstate(invalid="ignore"):
        best = np.where(np.isfinite(top), usable >= top - CLOSE, True) & allowed
    chosen: Floats = best / best.sum(axis=-1, keepdims=True)
    return chosen


def best_if_complete(values: Floats) -> Floats:
    """Return `tied_best`, or NaN for questions in which a candidate has no value."""
    complete = np.asarray(~np.isnan(values).any(axis=1, keepdims=True))
    return np.where(complete, tied_best(values), np.nan)


def weighted_vote(answers: Ints, weights: Floats) -> Floats:
    """Choose the answer with the largest sum of weights (Q, M), ≥ 0; NaN weighs 0.

    Candidates without an answer do not vote. The candidates of an answer share its probability.
    """
    weights = np.nan_to_num(weights, nan=0.0)
    assert not (weights < 0).any()
    voting = answers >= 0
    same = (answers[:, :, None] == answers[:, None, :]) & voting[:, None, :]
    totals = np.where(same, weights[:, None, :], 0.0).sum(axis=-1)
    totals = np.where(voting, totals, -np.inf)
    top = totals.max(axis=-1, keepdims=True)
    slack = CLOSE * np.where(np.isfinite(top), np.maximum(top, 1e-300), 0.0)
    with np.errstate(invalid="ignore"):
        leads = np.where(np.isfinite(top), totals >= top - slack, True)
    share = leads / np.maximum(same.sum(axis=-1), 1)
    return np.asarray(share / share.sum(axis=-1, keepdims=True))


def vote_weights(scores: Floats, scale: float) -> Floats:
    """Softmax of scores (Q, M) in units of `scale`; a missing score weighs 0.

    Only ratios of weights count, so that weights do not depend on the other candidates of a
    pool and every n can be replayed.
    """
    known = ~np.isnan(scores)
    with np.errstate(invalid="ignore"):
        top = np.where(known, scores, -np.inf).max(axis=-1, keepdims=True)
        weights = np.exp((scores - np.where(np.isfinite(top), top, 0.0)) / scale)
    return np.where(known, weights, 0.0)


def win_rate(prefer: Floats) -> Floats:
    """Mean preference over the other candidates (Q, M); NaN where a comparison is missing."""
    return np.asarray((prefer.sum(axis=2) - 0.5) / max(prefer.shape[2] - 1, 1))  # ½ on the diagonal


def beaten(prefer: Floats) -> Floats:
    """1 where i is preferred to j by more than half of the votes, ½ by half; NaN stays."""
    return np.asarray((np.sign(prefer - 0.5) + 1) / 2)
