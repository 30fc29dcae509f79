"""Expected accuracy of a choice among n of M candidates, for every n at once.

Arrays are (Q, M): questions by candidates. `gold` is the value of choosing a candidate: its
credit from 0 to 1, or any indicator. Results are (Q, N), a column for each of `ns`, by default
1 to M: averages over all C(M, n) subsets of n candidates (uniform, without replacement) and over
ties.

Sources: pass@n, Chen et al. 2021 (arXiv 2107.03374); best-of-n, Nakano et al. 2021 (arXiv
2112.09332) with the weights of tied candidates added up.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from bon.choosing.opinion import Floats, Ints
from bon.choosing.tallies import tied_best

EXACT_SIZE = 10
"""Largest pool replayed over all its 2^M subsets."""

_CHUNK = 4_000_000  # numbers in memory at once


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
    question are exchangeable.
    """
    if size <= EXACT_SIZE:
        masks = ((np.arange(1, 2**size)[:, None] >> np.arange(size)) & 1).astype(float)
        masks = masks[np.isin(masks.sum(axis=1), ns)]
        average = (masks.sum(axis=1)[:, None] == np.array(ns)).astype(float)
        return masks, average / average.sum(axis=0)
    rng = np.random.default_rng([seed, size, subsets])
    rank = np.argsort(rng.random((subsets, size)), axis=1).argsort(axis=1)
    masks = np.concatenate([rank < n for n in ns]).astype(float)
    average = np.kron(np.eye(len(ns)), np.full((subsets, 1), 1 / subsets))
    return masks, average


def vote_values(
    answers: Ints, weights: Floats, gold: Floats, masks: Floats, average: Floats
) -> Floats:
    """Replay a weighted vote on subsets: (Q, N). `weights` (Q, M), ≥ 0."""
    ballots = _ballots(answers)
    cast = ballots * np.nan_to_num(weights)
    return _replay_votes(ballots, lambda part: cast[:, part] @ masks.T, gold, masks, average)


def rate_vote_values(
    answers: Ints, prefer: Floats, gold: Floats, masks: Floats, average: Floats
) -> Floats:
    """Replay a vote weighted by the win rate within the subset: (Q, N)."""
    ballots = _ballots(answers)
    others = np.maximum(masks.sum(axis=1) - 1, 1)

    def totals(part: slice) -> Floats:
        wins = prefer[part] @ masks.T - 0.5  # (q, M, S)
        rates = np.where(masks.T > 0, np.maximum(wins, 0) / others, 0.0)
        return np.moveaxis(np.swapaxes(ballots[:, part], 0, 1) @ rates, 1, 0)

    return _replay_votes(ballots, totals, gold, masks, average)


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


def _ballots(answers: Ints) -> Floats:
    """(A, Q, M): who gave each answer."""
    kinds = np.arange(int(answers.max(initial=0)) + 1)
    return np.asarray(answers == kinds[:, None, None], dtype=float)


def _replay_votes(
    ballots: Floats,
    totals_of: Callable[[slice], Floats],
    gold: Floats,
    masks: Floats,
    average: Floats,
) -> Floats:
    """Average the gold of the leading answers, ties shared, over subsets by n.

    `totals_of`: the votes (A, q, S) of each answer in each subset, for some of the questions. A
    subset without any vote is a random choice of its candidates.
    """
    kinds, q, m = ballots.shape
    results = np.empty((q, average.shape[1]))
    for part in _chunks(q, len(masks) * max(kinds, m)):
        present = ballots[:, part] @ masks.T
        voted = present > 0
        totals = np.where(voted, totals_of(part), -1.0)
        top = totals.max(axis=0)
        leads = (totals >= top - 1e-9 * np.maximum(top, 1e-300)) & voted
        share = leads / np.maximum(leads.sum(axis=0), 1)
        no_vote = ~voted.any(axis=0)
        mean = (ballots[:, part] * gold[part]) @ masks.T / np.maximum(present, 1)
        value = (share * mean).sum(axis=0)
        if no_vote.any():
            value = np.where(no_vote, gold[part] @ masks.T / masks.sum(axis=1), value)
        results[part] = value @ average
    return results


