"""What rules add up: votes, win rates and strengths, and the shared best of them.

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


def strengths(prefer: Floats, games: Ints, prior: float = 0.5, iterations: int = 500) -> Floats:
    """Bradley-Terry log strengths (Q, M) by minorisation-maximisation (Hunter 2004).

    A tie is half a win each; each judged pair gets `prior` extra wins either way, which keeps
    strengths finite. NaN where the judged pairs do not connect the candidates.
    """
    m = prefer.shape[2]
    diagonal = np.eye(m, dtype=bool)
    compared = ~np.isnan(prefer) & ~diagonal
    count = np.where(compared, np.maximum(games, 1), 0.0)
    wins = np.where(compared, np.nan_to_num(prefer) * count + prior, 0.0).sum(axis=2)
    meetings = np.where(compared, count + 2 * prior, 0.0)
    strength = np.ones(wins.shape)
    active = np.ones(len(wins), dtype=bool)  # a question converges independently of the others
    for _ in range(iterations):
        before = strength[active]
        weight = (meetings[active] / (before[:, :, None] + before[:, None, :])).sum(axis=2)
        new = np.where(weight > 0, wins[active] / np.maximum(weight, 1e-300), 1.0)
        new /= np.exp(np.mean(np.log(new), axis=1, keepdims=True))
        strength[active] = new
        active[active] = np.abs(np.log(new / before)).max(axis=1, initial=0.0) >= 1e-11
        if not active.any():
            break
    reach = np.linalg.matrix_power((compared | diagonal).astype(float), max(m - 1, 1)) > 0
    connected = np.asarray(reach.all(axis=(1, 2)))[:, None]
    logs: Floats = np.where(connected, np.log(strength), np.nan)
    return np.round(logs, 8)


def strongest(prefer: Floats, games: Ints) -> Floats:
    """Choose the largest strength (Q, M); NaN where judged pairs do not connect candidates."""
    parts = [slice(start, start + 256) for start in range(0, len(prefer), 256)]
    chosen = [best_if_complete(strengths(prefer[part], games[part])) for part in parts]
    return np.concatenate(chosen) if chosen else np.zeros(prefer.shape[:2])
