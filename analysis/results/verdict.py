"""The verdict on one reward benchmark: does it predict which rewarder picks better answers?"""

from typing import Literal

from bon.analysis.results.correlation import Point
from bon.analysis.results.record import Estimate, Leaks, Record

Word = Literal["yes", "probably", "perhaps", "no", "weak", "reverse", "cannot tell"]
"""`weak` and `reverse` are two kinds of no: r lies between 0 and .5, or below 0."""

STRONG = 0.5
"""The r of true accuracies above which a benchmark predicts."""

YES, PROBABLY, SURE = 0.95, 0.8, 0.95
"""Probabilities from which the words hold; `SURE` is that of the other words."""

HELD = {"yes": PROBABLY, "probably": 0.5}
"""P(yes) that must remain without any one rewarder, and without any one maker."""


class Without(Record):
    """P(yes) when a rewarder, or all rewarders of a maker, are left out."""

    left_out: str
    p_yes: float


class PolicyVerdict(Record):
    """P(yes) for one policy."""

    policy: str
    p_yes: float


class Adjusted(Record):
    """r of true accuracies at equal covariates, such as size."""

    covariates: tuple[str, ...]
    r: Estimate
    p_yes: float


class Verdict(Record):
    """The verdict on a benchmark, over the rewarders that it shares with all policies.

    Several policies: of the mean of their accuracies; `policies` is P(yes) of each alone.
    r: of true accuracies, with measurement error removed: median and central interval of its
    posterior. p_yes: P(one line) · P(r > .5). p_low: P(r < .5), None without counts on both axes,
    as are reliabilities. p_positive: P(r > 0). line, groups, ceiling: probabilities of the accounts
    of the points. beats: P(the higher of two rewarders `gap` apart on the benchmark picks better);
    gap: None where its scores are no proportions: a standard deviation.
    density: posterior of r on an even grid from −.99 to .99. weakest, weakest_maker: what lowers
    P(yes) most when left out. guessed: P(yes) where base models guessed from names are read the
    other way, as shared or as different. adjusted: at equal size and other known properties.
    outcome: the column of a published table.
    """

    benchmark: str = ""
    axis: str = ""
    leaks: Leaks = "in"
    outcome: str = ""
    word: Word
    num_rewarders: int
    num_bases: int
    p_yes: float
    p_low: float | None
    p_positive: float
    r: Estimate
    line: float
    groups: float
    ceiling: float
    reliability_x: float | None
    reliability_y: float | None
    beats: float
    gap: float | None
    density: tuple[float, ...]
    weakest: Without | None = None
    weakest_maker: Without | None = None
    guessed: float | None = None
    adjusted: Adjusted | None = None
    policies: tuple[PolicyVerdict, ...] = ()
    points: tuple[Point, ...] = ()
