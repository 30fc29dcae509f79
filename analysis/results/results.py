"""The top level of results.json.

Conventions (docs/results.md describes each field):

- accuracies, rates, gains and correlations are fractions, never percent;
- every number estimated from samples is an `Estimate` with its interval;
- unknown values are `None`, never NaN;
- lists are in a stable order, so two analyses of one run give the same file.
"""

from html import escape

from bon.analysis.results import accuracy, correlation, decision, prediction, study, uplift, verdict
from bon.analysis.results.record import SCHEMA_VERSION, Options, Record
from bon.core.errors import BonError


class Results(Record):
    """All results of a run; `Results.model_validate_json(text)` reads them back."""

    schema_version: str = SCHEMA_VERSION
    run: study.RunInfo
    options: Options
    protocol: study.StudyProtocol
    sources: tuple[study.Provenance, ...] = ()
    citations: tuple[str, ...] = ()
    counts: study.Counts
    finding: decision.Finding
    policies: tuple[accuracy.PolicyResult, ...]
    rewarders: tuple[study.RewarderInfo, ...]
    benchmarks: tuple[accuracy.BenchmarkResult, ...] = ()
    breakdowns: tuple[accuracy.Breakdown, ...] = ()
    best_of_n: tuple[accuracy.BestOfN, ...] = ()
    depth: tuple[accuracy.DepthCurve, ...] = ()
    comparisons: tuple[accuracy.Comparison, ...] = ()
    ranks: tuple[accuracy.RankBand, ...] = ()
    correlations: tuple[correlation.Correlation, ...] = ()
    correlation_by_n: tuple[correlation.CorrelationByN, ...] = ()
    verdicts: tuple[verdict.Verdict, ...] = ()
    by_task: tuple[decision.TaskReport, ...] = ()
    needed: tuple[prediction.Needed, ...] = ()
    judging: tuple[study.JudgeCalls, ...] = ()
    trained: tuple[uplift.Uplift, ...] = ()
    costs: tuple[study.ModelCost, ...] = ()
    leaks: study.LeakReport
    completeness: study.RunCompleteness | None = None
    rules: tuple[study.RuleSupport, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def main(self) -> correlation.Correlation | None:
        """The first primary correlation with points, which the finding describes."""
        usable = [c for c in self.correlations if c.points]
        return next((c for c in usable if c.primary), next(iter(usable), None))

    def policy(self, name: str = "") -> accuracy.PolicyResult:
        """Return the results of a policy, the first by default."""
        known = {p.policy: p for p in self.policies}
        if name not in ("", *known) or not known:
            raise BonError(
                f"no policy {name!r}",
                f"choose one of {', '.join(known)}" if known else "this run has no responses",
            )
        return known[name or next(iter(known))]

    def _repr_html_(self) -> str:
        """Return the finding and Best-of-N accuracies, for notebooks."""
        import pandas as pd

        rows = [
            {"policy": b.policy, "rewarder": b.rewarder, "rule": b.rule}
            | b.accuracy.model_dump(include={"value", "low", "high"})
            for b in sorted(self.best_of_n, key=lambda b: -(b.accuracy.value or 0.0))
            if b.headline
        ]
        table = pd.DataFrame(rows).to_html(index=False, float_format="{:.3f}".format)
        return f"<p>{escape(self.finding.sentence)}</p>{table if rows else ''}"
