"""Tables as CSV, Parquet and LaTeX, and figures as files, from the same results as the report."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from bon.analysis import plots
from bon.analysis.report import board
from bon.analysis.report import format as text
from bon.analysis.results import Audit, Basis, Coefficient, Correlation, Estimate, Record, Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def write_tables(
    results: Results, folder: str | Path, choices: pd.DataFrame | None = None
) -> list[Path]:
    """Every table as CSV and Parquet, those of a paper as LaTeX too; return what was written.

    Accuracies and rates are fractions; `x`, `x_low` and `x_high` hold a number and its
    interval. An unknown number is an empty cell. `choices` (bon.analysis.estimators.picks) is one
    of the tables: results do not hold single questions.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    made = frames(results)
    if choices is not None and len(choices):
        made["choices"] = choices
    for name, frame in made.items():
        for suffix in (".csv", ".parquet"):
            path = folder / f"{name}{suffix}"
            if suffix == ".csv":
                frame.to_csv(path, index=False, lineterminator="\n")
            else:
                frame.to_parquet(path, index=False)
            written.append(path)
    for name, source in latex(results).items():
        path = folder / f"{name}.tex"
        path.write_text(source, encoding="utf-8")
        written.append(path)
    return written


def frames(results: Results) -> dict[str, pd.DataFrame]:
    """The tables by name; one without rows is left out."""
    curves = [
        {**_flat(b, ("policy", "rewarder", "rule", "headline")), **_flat(p)}
        for b in results.best_of_n
        for p in b.curve
    ]
    groups = [
        {"benchmark": b.benchmark, "rewarder": b.rewarder, "by": by, **_flat(s)}
        for b in results.benchmarks
        for by, slices in (("group", b.groups), ("tag", b.tags))
        for s in slices
    ]
    label = ("policy", "benchmark", "axis", "leaks", "n")
    points = [{**_flat(c, label), **_flat(p)} for c in results.correlations for p in c.points]
    left_out = [
        {**_flat(c, label), "what": what, **_flat(x)}
        for c in results.correlations
        for what, found in (("rewarder", c.leave_one_out), ("family", c.leave_family_out))
        for x in found
    ]
    made: dict[str, Iterable[dict[str, Any]]] = {
        "policies": map(_flat, results.policies),
        "policy_slices": [
            {"policy": p.policy, **_flat(s)} for p in results.policies for s in p.slices
        ],
        "rewarders": map(_flat, results.rewarders),
        "best_of_n": map(_flat, results.best_of_n),
        "accuracy_at_n": curves,
        "reward_benchmark": map(_flat, results.benchmarks),
        "reward_benchmark_groups": groups,
        "comparisons": map(_flat, results.comparisons),
        "correlations": map(_coefficients, results.correlations),
        "correlation_points": points,
        "leave_one_out": left_out,
        "what_if": [
            {**_flat(w, ("policy", "benchmark", "axis")), **_flat(r)}
            for w in results.what_if
            for r in w.rows
        ],
        "before_after": map(_flat, results.before_after),
        "how_much": [
            {**_flat(h, ("policy", "benchmark", "axis")), **_flat(s)}
            for h in results.how_much
            for s in h.sizes
        ],
        "how_much_categories": [
            {**_flat(h, ("policy", "benchmark")), "categories": "+".join(c.categories), **_flat(c)}
            for h in results.how_much
            for c in h.categories
        ],
        "judging": map(_flat, results.judging),
        "repeats": map(_flat, results.repeats),
        "costs": map(_flat, results.costs),
    }
    tables = {name: pd.DataFrame(list(lines)) for name, lines in made.items()}
    return {name: frame for name, frame in tables.items() if len(frame)}


def _flat(record: Record, only: tuple[str, ...] | None = None) -> dict[str, Any]:
    """Scalars as they are, numbers with their interval as three columns, lists left out.

    `estimated` and `audit` are from how many questions.
    """
    line: dict[str, Any] = {}
    for name in only or type(record).model_fields:
        value = getattr(record, name)
        if isinstance(value, Estimate):
            line |= {name: value.value, f"{name}_low": value.low, f"{name}_high": value.high}
        elif isinstance(value, Coefficient):
            line |= {f"{name}_{k}": v for k, v in _flat(value).items() if k != "read"}
            line[name] = line.pop(f"{name}_estimate")
            line |= {f"{name}_{k}": line.pop(f"{name}_estimate_{k}") for k in ("low", "high")}
        elif isinstance(value, Basis | Audit):
            line[name] = value.questions if isinstance(value, Basis) else value.audited
        elif value is None or isinstance(value, str | bool | int | float):
            line[name] = value
    return line


_INDEPENDENT = ("_bootstrap", "_fisher", "_jackknife", "_p_parametric")


def _coefficients(c: Correlation) -> dict[str, Any]:
    """A row; without what would take rewarders that share bases for independent."""
    line = _flat(c)
    if c.families is None:
        return line
    return {k: None if any(part in k for part in _INDEPENDENT) else v for k, v in line.items()}


# ------------------------------------------------------------------ LaTeX


