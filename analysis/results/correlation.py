"""Benchmark accuracy against Best-of-N accuracy, over the rewarders."""

from typing import Literal

from bon.analysis.results.record import Estimate, Leaks, Record

ENOUGH_BASES = 5
"""Bases from which on an interval of r holds; docs/statistics.md."""


class Point(Record):
    """One rewarder in the correlation plot; `x` benchmark accuracy, `y` Best-of-N accuracy.

    `before`: the rewarder that it was before it was trained, if that is known.
    """

    rewarder: str
    x: Estimate
    y: Estimate
    family: str = ""
    before: str = ""
    rule: str = ""


PermutationMethod = Literal[
    "exact permutation", "sampled permutation", "normal", "jackknife over bases", "none"
]


class Coefficient(Record):
    """A correlation coefficient. `estimate` carries the interval to read.

    `bootstrap` resamples rewarders and questions together, `fisher` is the parametric interval,
    `jackknife` (of Pearson's r) leaves rewarders out; `read` says which of them `estimate`
    holds and why. `p_parametric` is the p of Student's t, which papers print; `p_value` is the
    permutation's. Where rewarders share bases, `estimate` and `p_value` allow for that, or have
    no bounds and no p; the others still take every rewarder for independent.
    """

    estimate: Estimate
    bootstrap: Estimate | None
    fisher: Estimate | None
    jackknife: Estimate | None = None
    p_value: float | None
    p_method: PermutationMethod
    p_parametric: float | None = None
    p_adjusted: float | None = None
    read: str = ""


class LeaveOneOut(Record):
    """The correlation without one rewarder (or one family); `leverage` in [0, 1]."""

    left_out: str
    pearson: float | None
    p_value: float | None
    spearman: float | None
    leverage: float | None = None
    cooks_distance: float | None = None


class Clusters(Record):
    """Two groups of rewarders far apart on the benchmark, between which r is made.

    `within`: Pearson's r of what is left when each group's means are taken out.
    """

    lower: tuple[str, ...]
    upper: tuple[str, ...]
    within: float | None
    p_value: float | None


class Apart(Record):
    """Rewarders far below all others, which leave r without an interval; r among the `others`."""

    rewarders: tuple[str, ...]
    others: Estimate


class LeaveTwoOut(Record):
    """The range of r when any two are left out; `left_out` are the two that give the lowest."""

    left_out: tuple[str, str]
    lowest: float
    highest: float


class SmallestSet(Record):
    """The smallest set of rewarders without which r is not what the verdict needs.

    `pearson` and `p_value` (Student's t) without them; `exact`: no smaller set does it, because
    all were tried; otherwise one may. `carries`: so few that they carry the result.
    """

    left_out: tuple[str, ...]
    pearson: float | None
    p_value: float | None
    exact: bool
    carries: bool


class BetterHalf(Record):
    """r among the rewarders at or above `edge`, the median score.

    `expected`: what r over all would lead to expect over so narrow a range, by the formula for
    restricted range; `holds`: high enough to support a yes.
    """

    num_rewarders: int
    edge: float
    pearson: Estimate
    expected: float | None
    holds: bool


class Families(Record):
    """Rewarders that share bases: which interval of r allows for that, and r in both parts.

    `interval` leaves bases out, and has no bounds where there are too few of them. `within`: r
    of what is left when each base's means are taken out; `between`: r of the bases' means.
    """

    num_families: int
    largest: int
    interval: Estimate
    within: Estimate
    between: Estimate
    sentence: str

    @property
    def enough(self) -> bool:
        """Whether they are of enough bases for an interval."""
        return self.num_families >= ENOUGH_BASES


class BandPoint(Record):
    """The fitted line at x: its confidence band and its prediction band, None with few bases."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None
    predict_low: float | None = None
    predict_high: float | None = None


class Fit(Record):
    """Least squares y = intercept + slope · x. `band` covers the range of the points.

    Bounds and bands take rewarders for independent; with fewer than five bases there are none.
    """

    slope: Estimate
    intercept: Estimate
    residual_sd: float | None
    band: tuple[BandPoint, ...]


class Reliability(Record):
    """How much of the spread on either axis is not noise.

    `x`, `y`: correlation of repeated measurements (split halves, stepped up).
    `ceiling`: the highest r that this much data could show, sqrt(x · y).
    `disattenuated`: r corrected for attenuation.
    """

    x: Estimate
    y: Estimate
    ceiling: Estimate
    disattenuated: Estimate


class PairAgreement(Record):
    """How often the benchmark orders two rewarders as Best-of-N does.

    `separable`: among the pairs that both axes can distinguish. `brier`: mean squared error of
    the benchmark's probability that a beats b against what Best-of-N shows. `separability_*`:
    share of pairs whose difference has an interval that excludes zero.
    """

    num_pairs: int
    agreement: Estimate
    num_separable: int
    agreement_separable: Estimate
    brier: Estimate
    separability_x: Estimate
    separability_y: Estimate


Given = Literal["size", "length_bias"]


class Partial(Record):
    """Pearson correlation given a third quantity of the rewarders."""

    given: Given
    estimate: Estimate
    p_value: float | None


class Correlation(Record):
    """Benchmark accuracy against Best-of-N accuracy at n, over the rewarders, for one policy."""

    policy: str
    benchmark: str
    axis: str
    leaks: Leaks
    n: int | None
    primary: bool
    num_rewarders: int
    points: tuple[Point, ...]
    pearson: Coefficient
    spearman: Coefficient
    kendall: Coefficient
    fit: Fit | None
    leave_one_out: tuple[LeaveOneOut, ...] = ()
    leave_family_out: tuple[LeaveOneOut, ...] = ()
    carried_by: str | None = None
    carried_by_family: str | None = None
    clusters: Clusters | None = None
    apart: Apart | None = None
    leave_two_out: LeaveTwoOut | None = None
    smallest_set: SmallestSet | None = None
    better_half: BetterHalf | None = None
    families: Families | None = None
    reliability: Reliability | None = None
    agreement: PairAgreement | None = None
    partial: tuple[Partial, ...] = ()
    sentence: str
    influence_sentence: str = ""


class CorrelationAtN(Record):
    """One point of r against n."""

    n: int
    pearson: Estimate
    spearman: Estimate


class CorrelationByN(Record):
    """How r changes with n, on the primary axis."""

    policy: str
    benchmark: str
    axis: str
    leaks: Leaks
    points: tuple[CorrelationAtN, ...]
    sentence: str


class PolicySlope(Record):
    """The fit of one policy within a pooled analysis."""

    policy: str
    num_rewarders: int
    pearson: Estimate
    slope: Estimate


class Pooled(Record):
    """Several policies together: own intercepts, one slope, and whether one slope will do.

    `pearson` is the mean of the policies' coefficients on Fisher's scale; `i_squared` the
    share of the spread of slopes that is more than noise, `tau` that spread.
    """

    benchmark: str
    axis: str
    leaks: Leaks
    policies: tuple[PolicySlope, ...]
    pearson: Estimate
    slope: Estimate
    heterogeneity_q: float | None
    heterogeneity_p: float | None
    i_squared: float | None
    tau: float | None
    sentence: str
