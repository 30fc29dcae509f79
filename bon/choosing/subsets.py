"""Expected accuracy of a choice among n of M candidates, for every n at once.

Arrays are (Q, M): questions by candidates. `gold` is what the chosen candidate is worth: 1
where it is right, or any other indicator. Results are (Q, N), column n − 1 for n, averages over
all C(M, n) subsets of n candidates (uniformly, without replacement) and over ties.

Sources: pass@n, Chen et al. 2021 (arXiv 2107.03374); best-of-n, Nakano et al. 2021 (arXiv
2112.09332) with the weights of a group of ties added up.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from bon.choosing.ties import tied_best

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

EXACT_SIZE = 10
"""Pools up to this size are replayed over all their subsets (2^M of them)."""

_CHUNK = 4_000_000  # numbers held at once


@lru_cache(maxsize=64)
def position_weights(size: int) -> Floats:
    """(N, M): the chance that the best of n has ascending rank i + 1 of M, C(i, n−1)/C(M, n).

    By downward recursion from n/M at the top, all factors in [0, 1]: stable for any M.
    """
    weights: Floats = np.zeros((size, size))
    for n in range(1, size + 1):
        weights[n - 1, size - 1] = n / size
        for i in range(size - 1, n - 1, -1):
            weights[n - 1, i - 1] = weights[n - 1, i] * (i - n + 1) / i
    return weights


@lru_cache(maxsize=64)
def curve_shapes(size: int) -> Floats:
    """(K, N): orthonormal shapes of which every curve of the best of n consists, to some 1e-9.

    The chances of neighbouring n hardly differ, so of N = 64 curves there are 23 shapes.
    """
    _, strength, shapes = np.linalg.svd(position_weights(size).T)
    return np.asarray(shapes[strength > 1e-9 * strength[0]])


@lru_cache(maxsize=64)
def miss_table(size: int) -> Floats:
    """(M + 1, N): C(M − c, n)/C(M, n), the chance that n draws miss all c right candidates."""
    table = np.zeros((size + 1, size))
    for c in range(size + 1):
        miss = 1.0
        for n in range(1, size + 1):
            miss *= max(size - c - n + 1, 0) / (size - n + 1)
            table[c, n - 1] = miss
    return table


def pass_at_n(correct: Floats) -> Floats:
    """(Q, N): the chance that at least one of n candidates is right."""
    missed: Floats = miss_table(correct.shape[1])[correct.sum(axis=1).astype(int)]
    return 1 - missed


def best_of_n(scores: Floats, golds: list[Floats]) -> list[Floats]:
    """(Q, N) for each gold: the highest score of n, ties broken uniformly; no score is lowest."""
    filled = np.where(np.isnan(scores), -np.inf, scores)
    order = np.argsort(filled, axis=1)
    ranked = np.take_along_axis(filled, order, axis=1)
    new = np.ones(ranked.shape, dtype=bool)
    new[:, 1:] = ranked[:, 1:] != ranked[:, :-1]
    weights = position_weights(scores.shape[1]).T
    results = []
    for gold in golds:
        worth = np.take_along_axis(gold, order, axis=1)
        if not new.all():  # a group of ties is worth its mean at each of its positions
            group = new.cumsum().reshape(new.shape) - 1
            count = np.bincount(group.ravel())
            worth = (np.bincount(group.ravel(), worth.ravel()) / count)[group]
        results.append(worth @ weights)
    return results


# ------------------------------------------------------------------ over all subsets


@lru_cache(maxsize=16)
def _all_masks(size: int) -> tuple[Floats, Floats]:
    """Every non-empty subset as a row (S, M), and the matrix (S, N) that averages over size."""
    masks = ((np.arange(1, 2**size)[:, None] >> np.arange(size)) & 1).astype(float)
    sizes = masks.sum(axis=1).astype(int)
    average = np.zeros((len(masks), size))
    average[np.arange(len(masks)), sizes - 1] = 1
    return masks, average / average.sum(axis=0)


def masks_for(size: int, ns: tuple[int, ...], subsets: int, seed: int) -> tuple[Floats, Floats]:
    """Subsets to replay and the matrix that averages them by n: all of them, or a sample.

    Sampled subsets are prefixes of random orders, the same for all questions: candidates of a
    question are exchangeable.
    """
    if size <= EXACT_SIZE:
        masks, average = _all_masks(size)
        keep = np.isin(masks.sum(axis=1), ns)
        return masks[keep], average[keep][:, np.array(ns) - 1]
    rng = np.random.default_rng([seed, size, subsets])
    rank = np.argsort(rng.random((subsets, size)), axis=1).argsort(axis=1)
    masks = np.concatenate([rank < n for n in ns]).astype(float)
    average = np.kron(np.eye(len(ns)), np.full((subsets, 1), 1 / subsets))
    return masks, average


def vote_values(
    answers: Ints, weights: Floats, golds: list[Floats], masks: Floats, average: Floats
) -> list[Floats]:
    """Weighted vote replayed on subsets: (Q, N) for each gold. `weights` (Q, M), ≥ 0.

    A subset without any vote is a random choice of its candidates.
    """
    ballots = _ballots(answers)
    cast = ballots * np.nan_to_num(weights)
    results = [np.empty((len(answers), average.shape[1])) for _ in golds]
    step = max(1, _CHUNK // (len(masks) * len(ballots)))
    for at in range(0, len(answers), step):
        part = slice(at, at + step)
        _fill(results, golds, part, cast[:, part] @ masks.T, ballots, masks, average)
    return results


def _ballots(answers: Ints) -> Floats:
    """(A, Q, M): who gave each answer. The answers come first: what is summed over them is few."""
    kinds = np.arange(int(answers.max(initial=0)) + 1)
    return np.asarray(answers == kinds[:, None, None], dtype=float)


def _fill(
    results: list[Floats],
    golds: list[Floats],
    part: slice,
    totals: Floats,
    ballots: Floats,
    masks: Floats,
    average: Floats,
) -> None:
    """Gold of the answers that lead, uniform over ties, averaged over subsets by n.

    `totals` (A, q, S): what each answer has in each subset.
    """
    present = ballots[:, part] @ masks.T
    voted = present > 0
    totals = np.where(voted, totals, -1.0)
    top = totals.max(axis=0)
    leads = (totals >= top - 1e-9 * np.maximum(top, 1e-300)) & voted
    share = leads / np.maximum(leads.sum(axis=0), 1)
    nobody = ~voted.any(axis=0)
    size = masks.sum(axis=1)
    for result, gold in zip(results, golds, strict=True):
        worth = (ballots[:, part] * gold[part]) @ masks.T / np.maximum(present, 1)
        value = (share * worth).sum(axis=0)
        if nobody.any():
            value = np.where(nobody, gold[part] @ masks.T / size, value)
        result[part] = value @ average


def round_robin_values(
    prefer: Floats, golds: list[Floats], masks: Floats, average: Floats
) -> list[Floats]:
    """Highest win rate replayed on subsets: (Q, N) for each gold. `prefer` has no NaN."""
    q, m, _ = prefer.shape
    results = [np.empty((q, average.shape[1])) for _ in golds]
    step = max(1, _CHUNK // (len(masks) * m))
    inside = masks > 0
    for at in range(0, q, step):
        part = slice(at, at + step)
        rates = np.swapaxes(prefer[part] @ masks.T, 1, 2)  # (q, S, M) wins plus own half
        chosen = tied_best(rates, inside)
        for result, gold in zip(results, golds, strict=True):
            result[part] = np.einsum("qsm,qm->qs", chosen, gold[part]) @ average
    return results


def rate_vote_values(
    answers: Ints, prefer: Floats, golds: list[Floats], masks: Floats, average: Floats
) -> list[Floats]:
    """Vote weighted by win rate among the candidates of the subset: (Q, N) for each gold."""
    ballots = _ballots(answers)
    others = np.maximum(masks.sum(axis=1) - 1, 1)
    results = [np.empty((len(answers), average.shape[1])) for _ in golds]
    step = max(1, _CHUNK // (len(masks) * max(answers.shape[1], len(ballots))))
    for at in range(0, len(answers), step):
        part = slice(at, at + step)
        wins = prefer[part] @ masks.T - 0.5  # (q, M, S)
        rates = np.where(masks.T > 0, np.maximum(wins, 0) / others, 0.0)
        totals = np.moveaxis(np.swapaxes(ballots[:, part], 0, 1) @ rates, 1, 0)
        _fill(results, golds, part, totals, ballots, masks, average)
    return results


# ------------------------------------------------------------------ over random orders


@dataclass(frozen=True)
class VoteOrders:
    """Random orders of the candidates, laid out for votes; shared by all rewarders of a pool.

    One row per step (M, S·Q): `candidate`, the flat place of each candidate in (Q, M); `slot`, the
    flat place of its answer in (S·Q, A + 1), the last answer being none; `code`, the step above
    `bits` bits, in them which row of `levels` (L, golds) says what choosing that answer is worth.
    `start` (S·Q): the level before any vote. `head` (S·Q, A + 1): random head starts.
    """

    shape: tuple[int, int, int]
    candidate: Ints
    slot: Ints
    code: NDArray[np.unsignedinteger]
    bits: int
    levels: Floats
    start: NDArray[np.unsignedinteger]
    head: Floats


def vote_orders(answers: Ints, golds: list[Floats], count: int, seed: int) -> VoteOrders:
    """`count` random orders of every question. `answers` (Q, M), −1 for none."""
    q, m = answers.shape
    kinds = int(answers.max(initial=0)) + 1
    answers = np.where(answers < 0, kinds, answers)
    given = answers[:, None, :] == np.arange(kinds + 1)[:, None]  # (Q, A + 1, M)
    worth = np.stack([(gold[:, None, :] * given).sum(axis=2) for gold in golds], axis=2)
    worth /= np.maximum(given.sum(axis=2), 1)[:, :, None]
    levels, level = np.unique(worth.reshape(-1, len(golds)), axis=0, return_inverse=True)
    bits = (len(levels) - 1).bit_length()
    small = np.min_scalar_type((m + 1) << bits)
    level = level.reshape(worth.shape[:2]).astype(small)  # (Q, A + 1)
    codes = np.take_along_axis(level, answers, axis=1)  # (Q, M)
    # One step after the other, all orders of all questions next to each other in each.
    orders = random_orders(m, q, count, seed)
    orders += np.arange(q)[:, None] * m
    candidate = np.ascontiguousarray(orders.reshape(-1, m).T)
    steps = np.arange(1, m + 1, dtype=small)[:, None] << np.array(bits, dtype=small)
    slot = answers.ravel().take(candidate)
    slot += np.arange(count * q) * (kinds + 1)
    head = np.random.default_rng(seed).random((count * q, kinds + 1))
    head[:, kinds] = np.nan  # candidates without an answer never lead
    return VoteOrders(
        (count, q, m),
        candidate,
        slot,
        steps | codes.ravel().take(candidate),
        bits,
        levels,
        np.tile(level[:, kinds], count),
        head,
    )


def vote_by_orders(weights: Floats, drawn: VoteOrders) -> tuple[list[Floats], Floats]:
    """Weighted vote of the first n of each random order, every n in one pass.

    Weights (Q, M) are not negative, so after each candidate the leader is the former one or
    the answer that was just voted for. Ties are broken by tiny random head starts, uniformly.
    Returns (Q, N) for each gold, and the mean of the first gold by order and n (S, N), whose
    spread is the resampling error.
    """
    s, q, m = drawn.shape
    weights = np.nan_to_num(weights)
    totals = (drawn.head * (1e-9 * weights.max(initial=1e-300))).ravel()
    weights = weights.ravel()
    lead = np.full(s * q, -1.0)
    last, level = drawn.start, np.array((1 << drawn.bits) - 1, dtype=drawn.code.dtype)
    results, spread = np.empty((m, q, drawn.levels.shape[1])), np.empty((m, s))
    for n in range(m):  # one step at a time: what it needs stays in the processor's cache
        slot = drawn.slot[n]
        now = totals.take(slot)
        now += weights.take(drawn.candidate[n])
        totals[slot] = now
        ahead = now > lead
        np.fmax(lead, now, out=lead)
        last = np.maximum(last, drawn.code[n] * ahead)  # later steps have higher codes
        values = drawn.levels.take(last & level, axis=0).reshape(s, q, -1)
        values.sum(axis=0, out=results[n])
        values[:, :, 0].sum(axis=1, out=spread[n])
    results /= s
    return [gold.T for gold in np.moveaxis(results, 2, 0)], spread.T / q


def random_orders(size: int, questions: int, count: int, seed: int) -> Ints:
    """(S, Q, M): independent random orders of the candidates of every question."""
    rng = np.random.default_rng([seed, size, questions])
    return np.argsort(rng.random((count, questions, size), dtype=np.float32), axis=2)


def resampling_error(spread: Floats) -> float:
    """Standard error that drawing S orders adds to a mean: sd over orders / sqrt(S)."""
    s = len(spread)
    return float(spread.std(axis=0, ddof=1).max() / np.sqrt(s)) if s > 1 else 0.0
