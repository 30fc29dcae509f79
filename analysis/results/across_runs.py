"""Results over several runs, and from published tables."""

from typing import Literal

from pydantic import Field

from bon.analysis.results.correlation import Correlation
from bon.analysis.results.decision import Finding
from bon.analysis.results.record import SCHEMA_VERSION, Estimate, Ranked, Record
from bon.analysis.results.uplift import UpliftCorrelation
from bon.analysis.results.verdict import Verdict
from bon.core.validation import Strict

OutcomeKind = Literal[
    "Best-of-N", "guided search", "DPO", "PPO", "other RL", "fine-tuning", "human ranking",
    "another benchmark",
]  # fmt: skip


class PooledStudy(Record):
    """A benchmark and an outcome in a policy of a run, or in a published table.

    `measured`: r of the numbers; `r`: its posterior, which allows for shared base models.
    `without_own`: the same without the authors' own models (`num_own`), if enough others are left.
    """

    source: str
    policy: str
    benchmark: str
    outcome: str
    kind: OutcomeKind
    modality: str
    num_rewarders: int
    num_bases: int
    num_unknown: int = 0
    measured: float
    r: Estimate
    num_own: int = 0
    without_own: Estimate | None = None


class PooledMean(Record):
    """The mean r over studies, and the r that a further one can be expected to show (`predicted`).

    `p_mean`, `p_next`: probabilities that the mean r, and the true r of the next study, exceed .5.
    `between`: the expected standard deviation between studies on Fisher's scale.
    """

    mean: Estimate
    predicted: Estimate
    p_mean: float
    p_next: float
    between: float


class PooledWithout(Record):
    """A pool without a source, a maker's models, or the authors' own ones; what is left."""

    left_out: str
    studies: int
    r: PooledMean


class Pool(Record):
    """A meta-analysis of the studies with one kind of outcome, benchmark or modality.

    `studies` are indices.
    """

    by: Literal["outcome", "benchmark", "modality"]
    name: str
    studies: tuple[int, ...]
    num_sources: int
    num_rewarders: int
    num_bases: int
    r: PooledMean
    without: tuple[PooledWithout, ...] = ()


class OutcomeColumn(Strict):
    """An outcome of a table; `same_items`: benchmarks made of its own items, which do not count."""

    kind: OutcomeKind
    what: str
    same_items: tuple[str, ...] = ()


class Description(Strict):
    """A YAML beside a published table: where it is from, and what its columns hold.

    `benchmarks`: the benchmark of each column that counts. `same_models`: names of models in other
    tables. `own`: the authors' own models. `checked`: against which copies.
    """

    title: str
    table: str
    licence: str
    benchmarks: dict[str, str]
    outcomes: dict[str, OutcomeColumn]
    own: str
    checked: str
    paper: str = ""
    repository: str = ""
    policy: str = ""
    modality: str = ""
    same_models: dict[str, str] = Field(default_factory=dict)
    notes: str = ""


class OutcomeAgreement(Record):
    """How two outcomes, each a kind, a source and a policy, agree on the same rewarders."""

    outcomes: tuple[str, str]
    num_rewarders: int
    measured: float
    r: Estimate


class MetaAnalysis(Record):
    """The output of `bon pool --json`; the pools of kinds of outcomes come first."""

    schema_version: str = SCHEMA_VERSION
    level: float
    studies: tuple[PooledStudy, ...]
    pools: tuple[Pool, ...]
    agreements: tuple[OutcomeAgreement, ...] = ()
    sources: dict[str, Description]
    sentence: str
    would_change: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


CostUnit = Literal["dollars", "seconds", "calls"]
Free = Literal["majority vote", "a single response"]


class Recommended(Ranked):
    """One rewarder over all tasks; `cost` per question (None: imported scores, whose cost is not
    known).
    """

    rewarder: str
    gain: Estimate
    cost: float | None
    affordable: bool


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
