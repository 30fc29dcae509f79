"""All strategies together: which items the benchmark has, and with what chance each is in it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from bon.curating.drawing import (
    Design,
    Drawable,
    Frames,
    Members,
    Union,
    by_question,
    quota_sizes,
    uniform,
)
from bon.curating.proposal import StrategyCount
from bon.curating.question_pools import QuestionPool
from bon.curating.strategies import Kept, frames_of
from bon.curating.wanted import STRATEGIES, Curation, Strategy

OF_OTHERS: tuple[Strategy, ...] = ("best-of-4", "ties")
"""Strategies whose items are not pairs of a right and a wrong text: no other draws them."""

MOST = 3
"""Strategies draw up to this many times their quota to make up for what several of them draw."""


@dataclass
class Selection:
    """Items with the strategies that drew them, the control first, and their probabilities.

    `reachable`: how many pairs of a right and a wrong text had a chance above zero.
    """

    drawn_by: dict[Drawable, list[Strategy]] = field(default_factory=dict)
    probability: dict[Drawable, float] = field(default_factory=dict)
    counts: list[StrategyCount] = field(default_factory=list)
    reachable: int = 0


def select(
    pools: Mapping[str, QuestionPool],
    recipe: Curation,
    kept: Kept,
    entropies: Mapping[str, Mapping[Members, float]],
) -> Selection:
    """Draw what the recipe wants from the pools.

    Two strategies may draw the same item. So that there are as many different ones as are wanted,
    on average over seeds, each draws in proportion more. How much more follows from the pools
    alone, so the probabilities are exact.
    """
    quotas = quota_sizes(recipe.quotas, recipe.items)
    frames = {
        strategy: frames_of(strategy, pools, kept, entropies, quotas[strategy])
        for strategy in sorted(STRATEGIES, key=lambda one: one != "control")
        if quotas.get(strategy)
    }
    pairs = Union({name: there for name, there in frames.items() if name not in OF_OTHERS})
    designs = _large_enough(frames, pairs, recipe)
    found = Selection(reachable=pairs.reachable(designs))
    for strategy, design in designs.items():
        drawn = design.draw(recipe.seed, strategy)
        for item in drawn:
            found.drawn_by.setdefault(item, []).append(strategy)
            alone = strategy in OF_OTHERS
            chance = design.chance[item[0]] if alone else pairs.chance(item, designs)
            found.probability[item] = chance
        found.counts.append(
            StrategyCount(
                strategy=strategy,
                wanted=quotas[strategy],
                questions=len(frames[strategy]),
                available=sum(map(len, frames[strategy].values())),
                drawn=len(drawn),
            )
        )
    return found


def _large_enough(
    frames: Mapping[Strategy, Frames], pairs: Union[Strategy], recipe: Curation
) -> dict[Strategy, Design]:
    """The smallest designs of which as many different items are expected as are wanted."""
    low, high = recipe.items, MOST * recipe.items
    while low < high:
        middle = (low + high) // 2
        designs = _designs(frames, recipe, middle)
        alone = sum(designs[name].size for name in OF_OTHERS if name in designs)
        if alone + pairs.expected(designs) >= recipe.items - 0.5:
            high = middle
        else:
            low = middle + 1
    return _designs(frames, recipe, low)


def _designs(
    frames: Mapping[Strategy, Frames], recipe: Curation, total: int
) -> dict[Strategy, Design]:
    sizes = quota_sizes(recipe.quotas, total)
    return {
        strategy: uniform(there, sizes[strategy])
        if strategy == "control"
        else by_question(there, sizes[strategy], recipe.per_question)
        for strategy, there in frames.items()
    }
