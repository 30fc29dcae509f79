"""Tables as CSV, Parquet and LaTeX, and figures as files, from the same results as the report."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from bon.analysis import plots
from bon.analysis.report import format as text
from bon.analysis.report import leaderboard
from bon.analysis.results import Basis, Coefficient, Correlation, Estimate, Record, Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def write_tables(
    results: Results, folder: str | Path, choices: pd.DataFrame | None = None
) -> list[Path]:
    """Write every table as CSV and Parquet, those of a paper as LaTeX too; return the paths.

    Accuracies and rates are fractions; `x`, `x_low` and `x_high` are a number and its interval,
    empty where unknown. `choices`: the table of single questions (bon.analysis.estimators.picks).
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    tables = frames(results)
    if choices is not None and len(choices):
        tables["choices"] = choices
    for name, frame in tables.items():
        csv, parquet = folder / f"{name}.csv", folder / f"{name}.parquet"
        frame.to_csv(csv, index=False, lineterminator="\n")
        frame.to_parquet(parquet, index=False)
        written += [csv, parquet]
    for name, source in latex(results).items():
        path = folder / f"{name}.tex"
        path.write_text(source, encoding="utf-8")
        written.append(path)
    return written


def frames(results: Results) -> dict[str, pd.DataFrame]:
    """Return the non-empty tables by name."""
    curves = [
        {**_flat(b, ("policy", "rewarder", "rule", "headline")), **_flat(p)}
        for b in results.best_of_n
        for p in b.curve
    ]
    groups = [
        {"benchmark": b.benchmark, "rewarder": b.rewarder, "by": by, **_flat(s)}
        for b in results.benchmarks
        for by, slices in (("group", b.groups), ("tag", b.tags), ("length", b.by_length))
        for s in slices
    ]
    label = ("policy", "benchmark", "axis", "leaks", "n")
    points = [{**_flat(c, label), **_flat(p)} for c in results.correlations for p in c.points]
    left_out = [
        {**_flat(c, label), "what": what, **_flat(x)}
        for c in results.correlations
        for what, left in (("rewarder", c.leave_one_out), ("family", c.leave_family_out))
        for x in left
    ]
    rows: dict[str, Iterable[dict[str, Any]]] = {
        "policies": map(_flat, results.policies),
        "policy_slices": [
            {"policy": p.policy, **_flat(s)} for p in results.policies for s in p.slices
        ],
        "rewarders": map(_flat, results.rewarders),
        "best_of_n": map(_flat, results.best_of_n),
        "accuracy_at_n": curves,
        "reward_benchmark": map(_flat, results.benchmarks),
        "reward_benchmark_groups": groups,
        "lengths": map(_flat, results.lengths),
        "comparisons": map(_flat, results.comparisons),
        "ranks": map(_flat, results.ranks),
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
        "slices": [
            {**_flat(b, ("policy", "rewarder", "rule")), "by": by, **_flat(s)}
            for b in results.best_of_n
            if b.headline
            for by, slices in (("subject", b.by_subject), ("difficulty", b.by_difficulty))
            for s in slices
        ],
        "judging": map(_flat, results.judging),
        "repeats": map(_flat, results.repeats),
        "costs": map(_flat, results.costs),
    }
    tables = {name: pd.DataFrame(list(lines)) for name, lines in rows.items()}
    return {name: frame for name, frame in tables.items() if len(frame)}


def _flat(record: Record, only: tuple[str, ...] | None = None) -> dict[str, Any]:
    """Return scalars, estimates as three columns, `estimated` as a count."""
    line: dict[str, Any] = {}
    for name in only or type(record).model_fields:
        value = getattr(record, name)
        if isinstance(value, Estimate):
            line |= {name: value.value, f"{name}_low": value.low, f"{name}_high": value.high}
        elif isinstance(value, Coefficient):
            line |= {f"{name}_{k}": v for k, v in _flat(value).items() if k != "read"}
            line[name] = line.pop(f"{name}_estimate")
            line |= {f"{name}_{k}": line.pop(f"{name}_estimate_{k}") for k in ("low", "high")}
        elif isinstance(value, Basis):
            line[name] = value.questions
        elif value is None or isinstance(value, str | bool | int | float):
            line[name] = value
    return line


