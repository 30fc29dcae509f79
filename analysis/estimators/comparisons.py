"""Paired differences between rewarders, corrected for multiple comparisons."""

from collections import Counter
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from scipy import special

from bon.analysis.estimators import resampling
from bon.analysis.results import Compared, Comparison, RankBand


def compare(
    table: Compared,
    policy: str | None,
    benchmark: str | None,
    names: list[str],
    values: NDArray[np.float64],
    errors: NDArray[np.float64],
    n: int,
    level: float,
) -> list[Comparison]:
    """Compare every pair of R rewarders from accuracies (R) and standard errors (R, R).

    Intervals are normal; p is two-sided, with Holm's correction over all pairs of the table.
    """
    z = float(special.ndtri((1 + level) / 2))
    rows, columns = np.triu_indices(len(names), 1)
    difference = values[rows] - values[columns]
    error = errors[rows, columns]
    with np.errstate(invalid="ignore", divide="ignore"):
        score = np.where(error > 1e-9, np.abs(difference) / error, np.where(difference, 40.0, 0.0))
    p_values = [resampling.number(p) for p in 2 * special.ndtr(-score)]
    adjusted = resampling.holm(p_values)
    method = "questions" if table == "best_of_n" else "pairs"
    return [
        Comparison(
            table=table, policy=policy, benchmark=benchmark, a=names[i], b=names[j],
            difference=resampling.around(d, z * e, n, method), p_value=p, p_adjusted=corrected,
            distinguishable=corrected is not None and corrected < 1 - level,
        )
        for i, j, d, e, p, corrected in zip(
            rows, columns, difference, error, p_values, adjusted, strict=True
        )
        if np.isfinite(d + e)
    ]  # fmt: skip


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