def latex(results: Results) -> dict[str, str]:
    """Tables for a paper, in the booktabs style: leaderboards, correlations, categories."""
    tables = {}
    for i, policy in enumerate(results.policies):
        ranked = board.leaderboard(results, policy)
        name = "leaderboard" if len(results.policies) == 1 else f"leaderboard_{i + 1}"
        heads = ["", "benchmark", f"Best-of-{policy.n}", "gain", "gap closed", "vs. vote"]
        lines = [
            [
                _escape(r.name) if not r.baseline else rf"\emph{{{_escape(r.name)}}}",
                _number(text.share(r.score)),
                _number(text.share(r.accuracy)),
                _number(text.points(r.best.gain if r.best else None)),
                _number(text.share(r.best.gap_closed if r.best else None, 0)),
                _number(text.points(r.best.versus_majority if r.best else None)),
            ]
            for r in ranked
        ]
        tables[name] = _table(heads, lines, f"Candidates of {policy.policy}. {_note(results)}")
    if results.correlations:
        heads = ["policy", "axis", "leaks", "$r$", r"$\rho$", r"$\tau$", "$p$"]
        lines = [
            [
                _escape(c.policy),
                _escape(board.axis_name(c.axis)),
                c.leaks,
                *(
                    _number(text.coefficient(x.estimate))
                    for x in (c.pearson, c.spearman, c.kendall)
                ),
                _number(text.p_value(c.pearson.p_value)).removeprefix("= "),
            ]
            for c in results.correlations
        ]
        tables["correlations"] = _table(
            heads, lines, f"Reward-benchmark against Best-of-N accuracy. {_note(results)}"
        )
    for i, name in enumerate(dict.fromkeys(b.benchmark for b in results.benchmarks)):
        shown = [b for b in results.benchmarks if b.benchmark == name]
        groups = list(dict.fromkeys(g.name for b in shown for g in b.groups))
        lines = []
        for b in sorted(shown, key=lambda b: (-(b.macro.value or 0), b.rewarder)):
            by_name = {g.name: g.accuracy for g in b.groups}
            cells = [b.macro, b.overall, *(by_name.get(g) for g in groups)]
            lines.append([_escape(b.rewarder), *(_number(text.share(c)) for c in cells)])
        key = "reward_benchmark" if i == 0 else f"reward_benchmark_{i + 1}"
        heads = ["", "macro", "overall", *map(_escape, groups)]
        tables[key] = _table(heads, lines, f"Accuracy on {name}. {_note(results)}")
    return tables


def _note(results: Results) -> str:
    return f"Brackets: {100 * results.options.level:.0f} % intervals."


def _table(heads: list[str], lines: list[list[str]], caption: str) -> str:
    """One table; needs \\usepackage{booktabs}."""
    body = "\n".join(" & ".join(line) + r" \\" for line in lines)
    return (
        "\\begin{table}\n\\centering\\small\n"
        f"\\begin{{tabular}}{{l{'r' * (len(heads) - 1)}}}\n\\toprule\n"
        + " & ".join(heads)
        + f" \\\\\n\\midrule\n{body}\n\\bottomrule\n\\end{{tabular}}\n"
        f"\\caption{{{_escape(caption)}}}\n\\end{{table}}\n"
    )


_SPECIAL = {
    "\\": r"\textbackslash{}",
    **{c: "\\" + c for c in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}


def _escape(value: str) -> str:
    return "".join(_SPECIAL.get(c, c) for c in value)


def _number(value: str) -> str:
    """A number with its interval set small."""
    value = value.replace("\u202f%", r"\,\%").replace(text.MINUS, "$-$").replace("<", "$<$")
    head, bracket, rest = value.partition(" [")
    return f"{head} {{\\scriptsize[{rest}}}" if bracket else head


# ------------------------------------------------------------------ figures


def write_figures(
    results: Results, folder: str | Path, *, theme: plots.Theme = plots.LIGHT
) -> list[Path]:
    """Every figure that the results have data for, as PNG, SVG and PDF."""
    draw: dict[str, Callable[..., Figure]] = {
        "correlation": plots.correlation,
        "baselines": plots.baselines,
        "correct_counts": plots.correct_counts,
        "correlation_at_n": plots.correlation_at_n,
        "group_heatmap": plots.group_heatmap,
        "how_much": plots.how_much,
        "votes_curve": plots.votes_curve,
        "bias": plots.bias,
        "outcomes": plots.outcomes,
    }
    jobs = {name: partial(f, results) for name, f in draw.items()}
    for i, policy in enumerate(results.policies):
        name = "accuracy_at_n" if len(results.policies) == 1 else f"accuracy_at_n_{i + 1}"
        jobs[name] = partial(plots.accuracy_at_n, results, policy=policy.policy)
    for i, one in enumerate(board.carried(results)):
        name = "leave_one_out" if i == 0 else f"leave_one_out_{i + 1}"
        jobs[name] = partial(plots.leave_one_out, one)
    written = []
    for name, job in jobs.items():
        try:
            figure = job(theme=theme)
        except plots.NothingToDrawError:
            continue
        written += plots.save(figure, Path(folder) / name)
    return written
