"""Which pairs each strategy may draw, and the draw of all of them with known probabilities.

A strategy draws a simple random sample of its pairs of each question, in sizes as equal as its
quota and the questions allow; the last round goes to a simple random sample of the questions. A
pair of question q is therefore drawn with probability E(sample size of q) / (pairs of q), exactly.
The control is a simple random sample of all pairs. Strategies draw independently of each other.

Random numbers are seeded by seed, strategy and question, so reading order does not matter.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from random import Random
from typing import TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bon.analysis.results.record import Record
from bon.core.keys import item_seed
from bon.curating.pools import PooledText, QuestionPool
from bon.curating.recipe import STRATEGIES, Curation, Strategy

NameT = TypeVar("NameT", bound=str)
Members = tuple[int, int]
"""Sorted indices of a pair's texts in the pool of its question."""
Drawable = tuple[str, Members]
"""A question and one of its pairs."""
Frames = Mapping[str, Sequence[Members]]
"""Sampling frame: the pairs of each question, without repeats."""

MAX_LENGTH_RATIO = 0.1
"""Near misses differ in length by at most this share of the shorter text."""
MAX_OVERSAMPLING = 3
"""Strategies draw up to this multiple of their quota to compensate for shared pairs."""


class StrategyCount(Record):
    """Quota of a strategy, size of its frame, and number of pairs drawn."""

    strategy: str
    wanted: int
    questions: int
    available: int
    drawn: int


@dataclass
class Selection:
    """Drawn pairs with their strategies (the control first) and inclusion probabilities.

    reachable: number of pairs with a positive inclusion probability.
    """

    drawn_by: dict[Drawable, list[Strategy]] = field(default_factory=dict)
    probability: dict[Drawable, float] = field(default_factory=dict)
    counts: list[StrategyCount] = field(default_factory=list)
    reachable: int = 0


@dataclass(frozen=True)
class ByQuestion:
    """`level` pairs of every question that has as many, one more of `left` of the `larger` ones.

    room: maximum pairs per question. chance: inclusion probability of each pair of a question.
    """

    frames: Frames
    room: dict[str, int]
    level: int
    larger: list[str]
    left: int
    size: int
    chance: dict[str, float]

    def draw(self, seed: int, label: str) -> list[Drawable]:
        """Draw the sample of this seed."""
        extra = set(Random(item_seed(seed, label, "questions")).sample(self.larger, self.left))
        pairs: list[Drawable] = []
        for question, room in self.room.items():
            rng = Random(item_seed(seed, label, question))
            count = min(room, self.level) + (question in extra)
            pairs += [(question, members) for members in rng.sample(self.frames[question], count)]
        return pairs


def by_question(frames: Frames, size: int, per_question: int) -> ByQuestion:
    """Design a sample of `size` pairs, or as many as there are at `per_question`."""
    room = {question: min(per_question, len(frames[question])) for question in sorted(frames)}
    size = left = min(size, sum(room.values()))
    level, larger = 0, list(room)
    while larger and left >= len(larger):
        left -= len(larger)
        level += 1
        larger = [question for question in larger if room[question] > level]
    share = left / len(larger) if larger else 0.0
    expected = {q: min(most, level) + (share if most > level else 0.0) for q, most in room.items()}
    chance = {q: mean / len(frames[q]) for q, mean in expected.items() if mean > 0}
    return ByQuestion(frames, room, level, larger, left, size, chance)


@dataclass(frozen=True)
class Uniform:
    """A simple random sample of `size` of all pairs."""

    frames: Frames
    size: int
    chance: dict[str, float]

    def draw(self, seed: int, label: str) -> list[Drawable]:
        """Draw the sample of this seed."""
        pairs = [
            (question, pair) for question in sorted(self.frames) for pair in self.frames[question]
        ]
        drawn = Random(item_seed(seed, label)).sample(range(len(pairs)), self.size)
        return [pairs[index] for index in sorted(drawn)]


def uniform(frames: Frames, size: int) -> Uniform:
    """Design a sample of `size` pairs, or of all if there are fewer."""
    total = sum(map(len, frames.values()))
    size = min(size, total)
    return Uniform(frames, size, dict.fromkeys(frames, size / total) if size else {})


Design = ByQuestion | Uniform


