"""Verdicts of rewarders on preference pairs, as counts and codes."""

from dataclasses import dataclass

import numpy as np

from bon.analysis.data.arrays import Judged
from bon.choosing.opinion import OUTCOMES, Floats, Ints

WRONG, RIGHT, TIE, UNDECIDED, NOT_ASKED = 0, 1, 2, 3, -1


@dataclass(frozen=True)
class Verdicts:
    """Verdicts of one rewarder on P pairs.

    `code` (P): RIGHT, WRONG, TIE, UNDECIDED or NOT_ASKED. `counts` (P, 2, 4): votes by the side
    shown first: for the better response, for the other, tie, undecided; None for a rewarder that
    gives scores. `outcomes`: number of judgements by outcome.
    """

    code: Ints
    counts: Ints | None
    outcomes: dict[str, int]


def verdicts(judged: Judged, preferred: Ints, *, alone: bool = False) -> Verdicts:
    """Return the verdicts of one rewarder; `preferred` (P): the better side of each pair.

    alone: pairs are of one response, whose score says whether step labels are met.
    """
    p = len(preferred)
    tally = np.bincount(judged.outcome, minlength=len(OUTCOMES))
    outcomes = {name: int(k) for name, k in zip(OUTCOMES, tally, strict=True) if k}
    if (judged.second >= 0).any() or outcomes.get("chosen"):
        counts = _counts(judged, preferred)
        return Verdicts(code_of(counts.sum(axis=1)), counts, outcomes)
    votes = int(judged.vote.max(initial=0)) + 1
    scores = np.full((p, 2, votes), np.nan)
    scored = judged.outcome == OUTCOMES.index("scored")
    cell = (judged.item[scored], judged.first[scored], judged.vote[scored])
    scores[cell] = judged.score[scored]
    if alone:
        scores[:, 1] = 0.5
    known = np.zeros(p, dtype=bool)
    known[judged.item] = True
    code = np.where(known, score_codes(scores, preferred), NOT_ASKED)
    return Verdicts(code, None, outcomes)


def _counts(judged: Judged, preferred: Ints) -> Ints:
    """(P, 2, 4): votes by order for the better response, the other, tie, undecided."""
    better_first = judged.first == preferred[judged.item]
    names = {name: i for i, name in enumerate(OUTCOMES)}
    says_first = np.isin(judged.outcome, [names["first"], names["chosen"]])
    says_second = judged.outcome == names["second"]
    kind = np.full(len(judged), 3)
    kind[judged.outcome == names["tie"]] = 2
    decided = says_first | says_second
    kind[decided] = np.where(says_first == better_first, 0, 1)[decided]
    cell = (judged.item * 2 + judged.first) * 4 + kind
    return np.bincount(cell, minlength=len(preferred) * 8).reshape(-1, 2, 4)


def code_of(counts: Ints) -> Ints:
    """(P): codes of vote counts (P, 4): the majority of decided votes, or a tie."""
    better, other, ties, undecided = counts.T
    code = np.where(better > other, RIGHT, np.where(better < other, WRONG, TIE))
    code = np.where(better + other + ties == 0, UNDECIDED, code)
    return np.where(better + other + ties + undecided == 0, NOT_ASKED, code)


def score_codes(scores: Floats, preferred: Ints) -> Ints:
    """(P): codes of scores (P, 2, K): the higher mean over votes, or a tie."""
    known = ~np.isnan(scores)
    count = known.sum(axis=2)
    mean = np.where(known, scores, 0).sum(axis=2) / np.maximum(count, 1)
    rows = np.arange(len(preferred))
    better, other = mean[rows, preferred], mean[rows, 1 - preferred]
    code = np.where(better > other, RIGHT, np.where(better < other, WRONG, TIE))
    return np.where((count > 0).all(axis=1), code, UNDECIDED)
