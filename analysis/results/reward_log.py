"""The report of a training run's rewards (`bon report` on a reward log)."""

from typing import Literal

from bon.analysis.results.record import Estimate, Record

Quantity = Literal[
    "score", "reward", "correct", "told_apart", "characters", "length_pull", "spread", "flat",
    "distinct", "parsed", "consistency",
]  # fmt: skip
"""Quantities per group of responses:

- score: the rewarder's own number; reward: what the trainer received, on its scale
- correct: share of right responses, where the question set has answers
- told_apart: share of (right, wrong) pairs that the score orders correctly
- characters: length of a response; length_pull: its correlation with the score within a group
- spread: standard deviation of a group's scores; flat: share of groups with equal rewards
- distinct: share of a group's responses that differ
- parsed, consistency: quality of the judging
"""

SHARES: tuple[Quantity, ...] = (
    "correct", "told_apart", "flat", "distinct", "parsed", "consistency",
)  # fmt: skip


class Stretch(Record):
    """Means over the groups `first` to `last` (from 0)."""

    first: int
    last: int
    values: dict[Quantity, Estimate]


class Drift(Record):
    """A quantity in the first and in the last fifth of the groups."""

    quantity: Quantity
    early: Estimate
    late: Estimate
    change: Estimate


RewardVerdict = Literal["improves", "over-optimised", "no gain", "rises", "steady", "cannot tell"]


class TrainingReport(Record):
    """Rewards of one training run over time."""

    run: str
    rewarders: tuple[str, ...]
    rules: tuple[str, ...]
    scales: tuple[str, ...]
    num_rewards: int
    num_groups: int
    num_questions: int
    missing: int
    seconds: float
    cost: float
    fixed: bool
    verdict: RewardVerdict
    sentence: str
    signals: tuple[str, ...]
    cautions: tuple[str, ...]
    spans: tuple[Stretch, ...]
    drifts: tuple[Drift, ...]
