"""Which rewarders can be distinguished: paired differences, corrected for how many there are."""

from collections.abc import Iterable
from typing import cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import special

from bon.analysis.estimators import resampling
from bon.analysis.results import Compared, Comparison, Estimate, Separation

Pair = tuple[str, str]


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
    """Every pair of R rewarders from accuracies (R) and standard errors of differences (R, R).

    The interval is normal; p is two-sided and corrected by Holm's method over all pairs of the
    table.
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
    made = []
    for k, (i, j) in enumerate(zip(rows, columns, strict=True)):
        d, e, p = float(difference[k]), float(error[k]), adjusted[k]
        if not np.isfinite(d + e):
            continue
        made.append(
            Comparison(
                table=table,
                policy=policy,
                benchmark=benchmark,
                a=names[i],
                b=names[j],
                difference=Estimate(value=d, low=d - z * e, high=d + z * e, n=n, method=method),
                p_value=p_values[k],
                p_adjusted=p,
                distinguishable=p is not None and p < 1 - level,
            )
        )
    return made


def paired(one: pd.DataFrame, other: pd.DataFrame, level: float = 0.95) -> dict[Pair, Estimate]:
    """How much better each rewarder chose in one run than in another, on shared questions.

    `choices` of two runs (bon.analysis.estimators.picks). By (policy, rewarder) of both: the mean
    difference of what was chosen, `one` minus `other`, with a normal interval from the spread
    of the differences between questions (needs two). Candidates may differ between the runs:
    then the policy's luck is part of the difference.
    """
    keys = ["policy", "rewarder", "question"]
    both = one[[*keys, "correct"]].merge(other[[*keys, "correct"]], on=keys).dropna()
    z = float(special.ndtri((1 + level) / 2))
    found = {}
    gaps = both["correct_x"] - both["correct_y"]
    for name, gap in gaps.groupby([both["policy"], both["rewarder"]], sort=False):
        policy, rewarder = map(str, cast("tuple[str, str]", name))
        mean, n = float(gap.mean()), len(gap)
        half = z * float(gap.std()) / np.sqrt(n) if n > 1 else None
        found[policy, rewarder] = Estimate(
            value=mean,
            low=None if half is None else mean - half,
            high=None if half is None else mean + half,
            n=n,
            method="questions" if half is not None else "none",
        )
    return found


def separations(comparisons: Iterable[Comparison]) -> list[Separation]:
    """How many pairs each table of comparisons distinguishes, tables in their order."""
    tables: dict[tuple[Compared, str | None, str | None], list[Comparison]] = {}
    for c in comparisons:
        tables.setdefault((c.table, c.policy, c.benchmark), []).append(c)
    return [
        Separation(
            table=table,
            policy=policy,
            benchmark=benchmark,
            num_pairs=len(found),
            num_distinguishable=sum(c.distinguishable for c in found),
        )
        for (table, policy, benchmark), found in tables.items()
    ]
