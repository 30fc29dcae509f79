"""What training does beside accuracy: longer responses, unread answers, less entropy, one answer.

All effects are of sampled responses, question by question, against the untrained policy. An arm is
flagged where an effect exceeds that of training on random choices (else none at all) by at least
the size below, two-sided p after Holm's correction over arms and effects, and after Bonferroni's
over the answers of which the most preferred is taken.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from bon.analysis.estimators.resampling import Draws, estimate, holm, quantiles
from bon.analysis.results import Estimate, TrainedArm

LENGTH, UNREAD, ENTROPY, ANSWER = "length", "unread", "entropy", "answer "
LONGER, MORE_UNREAD, MORE_OFTEN = 0.01, 0.01, 0.03
"""Sizes to flag: share of the untrained length, share of responses, share of answers."""


def effects_of(candidates: pd.DataFrame) -> pd.DataFrame:
    """Return means by policy and question (columns: length, unread, entropy, each option letter).

    Entropy: minus the log-probability of sampled responses, in nats per response.
    """
    table = candidates[["policy", "question"]].assign(
        **{
            LENGTH: candidates["length"].astype(float),
            UNREAD: (candidates["outcome"] != "parsed").astype(float),
            ENTROPY: -candidates["logprob"].astype(float),
        }
    )
    letters = sorted({a for a in candidates["answer"].dropna() if len(a) == 1 and a.isalpha()})
    for letter in letters:
        table[ANSWER + letter] = (candidates["answer"] == letter).astype(float)
    return table.groupby(["policy", "question"]).mean()


def with_side_effects(
    arms: list[TrainedArm], tables: Mapping[str, pd.DataFrame], base: pd.DataFrame, draws: Draws,
    level: float,
) -> list[TrainedArm]:  # fmt: skip
    """Return the arms of one method with their side effects, flagged; tables by arm."""
    zero = tables.get("random", base)
    names = [str(name) for name in base]
    letters = [name for name in names if name.startswith(ANSWER)]
    updates: list[dict[str, Any]] = []
    tests: list[tuple[bool, float, str]] = []
    for arm in arms:
        change = (tables[arm.arm] - base)[names]
        excess = (tables[arm.arm] - (zero if arm.arm != "random" else base))[names]
        means, p = excess.mean(), dict(zip(names, _p_values(excess), strict=True))
        update = dict(zip(names, _estimates(change, draws, level), strict=True))
        favourite = max(letters, key=means.to_dict().__getitem__, default="")
        tests += [
            (bool(means[LENGTH] >= LONGER * base[LENGTH].mean()), p[LENGTH], "longer responses"),
            (bool(means[UNREAD] >= MORE_UNREAD), p[UNREAD], "more unread answers"),
            (
                bool(favourite and means[favourite] >= MORE_OFTEN),
                min(1.0, len(letters) * p.get(favourite, 1.0)),
                f"prefers {favourite.removeprefix(ANSWER)}",
            ),
        ]
        updates.append(
            {name: update[name] for name in (LENGTH, UNREAD, ENTROPY)}
            | {"answer": favourite.removeprefix(ANSWER), "answer_share": update.get(favourite)}
        )
    flags = [
        text if large and adjusted is not None and adjusted < 1 - level else ""
        for (large, _, text), adjusted in zip(tests, holm([p for _, p, _ in tests]), strict=True)
    ]
    return [
        arm.model_copy(update=update | {"drift": tuple(filter(None, flags[3 * i : 3 * i + 3]))})
        for i, (arm, update) in enumerate(zip(arms, updates, strict=True))
    ]


def _p_values(excess: pd.DataFrame) -> list[float]:
    """Return two-sided p of each column's mean (t): draws have too few for Holm's correction."""
    t = (excess.mean() / excess.sem()).fillna(0.0)
    return [float(2 * stats.t.sf(abs(value), len(excess) - 1)) for value in t]


def _estimates(change: pd.DataFrame, draws: Draws, level: float) -> list[Estimate]:
    values = change.to_numpy()
    low, high = quantiles(draws.means(values), level, len(values))
    return [
        estimate(v, a, b, len(values), "questions")
        for v, a, b in zip(np.mean(values, axis=0), low, high, strict=True)
    ]
