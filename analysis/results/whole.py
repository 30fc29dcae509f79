"""The schema of `results.json`: everything that analysis found, ready to be shown.

Conventions (docs/results.md says what each field means):

- accuracies, rates, gains and correlations are fractions, never percent;
- every number that was estimated from samples is an `Estimate` with its interval;
- what is unknown or cannot be computed is `None`, never NaN;
- lists are in a stable order, so two analyses of the same run give the same file.
"""

from bon.analysis.results.benchmark_needed import HowMuch
from bon.analysis.results.best_of_n import BestOfN
from bon.analysis.results.choosing_by import Decision, Margins, RankBand, Surrogacy, Threshold
from bon.analysis.results.comparison import Comparison, Separation
from bon.analysis.results.correlation import Correlation, CorrelationByN, Pooled
from bon.analysis.results.decided import Decided
from bon.analysis.results.finding import Finding
from bon.analysis.results.hack import Hack
from bon.analysis.results.model_cost import ModelCost
from bon.analysis.results.policy import PolicyResult, Readers
from bon.analysis.results.prediction import Components, Needed, WhatIf
from bon.analysis.results.record import SCHEMA_VERSION, Options, Record
from bon.analysis.results.repeat import RepeatCheck
from bon.analysis.results.reward_benchmark import BenchmarkResult
from bon.analysis.results.study import (
    Counts,
    JudgeCalls,
    LeakReport,
    Provenance,
    RewarderInfo,
    RuleSupport,
    RunCompleteness,
    RunInfo,
    StudyProtocol,
)
from bon.analysis.results.trained import BeforeAfter


class Results(Record):
    """Everything. `Results.model_validate_json(text)` reads it back."""

    schema_version: str = SCHEMA_VERSION
    run: RunInfo
    options: Options
    protocol: StudyProtocol
    sources: tuple[Provenance, ...] = ()
    citations: tuple[str, ...] = ()
    counts: Counts
    finding: Finding
    policies: tuple[PolicyResult, ...]
    readers: tuple[Readers, ...] = ()
    rewarders: tuple[RewarderInfo, ...]
    benchmarks: tuple[BenchmarkResult, ...] = ()
    best_of_n: tuple[BestOfN, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    separation: tuple[Separation, ...] = ()
    ranks: tuple[RankBand, ...] = ()
    correlations: tuple[Correlation, ...] = ()
    correlation_by_n: tuple[CorrelationByN, ...] = ()
    pooled: tuple[Pooled, ...] = ()
    decisions: tuple[Decision, ...] = ()
    decided: tuple[Decided, ...] = ()
    before_after: tuple[BeforeAfter, ...] = ()
    how_much: tuple[HowMuch, ...] = ()
    thresholds: tuple[Threshold, ...] = ()
    margins: tuple[Margins, ...] = ()
    surrogacy: tuple[Surrogacy, ...] = ()
    what_if: tuple[WhatIf, ...] = ()
    needed: tuple[Needed, ...] = ()
    components: tuple[Components, ...] = ()
    judging: tuple[JudgeCalls, ...] = ()
    hacks: tuple[Hack, ...] = ()
    repeats: tuple[RepeatCheck, ...] = ()
    costs: tuple[ModelCost, ...] = ()
    leaks: LeakReport
    completeness: RunCompleteness | None = None
    rules: tuple[RuleSupport, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def main(self) -> Correlation | None:
        """The correlation that the finding speaks of: the first primary one with points."""
        usable = [c for c in self.correlations if c.points]
        return next((c for c in usable if c.primary), next(iter(usable), None))
