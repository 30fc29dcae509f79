"""The two tables everything is computed from, and the small ones that describe them.

Pandas frames, one row a thing, columns as documented here; `Tables.check` refuses anything
else. The store writes them, an export holds them as Parquet, and nothing in this package
asks for more: analysis never touches a model.
"""

from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from bon.core.errors import BonError

COLUMNS: dict[str, tuple[str, ...]] = {
    # one row a downstream question; leaked: it is also in the reward benchmark
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
    # one row a sampled answer; outcome: parsed | unparsed | error; correct is False unless parsed
    # and right; logprob (summed over tokens) may be missing; length in characters. An optional
    # column pooled is False for a candidate that is not a sample of the policy (a greedy first
    # one). Optional together: official and strict, the letter that either reader reads, and
    # declined, whether the text declines to answer and states no letter
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
    # one row a preference pair; preferred is 0 or 1; response_0/1 are text keys; see PAIR_EXTRAS
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
    # one row a raw judgement (see records.Judgement); first/second are text keys in the order
    # shown, and first is the chosen one of a listwise judgement; outcome: first | second | tie |
    # scored | chosen | unparsed | error
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
    # family groups checkpoints of one base; size in parameters, missing where unknown
    "rewarders": ("rewarder", "kind", "family", "size"),
}

PAIR_EXTRAS: dict[str, str | float] = {"cluster": "", "set": "", "weight": 0.0}
"""Optional columns of `pairs` and what stands where a pair has none.

`cluster`: pairs about one thing, resampled together; `set`: pairs of one better response against
each of the worse ones; `weight`: how many pairs of a larger pool this one stands for (0: of none).
"""


@dataclass(frozen=True)
class Tables:
    """Everything analysis reads. Judgements of baselines are not here: they are computed."""

    questions: pd.DataFrame
    candidates: pd.DataFrame
    pairs: pd.DataFrame
    judgements: pd.DataFrame
    rewarders: pd.DataFrame
    meta: dict[str, Any] = field(default_factory=dict)

    def check(self) -> "Tables":
        """Return self, or raise BonError naming the first missing column."""
        for table, columns in COLUMNS.items():
            missing = [c for c in columns if c not in getattr(self, table).columns]
            if missing:
                raise BonError(
                    f"table {table!r} lacks column {missing[0]!r}",
                    f"its columns are {', '.join(columns)}",
                )
        return self
