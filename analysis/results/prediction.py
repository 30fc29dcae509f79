"""Predictions for a new rewarder, and the size that a study needs."""

from bon.analysis.results.record import Estimate, PerAxis, Record


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
    """What simulated studies of one size say: shares of Yes, of at least Probably, and of No."""

    num_rewarders: int
    num_bases: int
    num_questions: int
    num_pairs: int
    yes: float
    probably: float
    no: float


class Needed(Record):
    """What a new study would say: the first of `rows` is of this size, the others are larger.

    True r is drawn from its posterior. `best`: what raises Probably most, empty if nothing does.
    """

    benchmark: str
    rows: tuple[NeededRow, ...]
    best: str = ""
    sentence: str
