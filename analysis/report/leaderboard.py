"""Rows of the report's tables, without formatting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bon.analysis.results import (
    BenchmarkResult,
    BestOfN,
    Correlation,
    Estimate,
    PolicyResult,
    Results,
    RewarderInfo,
    TaskReport,
    Uplift,
)
from bon.core.errors import BonError

if TYPE_CHECKING:
    import pandas as pd

_BASELINES = {
    "random": ("pass@1", "pass_at_1"),
    "first": ("first", "first"),
    "majority": ("majority vote", "majority"),
    "longest": ("longest", "longest"),
    "logprob": ("log-probability", "logprob"),
    "oracle": ("oracle", "oracle"),
}
"""Names and fields of a policy's results."""


@dataclass(frozen=True)
class BoardRow:
    """One row of the leaderboard; `best` is None for baselines that were only summarised."""

    name: str
    info: RewarderInfo
    accuracy: Estimate | None
    best: BestOfN | None
    benchmark: BenchmarkResult | None
    score: Estimate | None
    unparsed: Estimate | None
    trained: dict[str, Estimate]

    @property
    def baseline(self) -> bool:
        """Whether it is a baseline, not a model."""
        return self.info.baseline

    @property
    def standing(self) -> str:
        """Compared with the majority vote: above, below, unclear or is."""
        return self.best.verdict_versus_majority if self.best else ""


def leaderboard(results: Results, policy: PolicyResult) -> list[BoardRow]:
    """Return rewarders and baselines of one policy, best first."""
    main = results.main
    benchmark = main.benchmark if main else next((b.benchmark for b in results.benchmarks), None)
    axis = main.axis if main else "macro"
    measured = {b.rewarder: b for b in results.benchmarks if b.benchmark == benchmark}
    best = {b.rewarder: b for b in results.best_of_n if b.policy == policy.policy and b.headline}
    infos = {r.rewarder: r for r in results.rewarders}
    alone = {key: getattr(policy, field, None) for key, (_, field) in _BASELINES.items()}
    for key, accuracy in alone.items():
        if accuracy is not None:
            infos.setdefault(key, RewarderInfo(rewarder=key, kind="baseline", baseline=True))
    gains: dict[str, dict[str, Estimate]] = {}
    for study in studies(results, policy.policy):
        for arm in study.arms:
            gains.setdefault(arm.arm, {})[arm.method] = arm.greedy
    rows = []
    for name, info in infos.items():
        choice, pairs = best.get(name), measured.get(name)
        accuracy = choice.accuracy if choice else alone.get(name)
        if accuracy is None and pairs is None:
            continue
        rows.append(
            BoardRow(
                _BASELINES.get(name, (name,))[0] if info.baseline else name,
                info,
                accuracy,
                choice,
                pairs,
                score(pairs, axis),
                _unparsed(pairs),
                gains.get(name, {}),
            )
        )
    return sorted(rows, key=lambda r: (-_number(r.accuracy), r.name))


def studies(results: Results, policy: str) -> list[Uplift]:
    """Return the training studies of a policy, imported ones first."""
    own = [study for study in results.trained if study.policy == policy]
    return sorted(own, key=lambda study: not study.imported)


def trained_methods(results: Results, policy: str) -> list[str]:
    """Return the methods by which a policy was trained."""
    return list(dict.fromkeys(m.method for s in studies(results, policy) for m in s.methods))


def frame(results: Results, policy: str = "") -> pd.DataFrame:
    """Return the leaderboard of a policy (the first by default) with typed columns."""
    import pandas as pd

    policies = {row.policy: row for row in results.policies}
    if policy not in ("", *policies):
        raise BonError(f"no policy {policy!r}", f"choose one of {', '.join(policies)}")
    rows = []
    for row in leaderboard(results, policies[policy or next(iter(policies))]):
        rule = row.best.rule if row.best else None
        line: dict[str, Any] = {"rewarder": row.name, "kind": row.info.kind, "rule": rule}
        for name, estimate in (("accuracy", row.accuracy), ("benchmark", row.score)):
            for suffix, field in (("", "value"), ("_low", "low"), ("_high", "high")):
                line[name + suffix] = getattr(estimate, field, None)
        rows.append(line)
    table = pd.DataFrame(rows)
    texts = ["rewarder", "kind", "rule"]
    return table.astype({c: "string" if c in texts else "float64" for c in table.columns})


def score(result: BenchmarkResult | None, axis: str) -> Estimate | None:
    """Return the benchmark accuracy of an axis: macro, overall, natural or group:NAME."""
    if result is None:
        return None
    if axis.startswith("group:"):
        name = axis.removeprefix("group:")
        return next((g.accuracy for g in result.groups if g.name == name), None)
    return {"overall": result.overall, "natural": result.natural}.get(axis, result.macro)


def _unparsed(result: BenchmarkResult | None) -> Estimate | None:
    if result is None:
        return None
    return next((o.rate for o in result.outcomes if o.outcome == "unparsed"), None)


def _number(estimate: Estimate | None) -> float:
    return estimate.value if estimate is not None and estimate.value is not None else -1.0


def axis_name(axis: str) -> str:
    """Return macro, overall, natural, or the name of a group."""
    return axis.removeprefix("group:")


def carried(results: Results) -> list[Correlation]:
    """Return the primary correlations, one per policy."""
    main = results.main
    if main is None:
        return []
    same = (main.benchmark, main.axis, main.leaks)
    return [c for c in results.correlations if (c.benchmark, c.axis, c.leaks) == same and c.points]


BASELINE_LABEL = {name: label for name, (label, _) in _BASELINES.items()}


def task_columns(report: TaskReport) -> list[str]:
    """Return the tasks as columns, and last their mean if there is one."""
    own = [task.name for task in report.tasks]
    return list(dict.fromkeys([*own, *(row.task for row in report.accuracies)]))


def task_rows(report: TaskReport, policy: str) -> list[tuple[str, list[Estimate | None]]]:
    """Return the accuracies of each rewarder by task; the best over all tasks first."""
    own = {(r.rewarder, r.task): r.accuracy for r in report.accuracies if r.policy == policy}
    columns = task_columns(report)
    rows = [(name, [own.get((name, task)) for task in columns]) for name in {n: 0 for n, _ in own}]
    return sorted(rows, key=lambda row: -((row[1][-1] and row[1][-1].value) or 0.0))
