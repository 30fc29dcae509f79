"""Seeded choices that do not change between versions of Python or numpy."""

import hashlib
import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def digest(*key: object) -> int:
    """A 64-bit hash of a key: the same on every machine, unlike hash()."""
    return int.from_bytes(hashlib.blake2b(repr(key).encode(), digest_size=8).digest(), "big")


class Rng:
    """Draws built on `random.Random.random`, the one method whose stream Python guarantees."""

    def __init__(self, *key: object) -> None:
        self.random = random.Random(digest(*key)).random

    def below(self, n: int) -> int:
        """An integer from 0 to n − 1."""
        return int(self.random() * n)

    def between(self, low: int, high: int) -> int:
        """An integer from low to high, both included."""
        return low + self.below(high - low + 1)

    def chance(self, probability: float) -> bool:
        """True with the given probability."""
        return self.random() < probability

    def pick(self, items: Sequence[T]) -> T:
        """One of the items, all equally likely."""
        return items[self.below(len(items))]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """A shuffled copy."""
        out = list(items)
        for i in range(len(out) - 1, 0, -1):
            j = self.below(i + 1)
            out[i], out[j] = out[j], out[i]
        return out

    def sample(self, items: Sequence[T], k: int) -> list[T]:
        """k different items in random order."""
        return self.shuffled(items)[:k]
