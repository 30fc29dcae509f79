"""The tables that analysis reads: pandas frames with the columns documented here.

The store writes them, an export holds them as Parquet; analysis never touches a model.
"""

from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from bon.core.errors import BonError

COLUMNS: dict[str, tuple[str, ...]] = {
    # one row per downstream question; leaked: it is also in the reward benchmark. The optional
    # column cluster names questions that are resampled together
    "questions": (
        "question",
        "id",
        "dataset",
        "subject",
        "difficulty",
        "num_options",
        "answer",
        "leaked",
    ),
    # one row per sampled answer; outcome: parsed | unparsed | error; correct is the credit
    # from 0 (or False) to 1, and 0 unless parsed; logprob (summed over tokens) may be missing;
    # length in characters. The optional column pooled is False for a candidate that is not a
    # sample (a greedy first one).
    "candidates": (
        "question",
        "policy",
        "index",
        "text_key",
        "answer",
        "outcome",
        "correct",
        "length",
        "num_tokens",
        "logprob",
    ),
    # one row per preference pair; preferred is 0 or 1; response_0/1 are text keys; see PAIR_EXTRAS.
    # length in characters; the optional columns words_0/1 hold that in words
    "pairs": (
        "pair",
        "id",
        "benchmark",
        "group",
        "tag",
        "preferred",
        "response_0",
        "response_1",
        "length_0",
        "length_1",
        "leaked",
    ),
    # one row per judgement (see records.Judgement); first/second are text keys in the order
    # shown, first the chosen one of a listwise judgement; outcome: first | second | tie |
    # scored | chosen | unparsed | error. The optional column policies names those, separated by
    # commas, on whose candidates a list or a tournament's match was asked for; where it is missing
    # a judgement counts for every policy that has the responses. The index of a run's table is the
    # key of the judgement
    "judgements": (
        "rewarder",
        "item_kind",
        "item",
        "first",
        "second",
        "vote",
        "outcome",
        "score",
        "num_tokens",
        "seconds",
        "cost",
    ),
    # one row per rewarder; kind: pairwise | pointwise | scalar | likelihood | listwise | ...;
    # family groups checkpoints of one base; size in parameters, missing where unknown. The optional
    # columns maker and model say who trained it, and which checkpoint it is
    "rewarders": ("rewarder", "kind", "family", "size"),
}

PAIR_EXTRAS: dict[str, str | float] = {"cluster": "", "set": "", "weight": 0.0, "f1": ""}
"""Optional columns of `pairs` and their defaults.

`cluster`: pairs that are resampled together; `set`: pairs of one better response against each
worse one; `weight`: number of pairs of a larger pool that this one represents (0: none); `f1`: what
the macro score is the F1 of, `solutions` (the harmonic mean of a subset's two groups, named SUBSET:
…) or `steps` (the mean of F1 of both groups).
"""


@dataclass(frozen=True)
class Tables:
    """The input of an analysis, without baselines, which are computed."""

    questions: pd.DataFrame
    candidates: pd.DataFrame
    pairs: pd.DataFrame
    judgements: pd.DataFrame
    rewarders: pd.DataFrame
    meta: dict[str, Any] = field(default_factory=dict)

    def check(self) -> "Tables":
        """Return self; raise BonError for a missing column."""
        for table, columns in COLUMNS.items():
            missing = [c for c in columns if c not in getattr(self, table).columns]
            if missing:
                raise BonError(
                    f"table {table!r} lacks column {missing[0]!r}",
                    f"its columns are {', '.join(columns)}",
                )
        return self
