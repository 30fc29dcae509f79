"""Paired differences between two runs, and the questions behind them."""

from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from bon.analysis.estimators.resampling import around
from bon.analysis.results import Change, RunDifference
from bon.core.errors import BonError

SMALL = 1e-9


def run_differences(
    before: pd.DataFrame, after: pd.DataFrame, level: float = 0.95
) -> tuple[RunDifference, ...]:
    """Compare each policy and rewarder of both runs by their choices (estimators.picks).

    Differences are means over shared questions, with normal intervals from their spread (two
    questions or more). Where candidates differ between the runs, so does the policy's luck.

    Raises:
        BonError: no rewarder chose in both runs on a shared question.
    """
    keys, z = ["policy", "rewarder", "question"], special.ndtri((1 + level) / 2)
    both = before[[*keys, "id", "correct"]].merge(after[[*keys, "correct"]], on=keys).dropna()
    both = both.rename(columns={"correct_x": "before", "correct_y": "after"})
    both["gap"] = both["after"] - both["before"]
    differences = []
    groups: Any = both.groupby(["policy", "rewarder"], sort=False)
    for (policy, rewarder), rows in groups:
        half = z * rows["gap"].std() / np.sqrt(len(rows))  # NaN for one question
        moved = rows[rows["gap"].abs() > SMALL].sort_values(["gap", "id"])
        fields = moved[["id", "question", "before", "after"]].astype({"id": str}).to_dict("records")
        differences.append(
            RunDifference(
                policy=policy,
                rewarder=rewarder,
                difference=around(rows["gap"].mean(), half, len(rows), "questions"),
                changed=tuple(Change(**change) for change in fields),
            )
        )
    if not differences:
        raise BonError(
            "the two runs share no rewarder that chose for the same policy on the same question",
            "compare runs of the same questions, with the same names of policies and rewarders",
        )
    return tuple(differences)
