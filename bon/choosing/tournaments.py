"""Knockout and Swiss tournaments: one implementation to judge, to replay and to serve.

A tournament plays on preferences and returns the comparisons it lacks: judge those and play again
(bon.choosing.designs). Each distinct text of a question enters once: in an order seeded by the
question when judged, in random orders when replayed.
"""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from bon.choosing.opinion import Bools, Candidates, Floats, Ints, Opinion
from bon.choosing.tallies import CLOSE, tied_best
from bon.core.keys import item_seed


@dataclass(frozen=True)
class Tournament:
    """Outcome of tournaments.

    `chosen` (Q, S, M): choice probabilities, NaN where a comparison is missing. `missing`
    (Q, M, M): the next comparisons to make. `alive` (Q, S, M): who may still be chosen.
    """

    chosen: Floats
    missing: Bools
    alive: Bools


Play = Callable[[Floats, Ints, Ints | None], Tournament]
"""Play candidates in an order (Q, S, L) under preferences (Q, M, M).

The first `entrants` (Q, S) of each order enter; None: all.
"""
_BYE = -2  # an empty seat: its opponent advances (−1: the winner of a match not yet judged)


def bracket(responses: Iterable[str], item: str) -> list[str]:
    """Return the distinct responses in the seeded order of the tournaments of `item`."""
    order = sorted(set(responses))
    random.Random(item_seed("bracket", item)).shuffle(order)
    return order


def coin(first: str, second: str, item: str) -> str:
    """Return which of two tied responses advances in the tournaments of `item`."""
    heads = random.Random(item_seed("coin", item, *sorted((first, second)))).random() < 0.5
    return min(first, second) if heads else max(first, second)


def knockout(prefer: Floats, order: Ints, entrants: Ints | None = None) -> Tournament:
    """Single elimination.

    Neighbours meet; the last of an odd number advances. A tie advances the one earlier in the
    order, which is uniform when the order is random.
    """
    questions = np.arange(len(prefer))[:, None, None]
    missing = np.zeros(prefer.shape, dtype=bool)
    alive = np.zeros((*order.shape[:2], prefer.shape[-1]), dtype=bool)
    present = _present(order, entrants)
    np.put_along_axis(alive, order, present, axis=2)
    players = np.where(present, order, _BYE)
    while players.shape[-1] > 1:
        paired = players.shape[-1] // 2 * 2
        a, b = players[..., 0:paired:2], players[..., 1:paired:2]
        known = (a >= 0) & (b >= 0)
        value = np.where(known, prefer[questions, a, b], np.nan)
        absent = known & np.isnan(value)
        missing[np.broadcast_to(questions, a.shape)[absent], a[absent], b[absent]] = True
        winners = np.where(np.isnan(value), -1, np.where(value > 0.5 - CLOSE, a, b))
        winners = np.where(b == _BYE, a, winners)
        losers = np.where(np.isnan(value), -1, np.where(value > 0.5 - CLOSE, b, a))
        index = np.nonzero(losers >= 0)
        alive[index[0], index[1], losers[index]] = False
        players = np.concatenate([winners, players[..., paired:]], axis=-1)
    chosen = np.zeros((*players.shape[:2], prefer.shape[-1]))
    np.put_along_axis(chosen, np.maximum(players, 0), 1.0, axis=2)
    chosen[players[..., 0] < 0] = np.nan
    return Tournament(chosen, missing, alive)


