"""What each rewarder chose among all candidates of a question, by its headline rule."""

import numpy as np
import pandas as pd

from bon.analysis.data.arrays import Run, opinion
from bon.analysis.results import Results
from bon.choosing.rules import RULES

Picks = dict[tuple[str, str, str], tuple[int, ...]]
"""(policy, question key, rewarder) → indexes of the chosen candidates, several if they tie."""

_COLUMNS = ["policy", "question", "id", "rewarder", "rule", "picked", "correct"]


def choices(run: Run, results: Results) -> pd.DataFrame:
    """Return the choices behind the headline accuracies, one row per policy, question and rewarder.

    `picked`: indexes of the chosen candidates (several if they tie), separated by blanks;
    `correct`: the correct share of the choice. Choices are among all candidates, whatever the
    headline n. Nothing is picked where nothing was judged; `correct` is known even so if all
    candidates are correct or all wrong.
    """
    parts = [pd.DataFrame(columns=_COLUMNS)]
    for b in results.best_of_n:
        pool = run.pools.get(b.policy)
        if not b.headline or b.rewarder not in run.rewarders or pool is None:
            continue
        rated = opinion(run, pool.located, b.rewarder)
        if rated is None:
            continue
        rule, judged = RULES[b.rule], rated.is_judged()[:, None]
        rated = rated.fill_ties(pool.constant)
        chosen = np.where(judged, rule.choose(rated), np.nan)
        # A choice of the same accuracy, also known where a race was stopped.
        certain = np.where(judged, rule.certain(rated, pool.correct), np.nan)
        correct = np.where(np.isfinite(certain), certain * pool.correct, np.nan).sum(axis=1)
        frame = pd.DataFrame(
            {
                "policy": b.policy,
                "question": pool.frame["question"].astype(str),
                "id": pool.frame["id"].astype(str),
                "rewarder": b.rewarder,
                "rule": b.rule,
                "picked": [
                    " ".join(map(str, indexes[row > 0]))
                    for indexes, row in zip(pool.indexes, chosen, strict=True)
                ],
                "correct": np.where(pool.constant, pool.correct[:, 0], correct),
            }
        )
        parts.append(frame)
    return pd.concat(parts[1:], ignore_index=True) if len(parts) > 1 else parts[0]


def as_picks(frame: pd.DataFrame) -> Picks:
    """Return the choices by policy, question and rewarder."""
    columns = ("policy", "question", "rewarder", "picked")
    return {
        (policy, question, rewarder): tuple(map(int, picked.split()))
        for policy, question, rewarder, picked in zip(*(frame[c] for c in columns), strict=True)
        if picked
    }
