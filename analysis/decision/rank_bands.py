"""Rank bands from corrected pairwise comparisons.

Distinguishably better rewarders rank above, distinguishably worse ones below, and all others may
do either. With differences corrected over all pairs the bands hold for all rewarders at once
(Mogstad, Romano, Shaikh and Wilhelm 2024, Review of Economic Studies 91, 476-518).
"""

from collections import Counter
from collections.abc import Iterable

from bon.analysis.results import Comparison, RankBand

Table = tuple[str | None, str | None]
"""The policy, or the benchmark, on which rewarders are compared."""


def rank_bands(comparisons: Iterable[Comparison]) -> list[RankBand]:
    """Return a band for every rewarder of each table, in the order of the comparisons."""
    better: Counter[tuple[Table, str]] = Counter()
    worse: Counter[tuple[Table, str]] = Counter()
    rewarders: dict[Table, dict[str, None]] = {}
    for c in comparisons:
        table = (c.policy, c.benchmark)
        if c.difference.value is None:
            continue
        rewarders.setdefault(table, {}).update(dict.fromkeys((c.a, c.b)))
        if c.distinguishable:
            top, bottom = (c.a, c.b) if c.difference.value > 0 else (c.b, c.a)
            better[table, bottom] += 1
            worse[table, top] += 1
    return [
        RankBand(
            policy=table[0],
            benchmark=table[1],
            rewarder=name,
            first=1 + better[table, name],
            last=len(names) - worse[table, name],
        )
        for table, names in rewarders.items()
        for name in names
    ]
