"""The schema of uplift.json: gains by training (`bon uplift`)."""

from typing import Literal

from bon.analysis.results.record import SCHEMA_VERSION, Estimate, Record


class TrainedArm(Record):
    """One arm: what was trained on its choices, against the untrained policy.

    `greedy` and `sampled`: gain in accuracy, over questions and seeds; `over_random`: greedy
    accuracy against the arm trained on random choices, the zero line. `length` and `unread`: of
    sampled responses, against the untrained policy.
    """

    arm: str
    method: str
    reference: bool
    num_seeds: int
    benchmark: float | None = None
    best_of_n: Estimate | None = None
    greedy: Estimate
    sampled: Estimate
    over_random: Estimate | None = None
    length: float
    unread: float
    hurts: bool = False


class UpliftCorrelation(Record):
    """r between two axes over rewarders; no interval below eight rewarders."""

    method: str
    x: Literal["benchmark", "best_of_n"]
    num_rewarders: int
    r: Estimate
    spearman: float | None


class UpliftMethod(Record):
    """One training method: how much of the spread between rewarders is not noise."""

    method: str
    spread: float
    noise: float
    reliability: float | None
    correlations: tuple[UpliftCorrelation, ...]
    sentence: str


class Uplift(Record):
    """The output of `bon uplift`."""

    schema_version: str = SCHEMA_VERSION
    policy: str
    num_questions: int
    num_unjudged: int
    num_unjudged_by_key: int
    num_evaluated: int
    greedy: float
    sampled: float
    arms: tuple[TrainedArm, ...]
    methods: tuple[UpliftMethod, ...]
    warnings: tuple[str, ...] = ()