_INDEPENDENT = ("_bootstrap", "_fisher", "_jackknife", "_p_parametric")


def _coefficients(c: Correlation) -> dict[str, Any]:
    """Return a row, without statistics that assume independence where rewarders share bases."""
    line = _flat(c)
    if c.families is None:
        return line
    return {k: None if any(part in k for part in _INDEPENDENT) else v for k, v in line.items()}


# ------------------------------------------------------------------ LaTeX


def latex(results: Results) -> dict[str, str]:
    """Return tables in the booktabs style: leaderboards, correlations, categories."""
    tables = {}
    for i, policy in enumerate(results.policies):
        ranked = leaderboard.leaderboard(results, policy)
        name = "leaderboard" if len(results.policies) == 1 else f"leaderboard_{i + 1}"
        heads = ["", "benchmark", f"Best-of-{policy.n}", "gain", "gap closed", "vs. vote"]
        lines = [
            [
                r.name,
                text.share(r.score),
                text.share(r.accuracy),
                text.points(r.best.gain if r.best else None),
                text.share(r.best.gap_closed if r.best else None, 0),
                text.points(r.best.versus_majority if r.best else None),
            ]
            for r in ranked
        ]
        tables[name] = _table(heads, lines, f"Candidates of {policy.policy}. {_note(results)}")
    if results.correlations:
        heads = ["policy", "axis", "leaks", "Pearson", "Spearman", "Kendall", "p"]
        lines = [
            [
                c.policy,
                leaderboard.axis_name(c.axis),
                c.leaks,
                *(text.coefficient(x.estimate) for x in (c.pearson, c.spearman, c.kendall)),
                text.p_value(c.pearson.p_value).removeprefix("= "),
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
            lines.append([b.rewarder, *map(text.share, cells)])
        key = "reward_benchmark" if i == 0 else f"reward_benchmark_{i + 1}"
        heads = ["", "macro", "overall", *groups]
        tables[key] = _table(heads, lines, f"Accuracy on {name}. {_note(results)}")
    return tables


def _note(results: Results) -> str:
    return f"Brackets: {100 * results.options.level:.0f} % intervals."


def _table(heads: list[str], lines: list[list[str]], caption: str) -> str:
    """Return one table; needs \\usepackage{booktabs}."""
    frame = pd.DataFrame([[_plain(cell) for cell in line] for line in lines], columns=heads)
    return str(frame.to_latex(index=False, escape=True, caption=caption, position="t"))


def _plain(value: str) -> str:
    """Replace characters that not every LaTeX engine knows."""
    return value.replace("\u202f", " ").replace(text.MINUS, "-").replace(text.NONE, "-")


# ------------------------------------------------------------------ figures


def write_figures(results: Results, folder: str | Path) -> list[Path]:
    """Write the figures of the report as PNG, SVG and PDF, each with its data as CSV."""
    main, tables = results.main, frames(results)
    primary = {k: getattr(main, k) for k in ("benchmark", "axis", "leaks")} if main else {}
    drawn: dict[str, tuple[Callable[..., Figure], str, dict[str, Any]]] = {
        "correlation": (plots.correlation, "correlation_points", primary)
    }
    for i, row in enumerate(results.policies):
        name = "accuracy_at_n" if len(results.policies) == 1 else f"accuracy_at_n_{i + 1}"
        curves = partial(plots.accuracy_at_n, policy=row.policy)
        drawn[name] = curves, "accuracy_at_n", {"policy": row.policy, "headline": True}
    written = []
    for name, (draw, table, rows) in drawn.items():
        try:
            figure = draw(results)
        except plots.NothingToDrawError:
            continue
        data = tables[table]
        for column, value in rows.items():
            data = data[data[column] == value]
        written += [*plots.save(figure, Path(folder) / name), Path(folder) / f"{name}.csv"]
        data.to_csv(written[-1], index=False, lineterminator="\n")
    return written