def swiss(prefer: Floats, order: Ints, entrants: Ints | None = None) -> Tournament:
    """Swiss system: ⌈log2 L⌉ rounds of L entrants; equals meet, no pair meets twice.

    The order decides who is paired first among equals. A match gives each side its share of the
    votes; an entrant without a new opponent sits the round out. The highest mean points per match
    win, ties go to those whose opponents did best, remaining ties are shared.
    """
    q, s, size = order.shape
    missing = np.zeros(prefer.shape, dtype=bool)
    batch = order.reshape(q * s, size)
    question = np.repeat(np.arange(q), s)
    row = np.arange(q * s) * size  # start of each tournament in flat arrays, which are faster
    points, matches = np.zeros((q * s, size)), np.zeros((q * s, size))
    met = np.zeros((q * s, size, size), dtype=bool)
    broken = np.zeros(q * s, dtype=bool)
    present = _present(order, entrants).reshape(q * s, size)
    entered = present.sum(axis=1)
    rounds = np.array([max(1, (k - 1).bit_length()) for k in range(size + 1)])[entered]
    for number in range(rounds.max(initial=1)):
        ranked = row[:, None] + np.argsort(-np.round(points, 9), axis=1, kind="stable")
        # A tournament that lacks a verdict is not continued.
        on = ~broken & (number < rounds)
        free = present & on[:, None]
        waiting = np.where(on, entered, 0)
        while (open_rows := waiting > 1).any():
            a = ranked.ravel()[row + np.argmax(free.ravel()[ranked], axis=1)]
            free.ravel()[a] &= ~open_rows
            new = free & ~met.reshape(-1, size)[a]
            b = ranked.ravel()[row + np.argmax(new.ravel()[ranked], axis=1)]
            played = new.ravel()[b] & open_rows
            free.ravel()[b] &= ~played
            waiting -= open_rows.astype(int) + played
            first, second = batch.ravel()[a], batch.ravel()[b]
            value = prefer[question, first, second]
            absent = played & np.isnan(value)
            if absent.any():
                missing[question[absent], first[absent], second[absent]] = True
                broken |= absent
            share = np.nan_to_num(value, nan=0.5)
            points.ravel()[a] += np.where(played, share, 0.0)
            points.ravel()[b] += np.where(played, 1 - share, 0.0)
            matches.ravel()[a] += played
            matches.ravel()[b] += played
            met.ravel()[a * size + b - row] |= played
            met.ravel()[b * size + a - row] |= played
    mean = points / np.maximum(matches, 1)
    opponents = np.where(met, mean[:, None, :], 0.0).sum(axis=-1) / np.maximum(matches, 1)
    leaders = tied_best(np.round(mean, 9) + 1e-4 * opponents, present)
    chosen = np.zeros((q * s, prefer.shape[-1]))
    np.put_along_axis(chosen, batch, leaders, axis=1)
    chosen[broken] = np.nan
    alive = np.where(np.isnan(chosen), True, chosen > 0)
    return Tournament(chosen.reshape(q, s, -1), missing, alive.reshape(q, s, -1))


def _present(order: Ints, entrants: Ints | None) -> Bools:
    """(Q, S, L): which positions of the orders enter."""
    if entrants is None:
        return np.ones(order.shape, dtype=bool)
    return np.asarray(np.arange(order.shape[2]) < entrants[..., None])


# ------------------------------------------------------------------ as judged


def seats(candidates: Candidates, question: int) -> Ints:
    """Return the candidates that enter the tournaments of a question, one per text, in order."""
    keys = list(candidates.keys[question])
    order = bracket(map(str, keys), candidates.items[question])
    return np.array([keys.index(key) for key in order], dtype=np.int64)


def seated(opinion: Opinion, question: int, play: Play | None) -> tuple[Ints, Floats]:
    """Return the seats of a question (L) and the preferences among them (1, L, L).

    A knockout has no ties: a coin seeded by the question decides them.
    """
    assert opinion.prefer is not None
    candidates = opinion.candidates
    order = seats(candidates, question)
    prefer = opinion.prefer[question][np.ix_(order, order)]
    if play is knockout:
        item = candidates.items[question]
        keys = [str(key) for key in candidates.keys[question][order]]
        for a, b in np.argwhere(np.triu(np.abs(prefer - 0.5) < CLOSE, 1)):
            prefer[a, b] = float(coin(keys[a], keys[b], item) == keys[a])
            prefer[b, a] = 1 - prefer[a, b]
    return order, prefer[None]


def as_judged(opinion: Opinion, play: Play) -> Floats:
    """Choice probabilities (Q, M) of the tournament that is judged and served; NaN: unknown."""
    chosen = np.zeros(opinion.candidates.text_ids.shape)
    for question in range(len(chosen)):
        order, prefer = seated(opinion, question, play)
        chosen[question, order] = play(prefer, np.arange(len(order))[None, None], None).chosen[0, 0]
    return opinion.candidates.share_among_copies(chosen)


def alive_alike(opinion: Opinion, gold: Floats) -> Floats:
    """A choice (Q, M) worth as much gold (Q, M) as the judged knockout's winner.

    Shared by all who may still win; NaN where they are not worth the same.
    """
    chosen = np.zeros(opinion.candidates.text_ids.shape)
    for question in range(len(chosen)):
        order, prefer = seated(opinion, question, knockout)
        alive = knockout(prefer, np.arange(len(order))[None, None]).alive[0, 0]
        chosen[question, order] = alive / alive.sum()
        if len(np.unique(gold[question, order][alive])) > 1:
            chosen[question] = np.nan
    return opinion.candidates.share_among_copies(chosen)
