"""Accuracy under both answer extractors, and how many candidates decline to answer."""

import numpy as np
import pandas as pd

from bon.analysis.data.arrays import Run
from bon.analysis.estimators.choices import Study
from bon.analysis.estimators.resampling import from_draws
from bon.analysis.results import Readers
from bon.analysis.results.phrasing import percent

WARN = 0.02
"""Share of candidates read differently, or declined, from which on the report warns."""


def readers(run: Run, s: Study) -> Readers | None:
    """Compare both extractors on the pool of a study; None where the tables hold only one."""
    candidates = run.tables.candidates
    if "strict" not in candidates:
        return None
    pool = s.pool
    q, m = pool.indexes.shape
    index = pd.MultiIndex.from_arrays(
        [pool.frame["question"].repeat(m).to_numpy(), pool.indexes.ravel()]
    )
    own = candidates[candidates["policy"] == pool.policy]
    own = own.set_index(["question", "index"]).loc[index]
    if own["strict"].isna().all() and own["official"].isna().all():
        return None
    right = pool.frame["answer"].repeat(m).to_numpy()
    official, strict = (own[r].fillna("").to_numpy(object) for r in ("official", "strict"))
    declined = own["declined"].to_numpy(bool)
    credited = declined & (official == right)
    flags = np.stack([official != strict, official == right, strict == right, declined])
    values = flags.reshape(4, q, m).mean(axis=2).T
    free = (pool.frame["num_options"] == 0).to_numpy()  # a grader read these, alike for both
    values[free, 1:3] = pool.correct[free].mean(axis=1, keepdims=True)
    differ, by_official, by_strict, declines = from_draws(
        values.mean(axis=0), s.draws.means(values), q, "questions", s.options.level
    )
    return Readers(
        policy=pool.policy,
        used=str(run.tables.meta.get("readers", {}).get(pool.policy, "")),
        num_candidates=q * m,
        differ=differ,
        official=by_official,
        strict=by_strict,
        declined=declines,
        num_declined=int(declined.sum()),
        num_declined_read=int((declined & (official != "")).sum()),
        num_declined_right=int(credited.sum()),
    )


def warnings(r: Readers) -> list[str]:
    """Return warnings in words."""
    texts = []
    if (r.differ.value or 0) > WARN:
        used = f"; this run uses the {r.used} one" if r.used else ""
        texts.append(
            f"{r.policy}: the two answer readers read {percent(r.differ.value)} of "
            f"candidates differently. A random candidate is right in "
            f"{percent(r.official.value)} by the official reader and in "
            f"{percent(r.strict.value)} by the strict one{used}."
        )
    if (r.declined.value or 0) > WARN:
        texts.append(
            f"{r.policy}: {percent(r.declined.value)} of candidates decline to answer. Of "
            f"these {r.num_declined:,}, the official reader takes {r.num_declined_read:,} "
            f"for a letter, and {r.num_declined_right:,} for the right one."
        )
    return texts
