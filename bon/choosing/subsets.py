"""Expected accuracy of a choice among n of M candidates, for every n at once.

Arrays are (Q, M): questions by candidates. `gold` is the value of choosing a candidate: its
credit from 0 to 1, or any indicator. Results are (Q, N), a column for each of `ns`, by default
1 to M: averages over all C(M, n) subsets of n candidates (uniform, without replacement) and over
ties.

Sources: pass@n, Chen et al. 2021 (arXiv 2107.03374); best-of-n, Nakano et al. 2021 (arXiv
2112.09332) with the weights of tied candidates added up.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from bon.choosing.opinion import Floats, Ints
from bon.choosing.tallies import tied_best

EXACT_SIZE = 10
"""Largest pool replayed over all its 2^M subsets."""

_CHUNK = 400_000  # numbers at once: more leave the cache


@lru_cache(maxsize=64)
def position_weights(size: int) -> Floats:
    """(N, M): chance that the best of n has ascending rank i + 1 of M, C(i, n−1)/C(M, n).

    By downward recursion from n/M at the top, all factors in [0, 1]: stable for any M.
    """
    weights: Floats = np.zeros((size, size))
    for n in range(1, size + 1):
        weights[n - 1, size - 1] = n / size
        for i in range(size - 1, n - 1, -1):
            weights[n - 1, i - 1] = weights[n - 1, i] * (i - n + 1) / i
    return weights


def pass_at_n(correct: Floats, ns: Sequence[int] | None = None) -> Floats:
    """(Q, N): expected highest credit among n candidates; of right and wrong ones, pass@n."""
    return best_of_n(correct, correct, ns)


def best_of_n(scores: Floats, gold: Floats, ns: Sequence[int] | None = None) -> Floats:
    """(Q, N): gold of the highest score of n, ties shared; a missing score is lowest."""
    filled = np.where(np.isnan(scores), -np.inf, scores)
    order = np.argsort(filled, axis=1)
    ranked = np.take_along_axis(filled, order, axis=1)
    new = np.ones(ranked.shape, dtype=bool)
    new[:, 1:] = ranked[:, 1:] != ranked[:, :-1]
    value = np.take_along_axis(gold, order, axis=1)
    if not new.all():  # tied candidates are worth their mean at each of their positions
        group = new.cumsum().reshape(new.shape) - 1
        count = np.bincount(group.ravel())
        value = (np.bincount(group.ravel(), value.ravel()) / count)[group]
    weights = position_weights(scores.shape[1])
    return value @ (weights if ns is None else weights[np.array(ns) - 1]).T


# ------------------------------------------------------------------ over all subsets


def masks_for(size: int, ns: tuple[int, ...], subsets: int, seed: int) -> tuple[Floats, Floats]:
    """Return subsets to replay and the matrix that averages them by n: all of them, or a sample.

    Sampled subsets are prefixes of random orders, the same for all questions: candidates of a
    question are exchangeable. Those of one candidate and of all are never sampled.
    """
    if size <= EXACT_SIZE:
        masks = ((np.arange(1, 2**size)[:, None] >> np.arange(size)) & 1).astype(float)
        masks = masks[np.isin(masks.sum(axis=1), ns)]
    else:
        rng = np.random.default_rng([seed, size, subsets])
        rank = np.argsort(rng.random((subsets, size)), axis=1).argsort(axis=1)
        every = {1: np.eye(size), size: np.ones((1, size))}
        masks = np.concatenate([every.get(n, rank < n) for n in ns]).astype(float)
    average = (masks.sum(axis=1)[:, None] == np.array(ns)).astype(float)
    return masks, average / average.sum(axis=0)


def vote_values(
    answers: Ints, weights: Floats, gold: Floats, masks: Floats, average: Floats
) -> Floats:
    """Replay a weighted vote on subsets: (Q, N). `weights` (Q, M), ≥ 0."""
    weights = np.nan_to_num(weights)[:, None]

    def totals(part: slice, who: Floats) -> Floats:
        return np.tensordot(who * weights[part], masks, (2, 1))  # one product, not one a question

    return _replay_votes(answers, totals, gold, masks, average)


def rate_vote_values(
    answers: Ints, prefer: Floats, gold: Floats, masks: Floats, average: Floats
) -> Floats:
    """Replay a vote weighted by the win rate within the subset: (Q, N)."""
    others = np.maximum(masks.sum(axis=1) - 1, 1)

    def totals(part: slice, who: Floats) -> Floats:
        wins = prefer[part] @ masks.T - 0.5  # (q, M, S)
        return who @ np.where(masks.T > 0, np.maximum(wins, 0) / others, 0.0)

    return _replay_votes(answers, totals, gold, masks, average)


def round_robin_values(prefer: Floats, gold: Floats, masks: Floats, average: Floats) -> Floats:
    """Replay the highest win rate on subsets: (Q, N). `prefer` has no NaN."""
    results = np.empty((len(prefer), average.shape[1]))
    for part in _chunks(len(prefer), len(masks) * prefer.shape[1]):
        rates = np.swapaxes(prefer[part] @ masks.T, 1, 2)  # (q, S, M) wins plus own half
        chosen = tied_best(rates, masks > 0)
        results[part] = np.einsum("qsm,qm->qs", chosen, gold[part]) @ average
    return results


def _chunks(size: int, width: int) -> list[slice]:
    """Cut `size` rows of `width` numbers into parts that fit into memory."""
    step = max(1, _CHUNK // width)
    return [slice(start, start + step) for start in range(0, size, step)]


def _replay_votes(
    answers: Ints,
    totals_of: Callable[[slice, Floats], Floats],
    gold: Floats,
    masks: Floats,
    average: Floats,
) -> Floats:
    """Average the gold of the leading answers, ties shared, over subsets by n.

    `totals_of`: the votes (q, A, S) of each answer in each subset, for some of the questions and
    who gave which answer there (q, A, M). A subset without any vote is a random choice of its
    candidates. All answers without weight lead where none has any; only there, and where the gold
    of an answer differs between its candidates, it is counted who is in which subset.
    """
    (q, m), kinds = answers.shape, np.arange(int(answers.max(initial=0)) + 1)
    results = np.empty((q, average.shape[1]))
    for part in _chunks(q, len(masks) * max(len(kinds), m)):
        who = (answers[part, None] == kinds[:, None]).astype(float)
        value = who * gold[part, None]
        worth = value.max(axis=-1, keepdims=True)
        totals = totals_of(part, who)
        top = totals.max(axis=1, keepdims=True)
        leads = (totals >= top * (1 - 1e-9)).astype(float)
        tallies = np.concatenate([np.ones_like(worth), worth], axis=-1)
        number, total = np.moveaxis(tallies.transpose(0, 2, 1) @ leads, 1, 0)
        unclear = (top <= 0).any(axis=(1, 2)) | (value != who * worth).any(axis=(1, 2))
        if unclear.any():
            present = who[unclear] @ masks.T
            leading = leads[unclear] * (present > 0)
            number[unclear] = leading.sum(axis=1)
            mean = value[unclear] @ masks.T / np.maximum(present, 1)
            total[unclear] = (leading * mean).sum(axis=1)
            alone = number[unclear] == 0
            number[unclear] += alone
            total[unclear] += alone * (gold[part][unclear] @ masks.T / masks.sum(axis=1))
        results[part] = total / number @ average
    return results
