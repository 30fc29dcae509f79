"""The report: one HTML file that works offline, made from `Results` and question views."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

from markupsafe import Markup

from bon.analysis.finding.first_page import first_page
from bon.analysis.finding.verdict import WORDS
from bon.analysis.report import leaderboard
from bon.analysis.report.browser_data import Packing
from bon.analysis.report.figures import report_figures
from bon.analysis.report.question_views import QuestionView
from bon.analysis.report.templates import DATA, finished, render
from bon.analysis.results import PREDICTORS, BenchmarkResult, Correlation, QuestionSlice, Results
from bon.analysis.results import phrasing as text
from bon.analysis.results.phrasing import names

MAX_BYTES = 2_000_000
_MARGIN = 200_000  # bytes kept free below the limit


def write_report(
    results: Results,
    views: Iterable[QuestionView] | None,
    path: Path,
    *,
    images: bool = False,
    max_bytes: int = MAX_BYTES,
) -> Path:
    """Write the report to `path` and return it.

    `views` are the questions of the browser; None leaves it out. `images` copies theirs to
    `<stem>_files` beside it, where texts and rationales go that would make the file larger than
    `max_bytes`.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = path.parent / f"{path.stem}_files"
    context = _context(results)
    figures = report_figures(results, context["first"].pick)
    packing = None
    if views is not None and results.policies:
        rewarders = [r.rewarder for r in results.rewarders if not r.baseline]
        packing = Packing(folder, images, rewarders)
        for view in views:
            packing.add(view)
        context["data"] = Markup(DATA)
    html = render("report.html.jinja", figures, results=results, folder=folder.name, **context)
    packed = packing.finish(max_bytes - _MARGIN - len(html.encode())) if packing else None
    if packed:
        packed.data["labels"] = context["labels"]
    path.write_text(finished(html, packed), encoding="utf-8")
    return path


def _context(results: Results) -> dict[str, Any]:
    """What the template needs besides the results."""
    first = first_page(results)
    baselines = {r.rewarder for r in results.rewarders if r.baseline}
    rewarders = {r.rewarder for r in results.rewarders}
    chosen = {
        p.policy: [
            b for b in results.best_of_n if b.policy == p.policy and b.rewarder not in baselines
        ]
        for p in results.policies
    }
    return {
        "first": first,
        "data": None,
        "openers": _openers(results),
        "main": results.main,
        "main_correlations": leaderboard.carried(results),
        "coefficients": _coefficients(results),
        "correlation_of": _by_axis(results),
        "board": leaderboard.board(results, first.advice),
        "boards": [(p, leaderboard.leaderboard(results, p)) for p in results.policies],
        "chosen": chosen,
        "ranks": {(r.policy, r.benchmark, r.rewarder): r for r in results.ranks},
        "benchmark_tables": list(_benchmark_tables(results)),
        "baseline_names": baselines | ({b.rewarder for b in results.benchmarks} - rewarders),
        "slices": list(_slices(results, first.pick)),
        "judges": _judges(results),
        "breakdowns": [
            (name, by, list(cells))
            for (name, by), cells in groupby(results.breakdowns, attrgetter("benchmark", "by"))
        ],
        "costs": any(
            r.cost or r.seconds or r.num_judgements
            for r in results.rewarders
            if not (r.baseline or r.imported)
        ),
        "estimated": _estimated(results),
        "labels": _labels(results),
        "rated_in_full": max((j.rated_questions for j in results.judging), default=0)
        if any(b.raced for b in results.best_of_n)
        else 0,
        "find": _find,
        "words": WORDS,
        "task_columns": leaderboard.task_columns,
        "task_rows": leaderboard.task_rows,
        "baseline_label": leaderboard.BASELINE_LABEL,
        "trained_methods": leaderboard.trained_methods,
        "predictors": PREDICTORS,
    }


def _openers(results: Results) -> dict[str, str]:
    """One plain sentence for each question of the page."""
    leaks, counts = results.leaks, results.counts
    groups = {
        axis: c.pearson.estimate.value
        for axis, c in _by_axis(results).items()
        if c.axis.startswith("group:") and c.pearson.estimate.value is not None
    }
    consistency = [
        (b.consistency.value, b.rewarder)
        for b in results.benchmarks
        if b.consistency is not None and b.consistency.value is not None
    ]
    openers = {
        "sure": _product(results) or results.finding.sentence,
        "other_n": _other_n(results),
        "categories": "",
        "leaks": f"{text.count(leaks.num_questions)} questions and {text.count(leaks.num_pairs)} "
        "preference pairs are in both sets."
        if leaks.num_questions or leaks.num_pairs
        else "No question is in both sets.",
        "judges": "",
        "trained": " ".join(f"{m.sentence}." for s in results.trained for m in s.methods),
        "asked": f"{text.count(counts.calls_made)} judge calls."
        if counts.calls_made
        else "No model was asked.",
        "questions": f"{text.count(counts.questions)} questions with all responses, choices and "
        "rationales.",
    }
    if len(groups) > 1:
        best, worst = max(groups, key=groups.__getitem__), min(groups, key=groups.__getitem__)
        openers["categories"] = (
            f"r is highest for {best} ({text.coefficient(groups[best])}) and lowest for {worst} "
            f"({text.coefficient(groups[worst])})."
        )
    if consistency:
        (low, worst), (high, best) = min(consistency), max(consistency)
        openers["judges"] = (
            f"The winner is the same in both orders for {text.percent(low, 0)} ({worst}) to "
            f"{text.percent(high, 0)} ({best}) of the pairs."
        )
    return openers


