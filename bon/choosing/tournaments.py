"""Knockout tournaments: one implementation to judge, to replay and to serve.

A tournament plays on preferences and returns the comparisons it lacks: judge those and play again
(bon.choosing.designs). Each distinct text of a question enters once, in an order seeded by the
question.
"""

import random
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from bon.choosing.opinion import Floats, Ints, Opinion
from bon.choosing.tallies import CLOSE
from bon.core.keys import item_seed


@dataclass(frozen=True)
class Tournament:
    """Outcome of a tournament; `winner` is None while a comparison is missing.

    missing: the next comparisons to make. alive: who may still win.
    """

    winner: int | None
    missing: list[tuple[int, int]]
    alive: list[int]


def bracket(responses: Iterable[str], item: str) -> list[str]:
    """Return the distinct responses in the seeded order of the tournaments of `item`."""
    order = sorted(set(responses))
    random.Random(item_seed("bracket", item)).shuffle(order)
    return order


def coin(first: str, second: str, item: str) -> str:
    """Return which of two tied responses advances in the tournaments of `item`."""
    heads = random.Random(item_seed("coin", item, *sorted((first, second)))).random() < 0.5
    return min(first, second) if heads else max(first, second)


def knockout(prefer: Floats) -> Tournament:
    """Single elimination under preferences (L, L), in the order of the rows.

    Neighbours meet; the last of an odd number advances. A tie advances the earlier one.
    """
    players: list[int | None] = list(range(len(prefer)))
    missing, alive = [], set(range(len(prefer)))
    while len(players) > 1:
        winners: list[int | None] = []
        for a, b in zip(players[0::2], players[1::2], strict=False):
            winners.append(None)
            if a is None or b is None:
                continue
            if np.isnan(prefer[a, b]):
                missing.append((a, b))
            else:
                winners[-1], loser = (a, b) if prefer[a, b] > 0.5 - CLOSE else (b, a)
                alive.discard(loser)
        players = winners + players[2 * len(winners) :]
    return Tournament(players[0], missing, sorted(alive))


def seated(opinion: Opinion, question: int, ties: bool) -> tuple[Ints, Floats]:
    """Return the candidates that enter (L), one per text in order, and preferences among them.

    Without `ties`, as in a knockout, a coin seeded by the question decides them.
    """
    assert opinion.prefer is not None
    item = opinion.candidates.items[question]
    keys = [str(key) for key in opinion.candidates.keys[question]]
    seats = bracket(keys, item)
    order = np.array([keys.index(key) for key in seats], dtype=np.int64)
    prefer = opinion.prefer[question][np.ix_(order, order)]
    if not ties:
        for a, b in np.argwhere(np.triu(np.abs(prefer - 0.5) < CLOSE, 1)):
            prefer[a, b] = float(coin(seats[a], seats[b], item) == seats[a])
            prefer[b, a] = 1 - prefer[a, b]
    return order, prefer


def winners(opinion: Opinion) -> Floats:
    """Choice probabilities (Q, M) of the knockouts that are judged and served; NaN: unknown."""
    chosen = np.zeros(opinion.candidates.text_ids.shape)
    for question in range(len(chosen)):
        order, prefer = seated(opinion, question, ties=False)
        winner = knockout(prefer).winner
        if winner is None:
            chosen[question] = np.nan
        else:
            chosen[question, order[winner]] = 1
    return opinion.candidates.share_among_copies(chosen)


def alive_alike(opinion: Opinion, gold: Floats) -> Floats:
    """A choice (Q, M) worth as much gold (Q, M) as the judged knockout's winner.

    Shared by all who may still win; NaN where they are not worth the same.
    """
    chosen = np.zeros(opinion.candidates.text_ids.shape)
    for question in range(len(chosen)):
        order, prefer = seated(opinion, question, ties=False)
        alive = order[knockout(prefer).alive]
        alike = len(np.unique(gold[question, alive])) == 1
        chosen[question, alive] = 1 / len(alive) if alike else np.nan
    return opinion.candidates.share_among_copies(chosen)
