"""The schema of uplift.json: gains by training, by `bon uplift` or measured elsewhere."""

from bon.analysis.results.record import SCHEMA_VERSION, Estimate, Record

REFERENCES = ("random", "majority", "oracle")
"""Arms without a rewarder; `random` is the zero line."""

PREDICTORS = {
    "benchmark": "the benchmark",
    "best_of_n": "the gain by choosing",
    "pair_accuracy": "accuracy on the policy's own pairs",
    "score_variance": "variance of scores within questions",
}
"""What may predict a gain: fields of TrainedArm with their names."""


class TrainedArm(Record):
    """One arm: what was trained on its choices, against the untrained policy.

    `greedy` and `sampled`: gain in accuracy, over questions and seeds (imported outcomes have the
    first alone); `over_random`: greedy accuracy against the arm trained on random choices, the
    zero line. Side effects on sampled responses: `length` (characters), `unread`, `entropy` (nats
    per response), `answer_share` of the `answer` that became more frequent; `drift` names flagged
    ones, and `chooses` what the choices themselves favour. `kl`: KL(trained ‖ untrained) in nats
    per response, by Schulman's k3 (2020) on sampled responses. `pair_accuracy`:
    of a right against a wrong response of the policy; `score_variance`: share of the variance of
    scores that lies within questions.
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
    length: Estimate | None = None
    unread: Estimate | None = None
    entropy: Estimate | None = None
    answer: str = ""
    answer_share: Estimate | None = None
    drift: tuple[str, ...] = ()
    chooses: tuple[str, ...] = ()
    kl: Estimate | None = None
    pair_accuracy: float | None = None
    score_variance: float | None = None
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
    """Gains by training of one policy; imported ones have no numbers of questions."""

    schema_version: str = SCHEMA_VERSION
    policy: str
    imported: bool = False
    num_questions: int = 0
    num_evaluated: int = 0
    greedy: float | None = None
    sampled: float | None = None
    arms: tuple[TrainedArm, ...]
    methods: tuple[UpliftMethod, ...]
    warnings: tuple[str, ...] = ()
