"""Rank bands from corrected pairwise comparisons.

Distinguishably better rewarders rank above, distinguishably worse ones below, and all others may
do either. With differences corrected over all pairs the bands hold for all rewarders at once
(Mogstad, Romano, Shaikh and Wilhelm 2024, Review of Economic Studies 91, 476-518).
"""

from collections import Counter
from collections.abc import Iterable

from bon.analysis.results import Comparison, RankBand


def rank_bands(comparisons: Iterable[Comparison]) -> list[RankBand]:
    """Return a band for every rewarder of every policy, in the order of the comparisons."""
    better: Counter[tuple[str, str]] = Counter()
    worse: Counter[tuple[str, str]] = Counter()
    rewarders: dict[str, dict[str, None]] = {}
    for c in comparisons:
        if c.table != "best_of_n" or c.policy is None or c.difference.value is None:
            continue
        rewarders.setdefault(c.policy, {}).update(dict.fromkeys((c.a, c.b)))
        if c.distinguishable:
            top, bottom = (c.a, c.b) if c.difference.value > 0 else (c.b, c.a)
            better[c.policy, bottom] += 1
            worse[c.policy, top] += 1
    return [
        RankBand(
            policy=policy,
            rewarder=name,
            first=1 + better[policy, name],
            last=len(names) - worse[policy, name],
        )
        for policy, names in rewarders.items()
        for name in names
    ]
