"""Predictions for a new rewarder, and the size that a study needs."""

from bon.analysis.results.record import Estimate, Leaks, PerAxis, Record


class Prediction(Record):
    """A new rewarder with this benchmark score; prediction intervals for one rewarder."""

    x: float
    accuracy: Estimate
    gain: Estimate
    probability_above_majority: float | None


class WhatIf(PerAxis):
    """Predictions over the range of benchmark scores."""

    rows: tuple[Prediction, ...]
    sentence: str


class NeededRow(Record):
    """What simulated studies of one size show.

    `power`: share whose interval lies above the target; `yes`: share whose verdict is yes.
    """

    num_rewarders: int
    num_questions: int
    num_pairs: int
    power: float
    yes: float | None = None


class Needed(Record):
    """The size of study that shows r > `target_r`, given `true_r` (corrected for noise).

    Of as many questions as this run has, `num_rewarders`: the fewest with a power of 80%;
    `num_for_yes`: the fewest with a yes in 80%.
    """

    policy: str
    benchmark: str
    target_r: float
    true_r: float
    rows: tuple[NeededRow, ...]
    num_rewarders: int | None
    num_for_yes: int | None = None
    sentence: str


class SizePoint(Record):
    """Random subsets of the benchmark with this many pairs.

    `pearson`: mean r with the median of the subsets' intervals; `subsets`: mean r with the range
    of 95% of the subsets; `loss`: regret of the subset's pick.
    """

    num_pairs: int
    share: float
    pearson: Estimate
    subsets: Estimate
    loss: Estimate


class HowMuch(PerAxis):
    """r and regret with fewer pairs, on the primary axis."""

    leaks: Leaks
    sizes: tuple[SizePoint, ...]
    sentences: tuple[str, ...]
