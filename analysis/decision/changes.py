"""Paired differences between two runs, and the questions behind them."""

import pandas as pd

from bon.analysis.estimators.comparisons import paired
from bon.analysis.results import Change, RunDifference
from bon.core.errors import BonError

SMALL = 1e-9


def run_differences(
    before: pd.DataFrame, after: pd.DataFrame, level: float = 0.95
) -> tuple[RunDifference, ...]:
    """Compare each policy and rewarder of both runs by their choices (estimators.picks).

    Raises:
        BonError: no rewarder chose in both runs on a shared question.
    """
    keys = ["policy", "rewarder", "question"]
    both = before[[*keys, "id", "correct"]].merge(after[[*keys, "correct"]], on=keys).dropna()
    moved = both[(both["correct_x"] - both["correct_y"]).abs() > SMALL]
    by_name = dict(list(moved.groupby(["policy", "rewarder"], sort=False)))
    results = []
    for (policy, rewarder), difference in paired(after, before, level).items():
        rows = by_name.get((policy, rewarder), moved.iloc[:0])
        changes = [
            Change(id=str(i), question=str(q), before=float(x), after=float(y))
            for i, q, x, y in rows[["id", "question", "correct_x", "correct_y"]].to_numpy()
        ]
        changes.sort(key=lambda c: (c.after - c.before, c.id))
        results.append(
            RunDifference(
                policy=policy, rewarder=rewarder, difference=difference, changed=tuple(changes)
            )
        )
    if not results:
        raise BonError(
            "the two runs share no rewarder that chose for the same policy on the same question",
            "compare runs of the same questions, with the same names of policies and rewarders",
        )
    return tuple(results)