def quota_sizes(quotas: Mapping[NameT, float], items: int) -> dict[NameT, int]:
    """Round shares to integers that sum to `items` (largest remainders)."""
    sizes = {name: int(share * items) for name, share in quotas.items()}
    order = sorted(quotas, key=lambda name: (sizes[name] - quotas[name] * items, name))
    for name in order[: items - sum(sizes.values())]:
        sizes[name] += 1
    return sizes


def select(pools: Mapping[str, QuestionPool], recipe: Curation) -> Selection:
    """Draw the items of the recipe from the pools.

    Two strategies may draw the same pair. All quotas are therefore scaled until the expected
    number of distinct pairs is the recipe's. The scale depends on the pools alone, so inclusion
    probabilities stay exact.
    """
    quotas = quota_sizes(recipe.quotas, recipe.items)
    pairs = pairs_of(pools)
    frames: dict[Strategy, Frames] = {
        strategy: {
            str(q): list(own) for q, own in pairs[pairs[strategy]].groupby("question").members
        }
        for strategy in sorted(STRATEGIES, key=lambda name: name != "control")
        if quotas.get(strategy)
    }
    low, high = recipe.items, MAX_OVERSAMPLING * recipe.items
    while low < high:
        middle = (low + high) // 2
        if _inclusion(pairs, _designs(frames, recipe, middle)).sum() >= recipe.items - 0.5:
            high = middle
        else:
            low = middle + 1
    designs = _designs(frames, recipe, low)
    probability = _inclusion(pairs, designs)
    by_pair = dict(
        zip(zip(pairs["question"], pairs["members"], strict=True), probability, strict=True)
    )
    selection = Selection(reachable=int((probability > 0).sum()))
    for strategy, design in designs.items():
        drawn = design.draw(recipe.seed, strategy)
        for pair in drawn:
            selection.drawn_by.setdefault(pair, []).append(strategy)
            selection.probability[pair] = float(by_pair[pair])
        selection.counts.append(
            StrategyCount(
                strategy=strategy,
                wanted=quotas[strategy],
                questions=len(frames[strategy]),
                available=sum(map(len, frames[strategy].values())),
                drawn=len(drawn),
            )
        )
    return selection


def _designs(
    frames: Mapping[Strategy, Frames], recipe: Curation, total: int
) -> dict[Strategy, Design]:
    sizes = quota_sizes(recipe.quotas, total)
    return {
        strategy: uniform(frame, sizes[strategy])
        if strategy == "control"
        else by_question(frame, sizes[strategy], recipe.per_question)
        for strategy, frame in frames.items()
    }


def _inclusion(pairs: pd.DataFrame, designs: Mapping[Strategy, Design]) -> NDArray[np.float64]:
    """Return the probability that any of the independent designs draws each pair."""
    none = np.ones(len(pairs))
    for strategy, design in designs.items():
        chance = pairs["question"].map(design.chance).fillna(0.0).to_numpy(dtype=float)
        none *= 1 - np.where(pairs[strategy], chance, 0.0)
    return 1 - none


def pairs_of(pools: Mapping[str, QuestionPool]) -> pd.DataFrame:
    """Return all (right, wrong) pairs: question, members, and whether each strategy may draw it."""
    rows = [
        (key, members, *(fits(pool, pool.texts[r], pool.texts[w]) for fits in _FITS.values()))
        for key, pool in sorted(pools.items())
        for members, r, w in sorted(
            ((min(r, w), max(r, w)), r, w) for r, w in product(pool.right, pool.wrong)
        )
    ]
    return pd.DataFrame(rows, columns=["question", "members", *_FITS])


def _popular(pool: QuestionPool, _right: PooledText, wrong: PooledText) -> bool:
    """Whether majority vote of a policy that wrote the wrong text prefers its answer."""
    votes = (pool.votes[policy] for policy in wrong.policies if policy in pool.votes)
    return any(wrong.answer and v[wrong.answer] == max(v.values()) for v in votes)


def _near(_pool: QuestionPool, right: PooledText, wrong: PooledText) -> bool:
    short, long = sorted((len(right.text), len(wrong.text)))
    shared = not set(right.policies).isdisjoint(wrong.policies)
    return shared and long - short <= MAX_LENGTH_RATIO * short


_FITS: dict[Strategy, Callable[[QuestionPool, PooledText, PooledText], bool]] = {
    "gold": lambda *_: True,
    "popular-wrong": lambda *pair: bool(_popular(*pair)),
    "near-miss": _near,
    "control": lambda *_: True,
}
