"""The strategies: which items of a question each may draw."""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations, combinations_with_replacement
from math import comb, prod

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bon.analysis.data.verdicts import NOT_ASKED, UNDECIDED, WRONG
from bon.core.keys import content_key
from bon.curating.drawing import Frames, Members
from bon.curating.on_items import CREDIT
from bon.curating.question_pools import PooledText, QuestionPool
from bon.curating.wanted import Strategy

Ints = NDArray[np.int64]

NEAR = 0.1
"""Lengths whose difference is at most this share of the shorter one are near."""

WRONG_ONES = 3
"""Wrong answers beside the right one in an item of best of 4."""

MIN_REWARDERS = 3
"""Fewer rewarders cannot disagree in a way worth asking about."""

Kept = Callable[[str, int, int], bool]
"""Whether the pair of a right and a wrong text (places) of a question may be drawn."""


def frames_of(
    strategy: Strategy,
    pools: Mapping[str, QuestionPool],
    kept: Kept,
    entropies: Mapping[str, Mapping[Members, float]],
    wanted: int,
) -> Frames:
    """What a strategy may draw of each question; `kept` passes over the control and ties.

    `entropies` (disagreement): of each question's pairs, by their places in order. Of `wanted`
    items that strategy draws among the twice as many that rewarders disagree about most.
    """
    if strategy == "ties":
        found: dict[str, Sequence[Members]] = {
            key: list(combinations(pool.right, 2)) for key, pool in pools.items()
        }
    elif strategy == "control":
        found = {key: _pairs(key, pool, everything) for key, pool in pools.items()}
    elif strategy == "best-of-4":
        found = {key: Quads(key, pool, kept) for key, pool in pools.items()}
    elif strategy == "disagreement":
        found = _disputed(pools, kept, entropies, 2 * wanted)
    else:
        fits = _FITS[strategy]
        found = {
            key: [
                places
                for places in _pairs(key, pool, kept)
                if fits(pool, *_right_first(pool, places))
            ]
            for key, pool in pools.items()
        }
    return {key: items for key, items in found.items() if len(items)}


def everything(_question: str, _right: int, _wrong: int) -> bool:
    """Every pair may be drawn."""
    return True


def _pairs(question: str, pool: QuestionPool, kept: Kept) -> list[Members]:
    return sorted(
        (min(a, b), max(a, b)) for a in pool.right for b in pool.wrong if kept(question, a, b)
    )


def _right_first(pool: QuestionPool, places: Members) -> tuple[PooledText, PooledText]:
    one, two = (pool.texts[place] for place in places)
    return (one, two) if one.correct else (two, one)


Fits = Callable[[QuestionPool, PooledText, PooledText], bool]


def _popular(pool: QuestionPool, _right: PooledText, wrong: PooledText) -> bool:
    """Majority vote of a policy that gave the wrong text prefers its answer to all others."""
    votes = (pool.votes[policy] for policy in wrong.policies if policy in pool.votes)
    return any(wrong.answer and said[wrong.answer] == max(said.values()) for said in votes)


def _near(_pool: QuestionPool, right: PooledText, wrong: PooledText) -> bool:
    lengths = sorted((len(right.text), len(wrong.text)))
    shared = not set(right.policies).isdisjoint(wrong.policies)
    return shared and lengths[1] - lengths[0] <= NEAR * lengths[0]


def _crossed(_pool: QuestionPool, right: PooledText, wrong: PooledText) -> bool:
    return set(right.policies).isdisjoint(wrong.policies)


_FITS: dict[Strategy, Fits] = {
    "gold": lambda *_: True,
    "popular-wrong": _popular,
    "near-miss": _near,
    "cross-policy": _crossed,
}


def _disputed(
    pools: Mapping[str, QuestionPool],
    kept: Kept,
    entropies: Mapping[str, Mapping[Members, float]],
    most: int,
) -> dict[str, Sequence[Members]]:
    """The pairs of highest entropy; where many share the last one, all of those."""
    there = {
        key: {places: entropies.get(key, {}).get(places, 0.0) for places in _pairs(key, pool, kept)}
        for key, pool in pools.items()
    }
    ordered = sorted((e for of in there.values() for e in of.values() if e > 0), reverse=True)
    if not ordered:
        return {}
    edge = ordered[min(most, len(ordered)) - 1] - 1e-12
    return {key: [places for places, e in of.items() if e >= edge] for key, of in there.items()}