def _other_n(results: Results) -> str:
    """Say under which rewarders accuracy falls with n, and by the last n of `judging.deep`."""
    falls = {b.rewarder: 0 for b in results.best_of_n if b.headline and b.over_optimised}
    deep = [c for c in results.depth if c.rewarder != "majority"]
    sentence = "No significant decline with n."
    if falls:
        sentence = f"Accuracy falls as n grows under {names([*falls])}."
    if not deep:
        return sentence
    late = {c.rewarder: 0 for c in deep if c.most is not None}
    last = max(c.points[-1].n for c in deep)
    past = f"is past its peak under {names([*late])}" if late else "is not shown to have fallen"
    return f"{sentence} At n = {last} it {past}."


def _product(results: Results) -> str:
    """Say how P(yes) comes about; empty without a verdict that has one."""
    v = next(iter(results.verdicts), None)
    if v is None or results.finding.p_yes is None or not v.line:
        return ""
    line, strong, yes = map(text.chance, (v.line, min(v.p_yes / v.line, 1), v.p_yes))
    return f"One rising line {line} × r above .5 {strong} = a yes {yes}."


def _by_axis(results: Results) -> dict[str, Correlation]:
    """Correlations like the headline's, but for the axis: macro, overall or a group's name."""
    main = results.main
    return {
        leaderboard.axis_name(c.axis): c
        for c in results.correlations
        if main and (c.policy, c.benchmark, c.leaks) == (main.policy, main.benchmark, main.leaks)
    }


def _coefficients(results: Results) -> list[Correlation]:
    """Correlations of the primary benchmark but those of groups; those that read alike once."""
    main = results.main
    shown = [c for c in results.correlations if main and c.benchmark == main.benchmark]
    whole = {
        (c.policy, c.leaks, text.bounded(c.pearson.estimate)): c
        for c in sorted(shown, key=lambda c: c.primary)
        if not c.axis.startswith("group:")
    }
    return [c for c in shown if any(c is kept for kept in whole.values())]


def _slices(
    results: Results, pick: str
) -> Iterable[tuple[str, list[str], list[tuple[QuestionSlice, ...]]]]:
    """Yield each policy with the names of columns, and rows of accuracies on a slice."""
    for p in results.policies:
        own = {
            b.rewarder: b.slices
            for b in results.best_of_n
            if b.policy == p.policy and b.headline and b.slices
        }
        shown = [name for name in ("random", "majority", "oracle", pick) if name in own]
        if shown:
            labels = [leaderboard.BASELINE_LABEL.get(name, name) for name in shown]
            yield p.policy, labels, list(zip(*(own[name] for name in shown), strict=True))


def _judges(results: Results) -> list[tuple[str, list[tuple[str, Any, Any]]]]:
    """Rows of a rewarder, its result on a benchmark and its judge calls, by benchmark."""
    calls = {j.rewarder: j for j in results.judging}
    rewarders = [r.rewarder for r in results.rewarders if not r.baseline]
    tables = []
    for name in dict.fromkeys(b.benchmark for b in results.benchmarks) or ("",):
        scored = {b.rewarder: b for b in results.benchmarks if b.benchmark == name}
        rows = [(r, scored.get(r), calls.get(r)) for r in rewarders if r in scored or r in calls]
        if rows:
            tables.append((name, rows))
    return tables


def _labels(results: Results) -> dict[str, dict[int, str]]:
    """Names of candidate indexes that stand for a file, by policy."""
    return {
        p.policy: {f.index: f.label for f in p.files if f.label not in ("", str(f.index))}
        for p in results.policies
    }


def _estimated(results: Results) -> dict[tuple[str, str, str], list[str]]:
    """Rules estimated from a sample, by policy, rewarder and reason."""
    rules = defaultdict(list)
    for r in results.rules:
        if r.supported and r.reason:
            rules[r.policy, r.rewarder, r.reason].append(r.rule.replace("_", " "))
    return dict(rules)


def _benchmark_tables(results: Results) -> Iterable[tuple[str, list[BenchmarkResult], list[str]]]:
    """Each benchmark with its results, best first, and its groups."""
    for name in dict.fromkeys(b.benchmark for b in results.benchmarks):
        shown = [b for b in results.benchmarks if b.benchmark == name]
        shown.sort(key=lambda b: (-(b.macro.value or 0), b.rewarder))
        groups = dict.fromkeys(g.name for b in shown for g in b.groups)
        yield name, shown, list(groups)


def _find(items: Iterable[Any], key: str, name: str, value: str) -> Any:
    """Return `value` of the item whose `key` is `name`; None without one."""
    return next((getattr(item, value) for item in items if getattr(item, key) == name), None)
