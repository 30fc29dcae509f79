"""From scores to rewards: scales, unparsed judgements, and the quality of the judging."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from math import isfinite
from statistics import fmean
from typing import Literal

from bon.choosing.opinion import OUTCOME_VALUE, Kind
from bon.core.records import Judgement

Scale = Literal["raw", "rank", "win_rate"]
OnUnparsed = Literal["error", "null", "mean"]
Floats = list[float | None]

TRIVIAL: dict[Kind, float] = {"preferences": 0.5, "choices": 1.0, "scores": 0.0}
"""The score of every copy in a group of equal texts: a tie, always chosen, a panel's mean."""


def scaled(scale: Scale, kind: Kind, scores: Floats, probabilities: Sequence[float]) -> Floats:
    """Return a group's scores on a scale; None where a score has no other to compare with.

    raw: unchanged. rank: share of the others that the rule ranks below, by choice probability and
    then score.
    win_rate: share of comparisons won; without pairwise comparisons, share of the others with a
    lower score. Ties count half.
    """
    if scale == "raw" or (scale == "win_rate" and kind == "preferences"):
        return list(scores)
    known = {i: score for i, score in enumerate(scores) if score is not None}
    rewards: Floats = [None] * len(scores)
    if len(known) < 2:
        return rewards
    keys = {i: (probabilities[i] if scale == "rank" else 0.0, s) for i, s in known.items()}
    order = sorted(keys.values())
    for i, key in keys.items():
        rewards[i] = (bisect_left(order, key) + bisect_right(order, key) - 1) / 2 / (len(order) - 1)
    return rewards


def filled(rewards: Floats, on_unparsed: OnUnparsed) -> Floats:
    """With `mean`, replace missing rewards by the group's mean: no advantage."""
    known = [reward for reward in rewards if reward is not None]
    if on_unparsed != "mean" or not known:
        return rewards
    mean = fmean(known)
    return [mean if reward is None else reward for reward in rewards]


def mean_score(rows: Sequence[Judgement]) -> float | None:
    """Return a response's mean score over the parsed votes."""
    scores = [row.score for row in rows if row.outcome == "scored" and row.score is not None]
    finite = [score for score in scores if isfinite(score)]
    return fmean(finite) if finite else None


def parsed_share(rows: Sequence[Judgement]) -> float:
    """Return the share of judgements that were parsed; 1 without any."""
    parsed = sum(row.outcome not in ("unparsed", "error") for row in rows)
    return parsed / len(rows) if rows else 1.0


def consistency(rows: Sequence[Judgement]) -> float | None:
    """Return the share of pairs with the same verdict in both orders; ties do not contradict."""
    votes: dict[tuple[str, str], float] = {}
    for row in rows:
        if row.second is not None and row.outcome in OUTCOME_VALUE:
            pair = (row.first, row.second)
            votes[pair] = votes.get(pair, 0.0) + OUTCOME_VALUE[row.outcome] - 0.5
    both = [
        vote * votes[second, first] <= 0
        for (first, second), vote in votes.items()
        if first < second and (second, first) in votes
    ]
    return fmean(both) if both else None
