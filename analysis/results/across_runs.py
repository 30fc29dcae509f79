"""Results over several runs, and from published tables."""

from typing import Literal

from bon.analysis.results.correlation import Correlation
from bon.analysis.results.decision import Finding
from bon.analysis.results.record import SCHEMA_VERSION, Estimate, Ranked, Record
from bon.analysis.results.uplift import UpliftCorrelation
from bon.analysis.results.verdict import Verdict


class PooledStudy(Record):
    """One policy of one run; `without`: the mean r of the others."""

    run: str
    policy: str
    task: str
    num_rewarders: int
    num_bases: int
    num_unknown: int = 0
    pearson: Estimate
    without: Estimate | None = None


class PooledMean(Record):
    """The mean r over policies, and the r that a further one can be expected to show (`predicted`).

    `p_mean`, `p_next`: probabilities that the mean r, and the true r of the next policy, exceed .5.
    `between`: the expected standard deviation between policies on Fisher's scale.
    """

    mean: Estimate
    predicted: Estimate
    p_mean: float
    p_next: float
    between: float


class PooledRuns(Record):
    """Meta-analysis of one benchmark."""

    schema_version: str = SCHEMA_VERSION
    benchmark: str
    level: float
    studies: tuple[PooledStudy, ...]
    pearson: PooledMean
    num_rewarders: int
    num_bases: int
    num_unknown: int = 0
    sentence: str
    warnings: tuple[str, ...] = ()


CostUnit = Literal["dollars", "seconds", "calls"]
Free = Literal["majority vote", "a single response"]


class Recommended(Ranked):
    """One rewarder over all tasks; `cost` per question (None: imported scores, whose cost is not
    known).

    `front`: nothing of equal or lower cost, nor majority vote, gains as much.
    """

    rewarder: str
    gain: Estimate
    cost: float | None
    front: bool
    affordable: bool


class Cheaper(Record):
    """A cheaper rewarder on the front whose loss against the pick may be zero."""

    rewarder: str
    cost: float
    loses: Estimate


class Recommendation(Record):
    """Rewarders by gain and cost over several runs.

    `free`: the better of majority vote and a single response, with its accuracy. `pick`: the best
    affordable rewarder that is shown to beat that, if any is. `picked` and `over_free`: its
    accuracy and its difference from the free rule, corrected for its having been picked; without a
    pick those of the best affordable one. `majority`: the gain of majority vote.
    """

    schema_version: str = SCHEMA_VERSION
    unit: CostUnit
    budget: float | None
    level: float
    tasks: tuple[str, ...]
    rewarders: tuple[Recommended, ...]
    majority: Estimate
    free: Free
    free_accuracy: Estimate
    picked: Estimate
    over_free: Estimate
    pick: str | None
    cheaper: tuple[Cheaper, ...] = ()
    sentence: str
    warnings: tuple[str, ...] = ()


class Reference(Record):
    """A reference line of a published figure: no Best-of-N, majority vote."""

    policy: str
    name: str
    accuracy: float


class Flag(Record):
    """An inconsistency in a published table."""

    kind: Literal["mixed axis", "overall", "macro"]
    rows: tuple[str, ...]
    sentence: str


Unit = Literal["percent", "fraction", "scale"]


class CorrelationReport(Record):
    """The output of `bon correlate TABLE.csv --json`.

    A correlation for each policy, benchmark (`axis`) and `outcome`, and a verdict for each pair of
    the latter; `primary` ones, `columns` and `finding` are of the leading pair. `units` of columns:
    points of a `scale` are as printed, others are fractions. `agreement`: of outcomes with each
    other. `without_own`: correlations without the rows of the table's authors.
    """

    schema_version: str = SCHEMA_VERSION
    source: str
    columns: dict[str, str]
    units: dict[str, Unit]
    finding: Finding
    correlations: tuple[Correlation, ...]
    verdicts: tuple[Verdict, ...] = ()
    agreement: tuple[UpliftCorrelation, ...] = ()
    without_own: tuple[UpliftCorrelation, ...] = ()
    references: tuple[Reference, ...] = ()
    flags: tuple[Flag, ...] = ()
    warnings: tuple[str, ...] = ()
