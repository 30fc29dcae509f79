"""Verdicts of rewarders on preference pairs, as counts and codes."""

from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import comb, prod

import numpy as np
import pandas as pd

from bon.analysis.data.arrays import Judged
from bon.choosing.opinion import OUTCOMES, Floats, Ints

WRONG, RIGHT, TIE, UNDECIDED, NOT_ASKED = 0, 1, 2, 3, -1

MAX_VOTE_SUBSETS = 20  # of the votes of a pointwise rewarder, per k


@dataclass(frozen=True)
class Verdicts:
    """Verdicts of one rewarder on P pairs.

    `code` (P): RIGHT, WRONG, TIE, UNDECIDED or NOT_ASKED. `counts` (P, 2, 4): votes by the side
    shown first: for the better response, for the other, tie, undecided; None for a rewarder that
    gives `scores` (P, 2, K) by side and vote. `outcomes`: number of judgements by outcome.
    """

    code: Ints
    counts: Ints | None
    scores: Floats | None
    outcomes: dict[str, int]

    @property
    def votes(self) -> int:
        """The number of votes per order (pairwise) or response (pointwise)."""
        if self.counts is not None:
            return int(self.counts.sum(axis=2).max(initial=0))
        return 0 if self.scores is None else int(self.scores.shape[2])


def verdicts(judged: Judged, preferred: Ints) -> Verdicts:
    """Return the verdicts of one rewarder; `preferred` (P): the better side of each pair."""
    p = len(preferred)
    tally = np.bincount(judged.outcome, minlength=len(OUTCOMES))
    outcomes = {name: int(k) for name, k in zip(OUTCOMES, tally, strict=True) if k}
    if (judged.second >= 0).any() or outcomes.get("chosen"):
        counts = _counts(judged, preferred)
        return Verdicts(code_of(counts.sum(axis=1)), counts, None, outcomes)
    votes = int(judged.vote.max(initial=0)) + 1
    scores = np.full((p, 2, votes), np.nan)
    scored = judged.outcome == OUTCOMES.index("scored")
    cell = (judged.item[scored], judged.first[scored], judged.vote[scored])
    scores[cell] = judged.score[scored]
    known = np.zeros(p, dtype=bool)
    known[judged.item] = True
    code = np.where(known, score_codes(scores, preferred), NOT_ASKED)
    return Verdicts(code, None, scores, outcomes)


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


def official_code(counts: Ints) -> Ints:
    """Count as VL-RewardBench's script does: more than half of all votes, or undecided."""
    votes = counts.sum(axis=1)
    total = votes.sum(axis=1)
    code = np.full(len(votes), UNDECIDED)
    code[votes[:, 0] * 2 > total] = RIGHT
    code[votes[:, 1] * 2 > total] = WRONG
    return np.where(total > 0, code, NOT_ASKED)


def code_chances(v: Verdicts, preferred: Ints, k: int, seed: int) -> Floats:
    """(P, 4): chance of WRONG, RIGHT, TIE, UNDECIDED with k of the votes.

    Exact over all choices of k votes in each order; for scores over up to twenty choices.
    """
    p = len(v.code)
    if v.counts is not None:
        table = pd.DataFrame(v.counts.reshape(p, 8))
        group = table.groupby(list(range(8)), sort=False).ngroup().to_numpy()
        first = np.unique(group, return_index=True)[1]
        rows = [_chances(tuple(table.iloc[i].tolist()), k) for i in first]
        return np.array(rows)[group]
    assert v.scores is not None
    votes = v.scores.shape[2]
    rng = np.random.default_rng([seed, k])
    count = 1 if k == votes else min(MAX_VOTE_SUBSETS, comb(votes, k))
    total = np.zeros((p, 4))
    for _ in range(count):
        use = np.sort(rng.choice(votes, k, replace=False))
        total[np.arange(p), score_codes(v.scores[:, :, use], preferred)] += 1
    return total / count


def _chances(counts: tuple[int, ...], k: int) -> list[float]:
    """Chances of the four codes with k votes drawn in each order."""
    chances = [0.0] * 4
    for (d, decided_a), p in _net(counts[:4], k).items():
        for (e, decided_b), q in _net(counts[4:], k).items():
            code = (TIE, RIGHT, WRONG)[int(np.sign(d + e))]
            chances[code if decided_a or decided_b else UNDECIDED] += p * q
    return chances


@lru_cache(maxsize=4096)
def _net(counts: tuple[int, ...], k: int) -> dict[tuple[int, bool], float]:
    """Distribution of (votes for the better − for the other, anything decided) in k draws."""
    k = min(k, sum(counts))
    result: dict[tuple[int, bool], float] = defaultdict(float)
    for a, b, c in product(*(range(min(count, k) + 1) for count in counts[:3])):
        drawn = (a, b, c, k - a - b - c)
        if 0 <= drawn[3] <= counts[3]:
            ways = prod(comb(count, some) for count, some in zip(counts, drawn, strict=True))
            result[a - b, a + b + c > 0] += ways / comb(sum(counts), k)
    return result
