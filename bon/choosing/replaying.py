"""A rule replayed: the expected worth of its choice at every n, from one pool of candidates."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bon.choosing import subsets
from bon.choosing.opinion import Bools, Candidates, Floats, Ints, Opinion
from bon.choosing.tournaments import Play

EVERY_N = 16
"""Tournaments on pools up to this size are replayed at every n, else at 1, 2, 4, …"""


@dataclass(frozen=True)
class Trial:
    """What is replayed: candidates, what each is worth, and the headline n.

    `golds`: arrays (Q, M), what choosing a candidate is worth in one respect or another; the
    first says whether it is right. `draws`: how many subsets or orders are drawn, from `seed`,
    where there are too many for all of them.
    """

    about: Candidates
    golds: list[Floats]
    n: int
    draws: int
    seed: int

    @cached_property
    def constant(self) -> Bools:
        """(Q): questions in which no choice changes whether it is right."""
        return np.asarray(self.golds[0].min(axis=1) == self.golds[0].max(axis=1))

    @cached_property
    def indifferent(self) -> Bools:
        """(Q): questions in which no choice changes anything that is looked at."""
        alike = [gold.min(axis=1) == gold.max(axis=1) for gold in self.golds]
        return np.asarray(np.logical_and.reduce(alike))

    def on(self, questions: Ints) -> "Trial":
        """The same on some of the questions."""
        golds = [gold[questions] for gold in self.golds]
        return Trial(self.about.on(questions), golds, self.n, self.draws, self.seed)

    @cached_property
    def vote_orders(self) -> subsets.VoteOrders:
        """Random orders for votes on pools too large to enumerate; the same for all rewarders."""
        return subsets.vote_orders(self.about.answers, self.golds, self.orders, self.seed)

    @cached_property
    def seatings(self) -> list[tuple[Ints, Ints]]:
        """Random orders of n candidates (Q, S, n) for every n, and how many of each enter (Q, S).

        For tournaments, the same for all rewarders: the first n of an order are a random subset,
        of which each distinct text enters once, as it is judged and served.
        """
        q, m = self.about.local.shape
        orders, seats = (
            np.swapaxes(subsets.random_orders(m, q, self.orders, seed), 0, 1)
            for seed in (self.seed, self.seed + 1)
        )
        fresh = _first_of_their_text(orders, self.about)
        found = []
        for n in self.ns:
            order, new = orders[:, :, :n], fresh[:, :, :n]
            # A text with many copies is drawn early: where it sits must not depend on that.
            if not fresh.all():
                by_seat = np.argsort(np.where(new, seats[:, :, :n], m), axis=2)
                order = np.take_along_axis(order, by_seat, axis=2)
            found.append((order, new.sum(axis=2)))
        return found

    @property
    def orders(self) -> int:
        """Random orders per question: fewer where many questions average the error out."""
        questions = max(len(self.about.items), 1)
        return int(np.clip(self.draws * 400 // questions, min(8, self.draws), self.draws))

    @property
    def ns(self) -> tuple[int, ...]:
        """Every n, or on large pools powers of two, the headline n and the whole pool."""
        size = self.about.size
        if size <= EVERY_N:
            return tuple(range(1, size + 1))
        powers = (2**k for k in range(size.bit_length()) if 2**k <= size)
        return tuple(sorted({*powers, size, self.n}))


@dataclass(frozen=True)
class Replayed:
    """Expected worth (Q, len(ns)) for each gold, with the standard error of what was drawn.

    `error` is None where the values are exact.
    """

    ns: tuple[int, ...]
    values: list[Floats]
    error: float | None


def at_full_size(chosen: Floats, trial: Trial) -> Replayed:
    """A choice (Q, M) that is known only for the whole pool, and for one candidate."""
    size = chosen.shape[1]
    ns = (1, size) if size > 1 else (1,)
    values = [
        np.stack([gold.mean(axis=1), (chosen * gold).sum(axis=1)], axis=1)[:, : len(ns)]
        for gold in trial.golds
    ]
    return Replayed(ns, values, None)


def by_choosing(choose: Callable[[Opinion], Floats], said: Opinion, trial: Trial) -> Replayed:
    """Any rule: choose among every subset of n candidates, or a sample of subsets."""
    masks, average = subsets.masks_for(said.about.size, trial.ns, trial.draws, trial.seed)
    worth = [np.empty((len(gold), len(masks))) for gold in trial.golds]
    for at, mask in enumerate(masks):
        columns = np.flatnonzero(mask)
        chosen = choose(said.among(columns))
        for found, gold in zip(worth, trial.golds, strict=True):
            found[:, at] = (chosen * gold[:, columns]).sum(axis=1)
    return _averaged([found @ average for found in worth], trial)


def votes(weights: Floats, answers: Ints, trial: Trial) -> Replayed:
    """A vote with the weights (Q, M) of the candidates; they do not depend on the subset."""
    size = weights.shape[1]
    ns = tuple(range(1, size + 1))
    if size <= subsets.EXACT_SIZE:
        masks, average = subsets.masks_for(size, ns, trial.draws, trial.seed)
        return Replayed(
            ns, subsets.vote_values(answers, weights, trial.golds, masks, average), None
        )
    values, spread = subsets.vote_by_orders(weights, trial.vote_orders)
    return Replayed(ns, values, subsets.resampling_error(spread))


def win_rates(prefer: Floats, trial: Trial) -> Replayed:
    """The highest mean preference over the others of the subset."""
    masks, average = subsets.masks_for(trial.about.size, trial.ns, trial.draws, trial.seed)
    return _averaged(subsets.round_robin_values(prefer, trial.golds, masks, average), trial)


def rate_votes(prefer: Floats, answers: Ints, trial: Trial) -> Replayed:
    """A vote weighted by the mean preference over the others of the subset."""
    masks, average = subsets.masks_for(trial.about.size, trial.ns, trial.draws, trial.seed)
    return _averaged(subsets.rate_vote_values(answers, prefer, trial.golds, masks, average), trial)


def _averaged(values: list[Floats], trial: Trial) -> Replayed:
    if trial.about.size <= subsets.EXACT_SIZE:
        return Replayed(trial.ns, values, None)
    v = np.clip(values[0][:, trial.ns.index(trial.n)], 0, 1)
    drawn = trial.draws * len(v)  # one subset's value varies by at most v(1 − v)
    return Replayed(trial.ns, values, float(np.sqrt(np.mean(v * (1 - v)) / drawn)))


def over_orders(prefer: Floats, play: Play, trial: Trial) -> Replayed:
    """A tournament over random orders (`Trial.seatings`)."""
    values = [np.empty((len(prefer), len(trial.ns))) for _ in trial.golds]
    spread = np.empty((trial.orders, len(trial.ns)))
    for k, (order, entrants) in enumerate(trial.seatings):
        chosen = play(prefer, order, entrants).chosen
        worth = [np.einsum("qsm,qm->qs", chosen, gold) for gold in trial.golds]
        for found, each in zip(values, worth, strict=True):
            found[:, k] = each.mean(axis=1)
        spread[:, k] = worth[0].mean(axis=0)
    values[0][:, 0] = trial.golds[0].mean(axis=1)  # one candidate needs no draw
    return Replayed(trial.ns, values, subsets.resampling_error(spread))


def _first_of_their_text(orders: Ints, about: Candidates) -> Bools:
    """(Q, S, M): whether the candidate at a place of an order is the first one with its text."""
    texts = about.local[np.arange(len(orders))[:, None, None], orders]
    fresh = np.ones(orders.shape, dtype=bool)
    for place in range(1, orders.shape[2]):
        fresh[:, :, place] = (texts[:, :, :place] != texts[:, :, place, None]).all(axis=2)
    return fresh
