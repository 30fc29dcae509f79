"""Gains by trainings that were measured elsewhere, and what predicted gains over rewarders.

A table has one row per rewarder, method and seed, with the accuracy of the policy `before` and
`after` training, optionally `n` (questions behind them) or one row per `question`. A table of
published numbers may also have a column per method (`ppo`, `dpo`, `outcome`), of any unit.
"""

import re
from collections.abc import Iterable

import numpy as np
import pandas as pd

from bon.analysis.correlation.coefficients import coefficient
from bon.analysis.correlation.paired_accuracies import Measured
from bon.analysis.results import UpliftCorrelation
from bon.core.errors import BonError

METHODS = r"outcome|trained|training|uplift|ppo|r?dpo|grpo|rloo|raft|sft|rlhf|rl"
OUTCOME = re.compile(rf"({METHODS})([ _.-].*)?", re.IGNORECASE)
DRAWS = 2000
BEFORE, AFTER = "before", "after"


def correlation_of(
    method: str,
    x: str,
    rows: Iterable[tuple[str, str, float | None, float | None]],
    level: float = 0.95,
    *,
    policy: str = "",
) -> UpliftCorrelation:
    """Correlate gains with a predictor over rows of rewarder, base model, predictor and gain.

    Intervals are chosen as those of the main correlation.
    """
    known = [row for row in rows if row[2] is not None and row[3] is not None]
    names, families, xs, ys = zip(*known, strict=True) if known else ((), (), (), ())
    x_axis, y_axis = (np.array(values, dtype=float) for values in (xs, ys))
    m = Measured(names, x_axis, y_axis, (), (), families=families)
    r, rank = (coefficient(m, c, level).estimate for c in ("pearson", "spearman"))
    return UpliftCorrelation(
        policy=policy, method=method, x=x, num_rewarders=len(known),
        r=r, spearman=rank,
    )  # fmt: skip


def as_fractions(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the table with accuracies before and after as fractions; BonError for other values."""
    for column in (BEFORE, AFTER):
        if column not in frame or not pd.api.types.is_numeric_dtype(frame[column]):
            raise BonError(
                f"no numbers in column {column!r}",
                "write the accuracy of the policy before and after training",
            )
        if frame[column].isna().any():
            row = int(np.argmax(frame[column].isna())) + 1
            raise BonError(f"row {row} has no {column!r}", "fill the cell, or drop the row")
    values = frame[[BEFORE, AFTER]].to_numpy()
    unit = 100.0 if values.max() > 1.5 else 1.0
    if values.min() < 0 or values.max() > unit:
        raise BonError(
            "columns 'before' and 'after' hold a value outside 0 to 100",
            "write accuracies, in percent or as fractions",
        )
    return frame.assign(**{c: frame[c] / unit for c in (BEFORE, AFTER)})


def widened(frame: pd.DataFrame, rewarder: str, policy: str | None) -> pd.DataFrame:
    """Return one row per rewarder and policy, its gains over seeds as one column per method."""
    keys = [c for c in (policy, rewarder) if c is not None]
    frame = as_fractions(frame)
    for column, value in (("method", "outcome"), ("seed", 0)):
        frame[column] = frame.get(column, value)
    by_seed = (frame[AFTER] - frame[BEFORE]).groupby([frame[c] for c in (*keys, "method", "seed")])
    gains = by_seed.mean().groupby([*keys, "method"]).mean().unstack("method")
    names = {c: c if OUTCOME.fullmatch(str(c)) else f"trained {c}" for c in gains.columns}
    own = [c for c in ("method", "seed", BEFORE, AFTER, "n", "question") if c in frame]
    about = frame.drop(columns=own).groupby(keys, sort=False).first()
    return about.join(gains.rename(columns=names)).reset_index()
