"""Correlations of benchmark accuracy with Best-of-N accuracy over rewarders."""

from typing import Literal

from bon.analysis.results.record import Estimate, Leaks, PerAxis, Record

ENOUGH_BASES = 5
"""Base models from which on an interval of r holds; docs/statistics.md."""


class Point(Record):
    """One rewarder: `x` benchmark accuracy, `y` Best-of-N accuracy."""

    rewarder: str
    x: Estimate
    y: Estimate
    family: str = ""
    rule: str = ""


PermutationMethod = Literal[
    "exact permutation",
    "sampled permutation",
    "normal",
    "jackknife over families",
    "none",
]


class Coefficient(Record):
    """A correlation coefficient; `estimate` has the interval to read, `read` says which.

    `bootstrap` resamples rewarders and questions, `jackknife` leaves rewarders out. `p_parametric`
    is Student's t test. `estimate` and `p_value` allow for shared base models or are left out
    where nothing does; the other intervals take all rewarders as independent.
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
    """The correlation without one rewarder or one family."""

    left_out: str
    pearson: float | None
    p_value: float | None
    spearman: float | None


ENOUGH_REWARDERS = 8
"""Rewarders from which on one line can be told from a few groups; a yes needs as many."""

STRONG_EVIDENCE = 6.0
"""Difference in BIC that is strong evidence (Kass and Raftery 1995)."""


class Groups(Record):
    """The best account of r by groups of unrelated rewarders, instead of one line.

    `groups` from low to high; `bic_difference`: BIC of the groups minus BIC of the line.
    """

    groups: tuple[tuple[str, ...], ...]
    bic_difference: float

    @property
    def one_line(self) -> bool:
        """Whether the evidence for one line is strong, which a yes needs."""
        return self.bic_difference >= STRONG_EVIDENCE

    @property
    def withholds(self) -> bool:
        """Whether the evidence for groups is strong, which leaves r without an interval."""
        enough = sum(map(len, self.groups)) >= ENOUGH_REWARDERS
        return enough and self.bic_difference <= -STRONG_EVIDENCE


class BetterHalf(Record):
    """r among rewarders that score at least the median.

    `expected`: r predicted from range restriction alone; `holds`: high enough for a yes.
    """

    num_rewarders: int
    pearson: Estimate
    expected: float | None
    holds: bool

    @property
    def weaker(self) -> bool:
        """Whether r is lower than range restriction alone predicts."""
        return self.expected is not None and (self.pearson.value or 0.0) < self.expected


class Families(Record):
    """Shared base models: r after centring each family (`within`)."""

    num_families: int
    within: Estimate
    sentence: str

    @property
    def enough(self) -> bool:
        """Whether there are enough base models for an interval."""
        return self.num_families >= ENOUGH_BASES

    @property
    def withholds(self) -> bool:
        """Whether r has no interval for lack of base models."""
        return not self.enough


class BandPoint(Record):
    """The fitted line at x with its confidence band and its prediction band."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None
    predict_low: float | None = None
    predict_high: float | None = None


class StructuralFit(Record):
    """The line of true accuracies, with the measurement error of both axes accounted for.

    `scatter_sd`: standard deviation of true accuracies around it.
    """

    slope: Estimate
    scatter_sd: float
    band: tuple[BandPoint, ...]


class Fit(Record):
    """Least squares y = intercept + slope · x, over the range of the points.

    Bounds and bands take rewarders as independent; with too few base models there are none.
    `structural` is the line of true accuracies, where measurement errors are known.
    """

    slope: Estimate
    band: tuple[BandPoint, ...]
    structural: StructuralFit | None = None


class Reliability(Record):
    """Split-half reliability of both axes (Spearman and Brown), and its effect on r.

    `ceiling` is sqrt(x · y), the highest r to expect; `disattenuated` is r corrected for noise.
    """

    x: Estimate
    y: Estimate
    ceiling: Estimate
    disattenuated: Estimate


class PairAgreement(Record):
    """How often the benchmark orders two rewarders as Best-of-N does.

    `separable`: pairs that both axes distinguish.
    """

    num_pairs: int
    agreement: Estimate
    num_separable: int
    agreement_separable: Estimate


class Correlation(PerAxis):
    """Benchmark accuracy against Best-of-N accuracy at n over rewarders, for one policy.

    `too_leaked`: why the primary one includes leaks, where too little remains without them.
    """

    leaks: Leaks
    n: int | None
    primary: bool
    too_leaked: str = ""
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
    groups: Groups | None = None
    better_half: BetterHalf | None = None
    families: Families | None = None
    reliability: Reliability | None = None
    agreement: PairAgreement | None = None
    sentence: str
    influence_sentence: str = ""


class CorrelationAtN(Record):
    """r at one n."""

    n: int
    pearson: Estimate
    spearman: Estimate


class CorrelationByN(PerAxis):
    """r against n on the primary axis."""

    leaks: Leaks
    points: tuple[CorrelationAtN, ...]
    sentence: str


class Pooled(Record):
    """Several policies of a run: mean r (Fisher's scale), common slope, own intercepts.

    `i_squared`: heterogeneity of three slopes or more.
    """

    benchmark: str
    axis: str
    leaks: Leaks
    pearson: Estimate
    slope: Estimate
    i_squared: float | None
    sentence: str
