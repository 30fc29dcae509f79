"""Knockout tournaments: one implementation to judge, to replay and to serve.

A tournament plays on preferences and returns the comparisons it lacks: judge those and play again
(bon.choosing.designs). Each distinct text of a question enters once: in an order seeded by the
question when judged, in random orders when replayed.
"""

import random
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from bon.choosing.opinion import Bools, Candidates, Floats, Ints, Opinion
from bon.choosing.tallies import CLOSE
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
    """Single elimination of candidates in an order (Q, S, L) under preferences (Q, M, M).

    The first `entrants` (Q, S) of each order enter; None: all. Neighbours meet; the last of an odd
    number advances. A tie advances the one earlier in the order, which is uniform when the order is
    random.
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


def seated(opinion: Opinion, question: int, ties: bool) -> tuple[Ints, Floats]:
    """Return the seats of a question (L) and the preferences among them (1, L, L).

    Without `ties`, as in a knockout, a coin seeded by the question decides them.
    """
    assert opinion.prefer is not None
    candidates = opinion.candidates
    order = seats(candidates, question)
    prefer = opinion.prefer[question][np.ix_(order, order)]
    if not ties:
        item = candidates.items[question]
        keys = [str(key) for key in candidates.keys[question][order]]
        for a, b in np.argwhere(np.triu(np.abs(prefer - 0.5) < CLOSE, 1)):
            prefer[a, b] = float(coin(keys[a], keys[b], item) == keys[a])
            prefer[b, a] = 1 - prefer[a, b]
    return order, prefer[None]


def as_judged(opinion: Opinion) -> Floats:
    """Choice probabilities (Q, M) of the knockout that is judged and served; NaN: unknown."""
    chosen = np.zeros(opinion.candidates.text_ids.shape)
    for question in range(len(chosen)):
        order, prefer = seated(opinion, question, ties=False)
        chosen[question, order] = knockout(prefer, np.arange(len(order))[None, None]).chosen[0, 0]
    return opinion.candidates.share_among_copies(chosen)


def alive_alike(opinion: Opinion, gold: Floats) -> Floats:
    """A choice (Q, M) worth as much gold (Q, M) as the judged knockout's winner.

    Shared by all who may still win; NaN where they are not worth the same.
    """
    chosen = np.zeros(opinion.candidates.text_ids.shape)
    for question in range(len(chosen)):
        order, prefer = seated(opinion, question, ties=False)
        alive = knockout(prefer, np.arange(len(order))[None, None]).alive[0, 0]
        chosen[question, order] = alive / alive.sum()
        if len(np.unique(gold[question, order][alive])) > 1:
            chosen[question] = np.nan
    return opinion.candidates.share_among_copies(chosen)
