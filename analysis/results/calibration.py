"""The schema of calibration.json: a rewarder against labels (`bon calibrate`)."""

from typing import Literal

from bon.analysis.results.decision import Answer
from bon.analysis.results.record import SCHEMA_VERSION, Estimate, Record

Metric = Literal["accuracy", "tpr", "tnr", "precision", "npv", "kappa", "auc"]


class VerdictAccuracy(Record):
    """Verdicts against labels over `num_items` items, each counted once.

    `tpr` and `tnr`: share of right (wrong) items with that verdict; `precision` and `npv`: share of
    positive (negative) verdicts that are right; `kappa`: Cohen's.
    """

    name: str
    num_items: int
    base_rate: Estimate
    accuracy: Estimate
    tpr: Estimate
    tnr: Estimate
    precision: Estimate
    npv: Estimate
    kappa: Estimate


class FeatureBias(Record):
    """How much more often verdicts are positive with a feature of the text, at equal label."""

    feature: str
    num_items: int
    bias: Estimate


class RewarderCalibration(Record):
    """One rewarder against labels.

    `threshold`: scores from it on are a positive verdict; `cross_fitted` if it was chosen on other
    items. `lean`: how much more often the verdict is positive than the label (for pairs: towards
    the response shown first). `length_bias`: how much more often it is positive for the longer half
    of items of equal label. `self_consistency`: share of equal pairs of votes.
    """

    rewarder: str
    kind: Literal["answers", "pairs"]
    threshold: float | None
    cross_fitted: bool
    overall: VerdictAccuracy
    categories: tuple[VerdictAccuracy, ...]
    auc: Estimate
    lean: Estimate
    length_bias: Estimate
    biases: tuple[FeatureBias, ...] = ()
    self_consistency: Estimate
    cost_per_correct: float | None
    sentence: str
    warnings: tuple[str, ...]


class People(Record):
    """Agreement of the people who labelled: equal pairs of labels, and Krippendorff's alpha."""

    num_annotators: int
    num_items: int
    agreement: Estimate
    alpha: Estimate


class Calibration(Record):
    """The output of `bon calibrate`."""

    schema_version: str = SCHEMA_VERSION
    level: float
    labels: str
    rewarders: tuple[RewarderCalibration, ...]
    people: People | None = None
    left_out: str = ""


class Requirement(Record):
    """A minimum of one metric, and whether a rewarder's interval meets it."""

    rewarder: str
    metric: Metric
    minimum: float
    value: Estimate
    answer: Answer


class CorrectedAccuracy(Record):
    """Accuracy of a rewarder's choices under the grader, and corrected by labels."""

    policy: str
    rewarder: str
    graded: Estimate
    corrected: Estimate


class GraderCheck(Record):
    """A grader against labels of some answers: its errors, and accuracies without them."""

    num_labelled: int
    share_labelled: float
    right_as_right: Estimate
    wrong_as_wrong: Estimate
    accuracies: tuple[CorrectedAccuracy, ...]
