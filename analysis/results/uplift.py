"""The schema of uplift.json: gains by training, by `bon uplift` or measured elsewhere."""

from bon.analysis.results.record import SCHEMA_VERSION, Estimate, Record

REFERENCES = ("random", "majority", "oracle")
"""Arms without a rewarder; `random` is the zero line."""

PREDICTORS = {
    "benchmark": "the benchmark",
    "best_of_n": "the gain by choosing",
}
"""What may predict a gain: fields of TrainedArm with their names."""


class TrainedArm(Record):
    """One arm: what was trained on its choices, against the untrained policy.

    `greedy` and `sampled`: gain in accuracy, over questions and seeds; `over_random`: greedy
    accuracy against the arm trained on random choices, the zero line. `hurts`: the
    rewarder helps choosing and hurts training.
    """

    arm: str
    method: str
    reference: bool
    num_seeds: int
    benchmark: float | None = None
    best_of_n: Estimate | None = None
    greedy: Estimate
    sampled: Estimate | None = None
    over_random: Estimate | None = None
    hurts: bool = False


class UpliftCorrelation(Record):
    """r of gains by training with what may predict them, over rewarders.

    `x`: a column of TrainedArm, or a benchmark score of a table. Intervals as of the main
    correlation: none over fewer than five base models that rewarders share.
    """

    policy: str = ""
    method: str
    x: str
    num_rewarders: int
    r: Estimate
    spearman: Estimate


class UpliftMethod(Record):
    """One training method: how much of the spread between rewarders is not noise."""

    method: str
    spread: float
    reliability: float | None
    correlations: tuple[UpliftCorrelation, ...]
    sentence: str


class Uplift(Record):
    """Gains by training of one policy."""

    schema_version: str = SCHEMA_VERSION
    policy: str
    num_questions: int = 0
    num_evaluated: int = 0
    greedy: float | None = None
    sampled: float | None = None
    arms: tuple[TrainedArm, ...]
    methods: tuple[UpliftMethod, ...]
    warnings: tuple[str, ...] = ()
