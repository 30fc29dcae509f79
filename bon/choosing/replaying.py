"""Replay of a rule: the expected value of its choice at every n, from one pool of candidates."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from bon.choosing import subsets
from bon.choosing.opinion import Bools, Candidates, Floats, Ints, Opinion

EVERY_N = 16
"""Largest pool that is replayed at every n; larger ones at 1, 2, 4, …"""


@dataclass(frozen=True)
class Trial:
    """Candidates to replay rules on, their values, and the headline n.

    `gold` (Q, M): the value of choosing a candidate, 1 if it is correct. `draws`: number of subsets
    or orders drawn with `seed` where there are too many to enumerate.
    """

    candidates: Candidates
    gold: Floats
    n: int
    draws: int
    seed: int

    @cached_property
    def constant(self) -> Bools:
        """(Q): no choice changes the value."""
        return np.asarray(self.gold.min(axis=1) == self.gold.max(axis=1))

    def select_questions(self, questions: Ints) -> "Trial":
        """Keep some questions."""
        candidates = self.candidates.select_questions(questions)
        return replace(self, candidates=candidates, gold=self.gold[questions])

    @cached_property
    def masks(self) -> tuple[Floats, Floats]:
        """Subsets at every n and the matrix that averages them, the same for all rewarders."""
        return subsets.masks_for(self.candidates.size, self.ns, self.draws, self.seed)

    @cached_property
    def vote_orders(self) -> subsets.VoteOrders:
        """Random orders for votes on pools too large to enumerate; the same for all rewarders."""
        return subsets.vote_orders(self.candidates.answers, self.gold, self.orders, self.seed)

    @property
    def orders(self) -> int:
        """Random orders per question: fewer where many questions average the error out."""
        questions = max(len(self.candidates.items), 1)
        return int(np.clip(self.draws * 400 // questions, min(8, self.draws), self.draws))

    @property
    def ns(self) -> tuple[int, ...]:
        """Every n, or on large pools powers of two, the headline n and the whole pool."""
        size = self.candidates.size
        if size <= EVERY_N:
            return tuple(range(1, size + 1))
        powers = (2**k for k in range(size.bit_length()) if 2**k <= size)
        return tuple(sorted({*powers, size, self.n}))


@dataclass(frozen=True)
class Replayed:
    """Expected value (Q, len(ns)); `error`: standard error, None where exact."""

    ns: tuple[int, ...]
    values: Floats
    error: float | None


def at_full_size(chosen: Floats, trial: Trial) -> Replayed:
    """Replay a choice (Q, M) that is known only for the whole pool (and for n = 1)."""
    size = chosen.shape[1]
    ns = (1, size) if size > 1 else (1,)
    values = np.stack([trial.gold.mean(axis=1), (chosen * trial.gold).sum(axis=1)], axis=1)
    return Replayed(ns, values[:, : len(ns)], None)


def by_choosing(choose: Callable[[Opinion], Floats], opinion: Opinion, trial: Trial) -> Replayed:
    """Replay any rule by choosing among every subset of n candidates, or a sample of subsets."""
    masks, average = trial.masks
    values = np.empty((len(trial.gold), len(masks)))
    for column, mask in enumerate(masks):
        candidates = np.flatnonzero(mask)
        chosen = choose(opinion.select_candidates(candidates))
        values[:, column] = (chosen * trial.gold[:, candidates]).sum(axis=1)
    return over_subsets(values @ average, trial)


def votes(weights: Floats, trial: Trial) -> Replayed:
    """Replay a vote with weights (Q, M) that do not depend on the subset."""
    size, answers = weights.shape[1], trial.candidates.answers
    if size <= subsets.EXACT_SIZE:
        values = subsets.vote_values(answers, weights, trial.gold, *trial.masks)
        return Replayed(trial.ns, values, None)
    values, spread = subsets.vote_by_orders(weights, trial.vote_orders, trial.ns)
    return Replayed(trial.ns, values, subsets.resampling_error(spread))


def over_subsets(values: Floats, trial: Trial) -> Replayed:
    """Attach the standard error to values averaged over `Trial.masks`."""
    if trial.candidates.size <= subsets.EXACT_SIZE:
        return Replayed(trial.ns, values, None)
    v = np.clip(values[:, trial.ns.index(trial.n)], 0, 1)
    drawn = trial.draws * len(v)  # the value of one subset varies by at most v(1 − v)
    return Replayed(trial.ns, values, float(np.sqrt(np.mean(v * (1 - v)) / drawn)))
