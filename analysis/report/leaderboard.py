"""Rows of the report's tables, without formatting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bon.analysis import plots
from bon.analysis.decision.recommend import over_majority
from bon.analysis.plots.style import family_colours
from bon.analysis.results import (
    BenchmarkResult,
    BestOfN,
    Correlation,
    Estimate,
    PolicyResult,
    Recommendation,
    Results,
    RewarderInfo,
    TaskReport,
    Uplift,
)
from bon.analysis.results import phrasing as text

if TYPE_CHECKING:
    import pandas as pd

BASELINE_LABEL = {
    "random": "pass@1",
    "first": "first",
    "majority": "majority vote",
    "longest": "longest",
    "logprob": "log-probability",
    "oracle": "oracle",
}


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
    for name, b in best.items():
        if b.rule == "baseline":
            infos.setdefault(name, RewarderInfo(rewarder=name, kind="baseline", baseline=True))
    gains: dict[str, dict[str, Estimate]] = {}
    for study in studies(results, policy.policy):
        for arm in study.arms:
            gains.setdefault(arm.arm, {})[arm.method] = arm.greedy
    rows = []
    for name, info in infos.items():
        choice, pairs = best.get(name), measured.get(name)
        if choice is None and pairs is None:
            continue
        rows.append(
            BoardRow(
                BASELINE_LABEL.get(name, name) if info.baseline else name,
                info,
                choice.accuracy if choice else None,
                choice,
                pairs,
                score(pairs, axis),
                _unparsed(pairs),
                gains.get(name, {}),
            )
        )
    return sorted(rows, key=lambda r: (-_number(r.accuracy), r.name))


def studies(results: Results, policy: str) -> list[Uplift]:
    """Return the training studies of a policy."""
    return [study for study in results.trained if study.policy == policy]


def trained_methods(results: Results, policy: str) -> list[str]:
    """Return the methods by which a policy was trained."""
    return list(dict.fromkeys(m.method for s in studies(results, policy) for m in s.methods))


def frame(results: Results, policy: str = "") -> pd.DataFrame:
    """Return the leaderboard of a policy (the first by default) with typed columns."""
    import pandas as pd

    row_of = results.policy(policy)
    places = {r.rewarder: r.places for r in results.ranks if r.policy == row_of.policy}
    rows = []
    for row in leaderboard(results, row_of):
        best = row.best
        line: dict[str, Any] = {
            "rewarder": row.name,
            "kind": row.info.kind,
            "rule": best.rule if best else None,
            "rank": None if row.baseline else places.get(row.name),
        }
        for name, estimate in (
            ("accuracy", row.accuracy),
            ("vs_majority", best.versus_majority if best else None),
            ("gain", best.gain if best else None),
            ("benchmark", row.score),
        ):
            for suffix, field in (("", "value"), ("_low", "low"), ("_high", "high")):
                line[name + suffix] = getattr(estimate, field, None)
        rows.append(line)
    table = pd.DataFrame(rows)
    texts = ["rewarder", "kind", "rule", "rank"]
    return table.astype({c: "string" if c in texts else "float64" for c in table.columns})


@dataclass(frozen=True)
class Bar:
    """A difference from majority vote, and where it lies on the scale of its column, in percent."""

    estimate: Estimate
    at: float
    low: float
    high: float

    @property
    def differs(self) -> bool:
        """Whether its interval excludes 0."""
        e = self.estimate
        return (e.low is not None and e.low > 0) or (e.high is not None and e.high < 0)


@dataclass(frozen=True)
class Standing:
    """One row of page one: the mean over policies, single policies, and the benchmark."""

    name: str
    info: RewarderInfo
    bars: tuple[Bar | None, ...]
    score: Bar | None
    tied: bool
    family: int


@dataclass(frozen=True)
class Board:
    """The leaderboard of page one, best first; `zero` is where 0 lies on the scale."""

    columns: tuple[str, ...]
    rows: tuple[Standing, ...]
    zero: float
    sentence: str


_LINES = ("oracle", "majority", "random")
"""Baselines that run across the table."""


def board(results: Results, advice: Recommendation | None) -> Board | None:
    """Return one leaderboard for all policies, or None where nothing was chosen.

    More than three policies are shown by their mean, lowest and highest.
    """
    means = over_majority(results)
    infos = {r.rewarder: r for r in results.rewarders}
    for name in _LINES:
        infos.setdefault(name, RewarderInfo(rewarder=name, kind="baseline", baseline=True))
    shown = [n for n in means if n in infos and (not infos[n].baseline or n in _LINES)]
    shown = sorted(shown, key=lambda n: (-_number(means[n]), n))
    if not shown:
        return None
    policies = [p.policy for p in results.policies]
    own = {
        name: {b.policy: b for b in results.best_of_n if b.headline and b.rewarder == name}
        for name in shown
    }
    main = results.main
    benchmark = main.benchmark if main else next((b.benchmark for b in results.benchmarks), "")
    measured = {b.rewarder: b for b in results.benchmarks if b.benchmark == benchmark}
    scores = {n: score(measured.get(n), main.axis if main else "macro") for n in shown}
    cells: dict[str, list[Estimate]] = {}
    for name in shown:
        each = [own[name][p].versus_majority for p in policies]
        if len(policies) > 3:
            each = sorted(each, key=_number)
            each = [each[0], each[-1]]
        cells[name] = [means[name], *(each if len(policies) > 1 else [])]
    rewarders = [n for n in shown if not infos[n].baseline]
    scale = _scale([e for n in rewarders or shown for e in cells[n]], 0.0)
    score_scale = _scale([e for n in rewarders for e in [scores[n]] if e])
    tied = {r.rewarder for r in advice.rewarders if r.first == 1} if advice else set()
    families = list(family_colours([r.family for r in results.rewarders]))
    rows = tuple(
        Standing(
            name,
            infos[name],
            tuple(_bar(e, scale) for e in cells[name]),
            None if infos[name].baseline else _bar(scores[name], score_scale),
            name in tied,
            families.index(infos[name].family) + 1 if infos[name].family in families else 0,
        )
        for name in shown
    )
    columns = () if len(policies) == 1 else ("lowest", "highest") if len(policies) > 3 else policies
    zero = _place(0.0, scale)
    return Board(("mean", *columns) if columns else ("",), rows, zero, _beaten(rows))


def _beaten(rows: Sequence[Standing]) -> str:
    """Count the rewarders whose interval is above, below and around majority vote."""
    bars = {row.name: row.bars[0] for row in rows if not row.info.baseline}
    differ = [bar for bar in bars.values() if bar is not None and bar.differs]
    above = sum((bar.estimate.value or 0) > 0 for bar in differ)
    if len(bars) < 2:
        does = (
            "beats" if above else "is worse than" if differ else "does not differ detectably from"
        )
        return "".join(f"{name} {does} majority vote." for name in bars)
    tied = len(bars) - len(differ)
    return (
        f"{above} of {len(bars)} rewarders beat majority vote, {len(differ) - above} do "
        f"worse, {tied} {'is' if tied == 1 else 'are'} indistinguishable from it."
    )


def titles(results: Results) -> list[str]:
    """Return what each mark of the first page's figure stands for, in its order."""
    infos, shown = {r.rewarder: r for r in results.rewarders}, []
    for row in plots.points(results):
        info = infos[row["rewarder"]]
        x, gain = (
            Estimate(value=row[name], low=row[f"{name}_low"], high=row[f"{name}_high"])
            for name in ("x", "gain")
        )
        about = ", ".join(filter(None, [info.kind, info.family, info.handicap]))
        shown.append(
            f"{info.rewarder} ({about}): benchmark {text.share(x)}, {text.difference(gain)} points "
            "over majority vote"
        )
    return shown


Scale = tuple[float, float]


def _scale(estimates: Sequence[Estimate], *others: float) -> Scale:
    ends = [v for e in estimates for v in (e.value, e.low, e.high) if v is not None]
    ends += others
    low, high = min(ends, default=0.0), max(ends, default=1.0)
    room = 0.04 * (high - low) or 0.01
    return low - room, high + room


def _place(value: float, scale: Scale) -> float:
    return round(100 * min(max((value - scale[0]) / (scale[1] - scale[0]), 0), 1), 1)


def _bar(e: Estimate | None, scale: Scale) -> Bar | None:
    if e is None or e.value is None:
        return None
    low, high = (e.value if end is None else end for end in (e.low, e.high))
    return Bar(e, *(_place(v, scale) for v in (e.value, low, high)))


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
