"""Knockout and Swiss, once: as they are judged, as they are replayed and as they are served.

A tournament plays on preferences and says which comparisons it lacks: judge those and play
again (bon.choosing.designs). Each distinct text of a question enters once: as judged in an order
seeded by the question, in a replay in random orders.
"""

import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from bon.choosing.opinion import Bools, Candidates, Floats, Ints, Opinion
from bon.choosing.ties import CLOSE, tied_best
from bon.core.keys import item_seed


@dataclass(frozen=True)
class Tournament:
    """How tournaments ended.

    `chosen` (Q, S, M) are choice probabilities, NaN where a comparison is missing. `missing`
    (Q, M, M) marks the next comparisons that were wanted and not there. `alive` (Q, S, M): who
    may still be chosen.
    """

    chosen: Floats
    missing: Bools
    alive: Bools


class Play(Protocol):
    """Plays candidates in an order (Q, S, L) under preferences (Q, M, M).

    Of each order the first `entrants` (Q, S) enter; all of them where that is None.
    """

    def __call__(self, prefer: Floats, order: Ints, entrants: Ints | None = None) -> Tournament:
        """The tournament that was played."""
        ...


_NOBODY = -2
"""In a seat: whoever meets it goes through. (−1: the winner of a match that was not judged.)"""


def bracket(responses: Iterable[str], item: str) -> list[str]:
    """The distinct responses in the seeded order in which tournaments of `item` meet them."""
    order = sorted(set(responses))
    random.Random(item_seed("bracket", item)).shuffle(order)
    return order


def coin(first: str, second: str, item: str) -> str:
    """The one of two tied responses that goes on in the tournaments of `item`."""
    heads = random.Random(item_seed("coin", item, *sorted((first, second)))).random() < 0.5
    return min(first, second) if heads else max(first, second)


def knockout(prefer: Floats, order: Ints, entrants: Ints | None = None) -> Tournament:
    """Single elimination.

    Neighbours meet; of an odd number the last goes through. Of a tie the one earlier in the
    order goes on, which is uniform when the order is random.
    """
    questions = np.arange(len(prefer))[:, None, None]
    missing = np.zeros(prefer.shape, dtype=bool)
    left = np.zeros((*order.shape[:2], prefer.shape[-1]), dtype=bool)
    present = _present(order, entrants)
    np.put_along_axis(left, order, present, axis=2)
    alive = np.where(present, order, _NOBODY)
    while alive.shape[-1] > 1:
        paired = alive.shape[-1] // 2 * 2
        a, b = alive[..., 0:paired:2], alive[..., 1:paired:2]
        known = (a >= 0) & (b >= 0)
        value = np.where(known, prefer[questions, a, b], np.nan)
        absent = known & np.isnan(value)
        missing[np.broadcast_to(questions, a.shape)[absent], a[absent], b[absent]] = True
        winners = np.where(np.isnan(value), -1, np.where(value > 0.5 - CLOSE, a, b))
        winners = np.where(b == _NOBODY, a, winners)
        beaten = np.where(np.isnan(value), -1, np.where(value > 0.5 - CLOSE, b, a))
        at = np.nonzero(beaten >= 0)
        left[at[0], at[1], beaten[at]] = False
        alive = np.concatenate([winners, alive[..., paired:]], axis=-1)
    chosen = np.zeros((*alive.shape[:2], prefer.shape[-1]))
    np.put_along_axis(chosen, np.maximum(alive, 0), 1.0, axis=2)
    chosen[alive[..., 0] < 0] = np.nan
    return Tournament(chosen, missing, left)


def swiss(prefer: Floats, order: Ints, entrants: Ints | None = None) -> Tournament:
    """Swiss system: in each of ⌈log2 L⌉ rounds of L entrants equals meet, and nobody meets twice.

    The order decides who is paired first among equals. A match gives each side its share of the
    votes, and who finds no new opponent sits the round out. Chosen are the highest mean points
    per match, of equal ones those whose opponents did best, and the rest share.
    """
    q, s, size = order.shape
    missing = np.zeros(prefer.shape, dtype=bool)
    batch = order.reshape(q * s, size)
    question = np.repeat(np.arange(q), s)
    row = np.arange(q * s) * size  # where each tournament begins in flat arrays, which are quick
    points, matches = np.zeros((q * s, size)), np.zeros((q * s, size))
    met = np.zeros((q * s, size, size), dtype=bool)
    broken = np.zeros(q * s, dtype=bool)
    present = _present(order, entrants).reshape(q * s, size)
    entered = present.sum(axis=1)
    rounds = np.array([max(1, (k - 1).bit_length()) for k in range(size + 1)])[entered]
    for number in range(rounds.max(initial=1)):
        ranked = row[:, None] + np.argsort(-np.round(points, 9), axis=1, kind="stable")
        # Who lacks a verdict goes no further.
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
            one, two = batch.ravel()[a], batch.ravel()[b]
            value = prefer[question, one, two]
            absent = played & np.isnan(value)
            if absent.any():
                missing[question[absent], one[absent], two[absent]] = True
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
    """(Q, S, L): which places of the orders enter."""
    if entrants is None:
        return np.ones(order.shape, dtype=bool)
    return np.asarray(np.arange(order.shape[2]) < entrants[..., None])


# ------------------------------------------------------------------ as judged


def seats(about: Candidates, question: int) -> Ints:
    """The candidates that enter the tournaments of a question, one per text, in their order."""
    keys = list(about.keys[question])
    order = bracket(map(str, keys), about.items[question])
    return np.array([keys.index(key) for key in order], dtype=np.int64)


def seated(said: Opinion, question: int, play: Play | None) -> tuple[Ints, Floats]:
    """The seats of a question (L) and the preferences among them (1, L, L).

    A knockout knows no ties: a coin that the question seeds has decided them.
    """
    assert said.prefer is not None
    about = said.about
    order = seats(about, question)
    prefer = said.prefer[question][np.ix_(order, order)]
    if play is knockout:
        item, keys = about.items[question], [str(key) for key in about.keys[question][order]]
        for a, b in np.argwhere(np.triu(np.abs(prefer - 0.5) < CLOSE, 1)):
            prefer[a, b] = float(coin(keys[a], keys[b], item) == keys[a])
            prefer[b, a] = 1 - prefer[a, b]
    return order, prefer[None]


def as_judged(said: Opinion, play: Play) -> Floats:
    """Choice probabilities (Q, M) of the tournament that is judged and served; NaN: not known."""
    chosen = np.zeros(said.about.local.shape)
    for question in range(len(chosen)):
        order, prefer = seated(said, question, play)
        chosen[question, order] = play(prefer, np.arange(len(order))[None, None]).chosen[0, 0]
    return said.about.shared(chosen)


def alive_alike(said: Opinion, golds: list[Floats]) -> Floats:
    """A choice (Q, M) worth what the judged knockout's is in every respect of `golds` (Q, M).

    Shared by all who may still win it; NaN where they are not worth the same.
    """
    chosen = np.zeros(said.about.local.shape)
    for question in range(len(chosen)):
        order, prefer = seated(said, question, knockout)
        alive = knockout(prefer, np.arange(len(order))[None, None]).alive[0, 0]
        chosen[question, order] = alive / alive.sum()
        if any(len(np.unique(gold[question, order][alive])) > 1 for gold in golds):
            chosen[question] = np.nan
    return said.about.shared(chosen)