# ------------------------------------------------------------------ over random orders


@dataclass(frozen=True)
class VoteOrders:
    """Random orders of the candidates, laid out for votes; shared by all rewarders of a pool.

    `candidate` (M, S·Q): the flat place of each step's candidate in (Q, M). `slot` (M, S·Q): the
    flat place of its answer in (S·Q, A + 1), the last answer being none. `gold` (S·Q·(A + 1)): the
    value of choosing an answer. `head_start` (S·Q, A + 1): random numbers that break ties.
    """

    shape: tuple[int, int, int]
    candidate: Ints
    slot: Ints
    gold: Floats
    head_start: Floats


def vote_orders(answers: Ints, gold: Floats, count: int, seed: int) -> VoteOrders:
    """Draw `count` random orders of every question. `answers` (Q, M), −1 for none."""
    q, m = answers.shape
    kinds = int(answers.max(initial=0)) + 1
    answers = np.where(answers < 0, kinds, answers)
    given = answers[:, None, :] == np.arange(kinds + 1)[:, None]  # (Q, A + 1, M)
    value = (gold[:, None, :] * given).sum(axis=2) / np.maximum(given.sum(axis=2), 1)
    # One step after the other, all orders of all questions next to each other in each.
    orders = random_orders(m, q, count, seed) + np.arange(q)[:, None] * m
    candidate = np.ascontiguousarray(orders.reshape(-1, m).T)
    slot = answers.ravel().take(candidate) + np.arange(count * q) * (kinds + 1)
    head_start = np.random.default_rng(seed).random((count * q, kinds + 1))
    head_start[:, kinds] = np.nan  # candidates without an answer never lead
    return VoteOrders((count, q, m), candidate, slot, np.tile(value.ravel(), count), head_start)


def vote_by_orders(
    weights: Floats, drawn: VoteOrders, ns: Sequence[int] | None = None
) -> tuple[Floats, Floats]:
    """Replay a weighted vote of the first n of each random order, every n in one pass.

    Weights (Q, M) are not negative, so after each candidate the leader is the former one or the
    answer that was just voted for. Tiny random head starts break ties uniformly. Returns (Q, N)
    and the mean by order and n (S, N), whose spread is the resampling error.
    """
    s, q, _ = drawn.shape
    weights = np.nan_to_num(weights)
    totals = (drawn.head_start * (1e-9 * weights.max(initial=1e-300))).ravel()
    highest = np.full(s * q, -1.0)
    leader = np.arange(1, s * q + 1) * drawn.head_start.shape[1] - 1  # no answer yet
    results, spread = [], []
    for n, (candidate, slot) in enumerate(zip(drawn.candidate, drawn.slot, strict=True), start=1):
        votes = totals.take(slot) + weights.ravel().take(candidate)
        totals[slot] = votes
        leader = np.where(votes > highest, slot, leader)
        np.fmax(highest, votes, out=highest)
        if ns is None or n in ns:
            values = drawn.gold.take(leader).reshape(s, q)
            results.append(values.mean(axis=0))
            spread.append(values.mean(axis=1))
    return np.stack(results, axis=1), np.stack(spread, axis=1)


def random_orders(size: int, questions: int, count: int, seed: int) -> Ints:
    """(S, Q, M): independent random orders of the candidates of every question."""
    rng = np.random.default_rng([seed, size, questions])
    return np.argsort(rng.random((count, questions, size), dtype=np.float32), axis=2)


def resampling_error(spread: Floats) -> float:
    """Standard error of a mean from drawing S orders: sd over orders / sqrt(S)."""
    s = len(spread)
    return float(spread.std(axis=0, ddof=1).max() / np.sqrt(s)) if s > 1 else 0.0
