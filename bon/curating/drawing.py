"""Drawing with known chances: which items of a question a strategy draws, and how probably.

A strategy draws a simple random sample of the items of each question, of sizes as equal as its
quota and the questions allow: everybody gets one before anybody gets two, and the last round goes
to a simple random sample of the questions. So an item of question q is drawn with probability
E(size of q's sample) / (items of q), exactly. The control is a simple random sample of all items.
Strategies draw independently of each other.

Every random number comes from a hash of the seed, the strategy and the question, so that the order
in which anything was read changes nothing.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from random import Random
from typing import Generic, TypeVar

from bon.core.keys import item_seed

NameT = TypeVar("NameT", bound=str)
Members = tuple[int, ...]
"""Places of an item's texts in the pool of its question, in order."""

Drawable = tuple[str, Members]
"""A question and one of its items."""

Frames = Mapping[str, Sequence[Members]]
"""What a strategy may draw: of each question its items, each once."""


@dataclass(frozen=True)
class ByQuestion:
    """`level` items of each question that has so many, one more of `left` of the `larger` ones.

    `size` in all; `chance`: that of each item of a question, where it is not 0.
    """

    frames: Frames
    room: dict[str, int]
    level: int
    larger: list[str]
    left: int
    size: int
    chance: dict[str, float]

    def draw(self, seed: int, label: str) -> list[Drawable]:
        """The sample of this seed."""
        lucky = set(Random(item_seed(seed, label, "questions")).sample(self.larger, self.left))
        items = []
        for question, room in self.room.items():
            rng = Random(item_seed(seed, label, question))
            count = min(room, self.level) + (question in lucky)
            items += [(question, one) for one in rng.sample(self.frames[question], count)]
        return items


def by_question(frames: Frames, wanted: int, most: int) -> ByQuestion:
    """At most `most` items of each question, `wanted` in all where there are so many."""
    room = {question: min(most, len(frames[question])) for question in sorted(frames)}
    size = left = min(wanted, sum(room.values()))
    level, larger = 0, list(room)
    while larger and left >= len(larger):
        left -= len(larger)
        level += 1
        larger = [question for question in larger if room[question] > level]
    share = left / len(larger) if larger else 0.0
    chance = {
        question: (min(most_here, level) + (share if most_here > level else 0.0))
        / len(frames[question])
        for question, most_here in room.items()
    }
    chance = {question: p for question, p in chance.items() if p > 0}
    return ByQuestion(frames, room, level, larger, left, size, chance)


@dataclass(frozen=True)
class Uniform:
    """A simple random sample of `size` of all items; `chance` as of ByQuestion."""

    frames: Frames
    size: int
    chance: dict[str, float]

    def draw(self, seed: int, label: str) -> list[Drawable]:
        """The sample of this seed."""
        questions = sorted(self.frames)
        ends = list(accumulate(len(self.frames[question]) for question in questions))
        places = Random(item_seed(seed, label)).sample(range(ends[-1] if ends else 0), self.size)
        items = []
        for at in sorted(places):
            place = bisect_right(ends, at)
            own = self.frames[questions[place]]
            items.append((questions[place], own[at - ends[place] + len(own)]))
        return items


def uniform(frames: Frames, wanted: int) -> Uniform:
    """`wanted` items, or all where there are fewer."""
    total = sum(map(len, frames.values()))
    size = min(wanted, total)
    return Uniform(frames, size, dict.fromkeys(frames, size / total) if size else {})


Design = ByQuestion | Uniform


class Union(Generic[NameT]):
    """What several independent designs draw together, by the frames that they draw from.

    Items of a question that the same designs could draw are alike, and are counted together.
    """

    def __init__(self, frames: Mapping[NameT, Frames]) -> None:
        self._names = list(frames)
        self._drawn_by: dict[Drawable, int] = {}  # a bit for each of the names
        for place, name in enumerate(self._names):
            for question, items in frames[name].items():
                for members in items:
                    item = question, members
                    self._drawn_by[item] = self._drawn_by.get(item, 0) | 1 << place
        self._alike = Counter((item[0], which) for item, which in self._drawn_by.items())

    def chance(self, item: Drawable, designs: Mapping[NameT, Design]) -> float:
        """That any of the designs draws this item."""
        return self._chance(item[0], self._drawn_by[item], designs)

    def expected(self, designs: Mapping[NameT, Design]) -> float:
        """How many different items are drawn, on average over seeds."""
        return sum(n * self._chance(*one, designs) for one, n in self._alike.items())

    def reachable(self, designs: Mapping[NameT, Design]) -> int:
        """How many items have a chance above zero."""
        return sum(n for one, n in self._alike.items() if self._chance(*one, designs) > 0)

    def _chance(self, question: str, which: int, designs: Mapping[NameT, Design]) -> float:
        none = 1.0
        for place, name in enumerate(self._names):
            if which >> place & 1:
                none *= 1 - designs[name].chance.get(question, 0.0)
        return 1 - none


def quota_sizes(quotas: Mapping[NameT, float], items: int) -> dict[NameT, int]:
    """Whole numbers that add up to `items`, as near to the shares as can be."""
    sizes = {name: int(share * items) for name, share in quotas.items()}
    rest = sorted(quotas, key=lambda name: (sizes[name] - quotas[name] * items, name))
    for name in rest[: items - sum(sizes.values())]:
        sizes[name] += 1
    return sizes