class Quads(Sequence[Members]):
    """One right text and three wrong ones, with as many different answers as there can be.

    They are numbered and never listed: of 64 candidates there are half a million.
    """

    def __init__(self, question: str, pool: QuestionPool, kept: Kept) -> None:
        self._parts: list[tuple[int, list[list[int]], tuple[int, ...]]] = []
        self._ends: list[int] = []
        for right in pool.right:
            by_answer: dict[str, list[int]] = {}
            for place in pool.wrong:
                if kept(question, right, place):
                    by_answer.setdefault(pool.texts[place].answer, []).append(place)
            groups = [by_answer[answer] for answer in sorted(by_answer)]
            for shape in _shapes(groups):
                self._parts.append((right, groups, shape))
                size = prod(comb(len(g), k) for g, k in zip(groups, shape, strict=True))
                self._ends.append(size + (self._ends[-1] if self._ends else 0))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, at: int) -> Members:  # type: ignore[override]
        if not 0 <= at < len(self):
            raise IndexError(at)
        part = bisect_right(self._ends, at)
        rest = at - (self._ends[part - 1] if part else 0)
        right, groups, shape = self._parts[part]
        places = [right]
        for group, count in zip(groups, shape, strict=True):
            rest, own = divmod(rest, comb(len(group), count))
            places += [group[place] for place in _combination(len(group), count, own)]
        return tuple(sorted(places))


def _shapes(groups: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """How many of each answer's texts are taken: all ways with the most different answers."""
    ways = [
        tuple(chosen.count(answer) for answer in range(len(groups)))
        for chosen in combinations_with_replacement(range(len(groups)), WRONG_ONES)
    ]
    ways = [way for way in ways if all(k <= len(g) for k, g in zip(way, groups, strict=True))]
    most = max((sum(k > 0 for k in way) for way in ways), default=0)
    return [way for way in ways if sum(k > 0 for k in way) == most]


def _combination(size: int, count: int, number: int) -> list[int]:
    """The `number`-th way, from 0, to choose `count` of `size` things."""
    chosen = []
    for place in range(size):
        if not count:
            break
        here = comb(size - place - 1, count - 1)
        if number < here:
            chosen.append(place)
            count -= 1
        else:
            number -= here
    return chosen


# ------------------------------------------------------------------ what rewarders said


def pairs_of(pools: Mapping[str, QuestionPool]) -> pd.DataFrame:
    """Every pair of a right and a wrong text, as the table `pairs` of the analysis.

    Besides its columns `question` and the places of both texts, in order.
    """
    rows = [
        {
            "pair": content_key("pool", key, pool.texts[a].key, pool.texts[b].key),
            "id": "",
            "benchmark": "pools",
            "group": "",
            "tag": "",
            "preferred": 0 if pool.texts[a].correct else 1,
            "response_0": pool.texts[a].key,
            "response_1": pool.texts[b].key,
            "length_0": len(pool.texts[a].text),
            "length_1": len(pool.texts[b].text),
            "leaked": False,
            "question": key,
            "places": (a, b),
        }
        for key, pool in pools.items()
        for a, b in _pairs(key, pool, everything)
    ]
    return pd.DataFrame(rows)


def entropies(pairs: pd.DataFrame, codes: Ints) -> dict[str, dict[Members, float]]:
    """Of each pair the entropy in bits of whether rewarders (P, R) get it right; a tie is half."""
    credit = np.full(codes.shape, np.nan)
    for code, worth in CREDIT.items():
        credit[codes == code] = worth
    known = np.isfinite(credit)
    share = np.where(known, credit, 0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    both = np.stack([share, 1 - share])
    bits = -(both * np.log2(np.where(both > 0, both, 1))).sum(axis=0)
    bits[known.sum(axis=1) < MIN_REWARDERS] = 0
    found: dict[str, dict[Members, float]] = {}
    for question, places, value in zip(pairs["question"], pairs["places"], bits, strict=True):
        found.setdefault(question, {})[places] = float(value)
    return found


def all_wrong(pairs: pd.DataFrame, codes: Ints) -> tuple[set[tuple[str, int, int]], int]:
    """The pairs that all of these rewarders (P, R) get wrong, right text first.

    And how many pairs are unknown: not all of them judged or read.
    """
    wrong = (codes == WRONG).all(axis=1)
    unknown = np.isin(codes, (NOT_ASKED, UNDECIDED)).any(axis=1)
    found = set()
    for row in pairs[wrong].itertuples():
        a, b = row.places
        found.add((row.question, a, b) if row.preferred == 0 else (row.question, b, a))
    return found, int(unknown.sum())
