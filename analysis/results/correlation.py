"""Correlations of benchmark accuracy with Best-of-N accuracy over rewarders."""

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


class Coefficient(Record):
    """A correlation coefficient; `estimate` has the interval to read, `read` says which.

    The interval allows for shared base models, or is left out where nothing does.
    """

    estimate: Estimate
    read: str = ""


class BandPoint(Record):
    """The fitted line at x with its confidence band."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None


class Fit(Record):
    """Least squares y = intercept + slope · x, over the range of the points.

    Bounds and band take rewarders as independent; with too few base models there are none.
    """

    slope: Estimate
    band: tuple[BandPoint, ...]


class Correlation(PerAxis):
    """Benchmark accuracy against Best-of-N accuracy at n over rewarders, for one policy.

    `too_leaked`: why the primary one includes leaks, where too little remains without them.
    `num_bases`: of base models, where rewarders share one. `outcome`: the y of a published table.
    """

    leaks: Leaks
    n: int | None
    primary: bool
    too_leaked: str = ""
    outcome: str = ""
    num_rewarders: int
    num_bases: int | None = None
    points: tuple[Point, ...]
    pearson: Coefficient
    spearman: Coefficient
    fit: Fit | None
    sentence: str


class CorrelationAtN(Record):
    """r at one n."""

    n: int
    pearson: Estimate


class CorrelationByN(PerAxis):
    """r against n on the primary axis."""

    leaks: Leaks
    points: tuple[CorrelationAtN, ...]
    sentence: str
