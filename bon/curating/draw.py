"""The draw of items from the pools of runs, with known inclusion probabilities.

Pairs of a right and a wrong answer are of two strategies: `popular-wrong`, where majority vote of a
policy prefers the wrong answer, and `other`. Of each strategy, a simple random sample keeps at most
`per_question` of the m pairs of a question, and a second one draws n of the N pairs that were kept.
A pair is therefore drawn with probability min(per_question, m) / m · n / N, exactly, and every pair
may be drawn: weights of 1 / probability lead back to all pairs.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product
from math import ceil
from random import Random

from bon.analysis.results.record import Record
from bon.core.keys import item_seed
from bon.curating.pools import PooledText, QuestionPool
from bon.curating.recipe import Curation

STRATEGIES = {
    "popular-wrong": "a right answer and the wrong one that majority vote prefers",
    "other": "a right answer and another wrong one",
}


@dataclass(frozen=True, order=True)
class Pair:
    """A question and the indices of a right and a wrong text in its pool."""

    question: str
    right: int
    wrong: int


class StrategyCount(Record):
    """Number of pairs of a strategy that there are and that were drawn, and of their questions."""

    strategy: str
    available: int
    questions: int
    drawn: int


@dataclass
class Selection:
    """Drawn pairs with their strategy and inclusion probability."""

    pairs: dict[Pair, tuple[str, float]] = field(default_factory=dict)
    counts: list[StrategyCount] = field(default_factory=list)


def select(pools: Mapping[str, QuestionPool], recipe: Curation) -> Selection:
    """Draw the items of the recipe; what one strategy lacks, the other provides.

    Random numbers are seeded by seed, strategy and question: reading order does not matter.
    """
    frames: dict[str, defaultdict[str, list[Pair]]] = {
        name: defaultdict(list) for name in STRATEGIES
    }
    for key, pool in sorted(pools.items()):
        for right, wrong in product(pool.right, pool.wrong):
            if _is_near(pool.texts[right], pool.texts[wrong], recipe.max_length_gap):
                name = "popular-wrong" if _is_popular(pool, pool.texts[wrong]) else "other"
                frames[name][key].append(Pair(key, right, wrong))
    kept = {name: _keep(frame, name, recipe) for name, frame in frames.items()}
    popular, other = (len(kept[name]) for name in STRATEGIES)
    wanted = min(ceil(recipe.popular_wrong * recipe.items), recipe.items - 1)
    size = {"popular-wrong": min(popular, max(wanted, recipe.items - other))}
    size["other"] = min(other, recipe.items - size["popular-wrong"])
    selection = Selection()
    for name, frame in frames.items():
        drawn = Random(item_seed(recipe.seed, name)).sample(kept[name], size[name])
        for pair in sorted(drawn):
            m = len(frame[pair.question])
            chance = min(recipe.per_question, m) / m * size[name] / len(kept[name])
            selection.pairs[pair] = name, chance
        total = sum(map(len, frame.values()))
        selection.counts.append(
            StrategyCount(strategy=name, available=total, questions=len(frame), drawn=len(drawn))
        )
    return selection


def _keep(frame: Mapping[str, list[Pair]], name: str, recipe: Curation) -> list[Pair]:
    """Return at most `per_question` pairs of each question."""
    return [
        pair
        for question, pairs in frame.items()
        for pair in Random(item_seed(recipe.seed, name, question)).sample(
            pairs, min(recipe.per_question, len(pairs))
        )
    ]


def _is_popular(pool: QuestionPool, wrong: PooledText) -> bool:
    """Whether majority vote of a policy that wrote the wrong text prefers its answer."""
    votes = (pool.votes[policy] for policy in wrong.policies if policy in pool.votes)
    return any(bool(wrong.answer) and v[wrong.answer] == max(v.values()) for v in votes)


def _is_near(right: PooledText, wrong: PooledText, gap: float | None) -> bool:
    short, long = sorted((len(right.text), len(wrong.text)))
    return gap is None or long - short <= gap * short
