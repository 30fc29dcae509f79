"""Tables as CSV and Parquet, and figures as files, from the same results as the report."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bon.analysis import plots
from bon.analysis.results import Coefficient, Estimate, Record, Results
from bon.core.text import table_cell

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def csv_text(frame: pd.DataFrame) -> str:
    """Return a table as CSV without cells that a spreadsheet would run as formulas."""
    safe = frame.rename(columns=table_cell)
    for name in safe.select_dtypes(include=["object", "string"]):
        safe[name] = pd.Series([*map(table_cell, safe[name])], safe.index, dtype=object)
    return safe.to_csv(index=False, lineterminator="\n")


def write_tables(
    results: Results, folder: str | Path, choices: pd.DataFrame | None = None
) -> list[Path]:
    """Write every table as CSV and Parquet, remove those that are empty now; return the paths.

    Accuracies and rates are fractions; `x`, `x_low` and `x_high` are a number and its interval,
    empty where unknown. `choices`: the table of single questions (bon.analysis.estimators.picks).
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    tables = frames(results)
    if choices is not None and len(choices):
        tables["choices"] = choices
    possible = {"choices", *INNER, *(_NAMES.get(field, field) for field in Results.model_fields)}
    for name in filter(None, possible - tables.keys()):  # those of an earlier analysis
        for ending in (".csv", ".parquet"):
            (folder / f"{name}{ending}").unlink(missing_ok=True)
    for name, frame in tables.items():
        csv, parquet = folder / f"{name}.csv", folder / f"{name}.parquet"
        csv.write_text(csv_text(frame), encoding="utf-8")
        frame.to_parquet(parquet, index=False)
        written += [csv, parquet]
    return written


_NAMES = {"benchmarks": "reward_benchmark", "sources": "", "rules": "", "trained": ""}
"""Tables not called like their list of the results; empty: none, as it holds no statistic."""

_AXIS, _CHOICE = ("policy", "benchmark", "axis", "leaks"), ("policy", "rewarder", "rule")
INNER: dict[str, tuple[str, tuple[str, ...], str]] = {
    "policy_files": ("policies", ("policy",), "files"),
    "accuracy_at_n": ("best_of_n", (*_CHOICE, "headline"), "curve"),
    "depth_points": ("depth", ("policy", "rewarder"), "points"),
    "task_weights": ("by_task", (), "tasks"),
    "task_accuracies": ("by_task", (), "accuracies"),
    "task_correlations": ("by_task", (), "correlations"),
    "trained_methods": ("trained", ("policy",), "methods"),
    "slices": ("best_of_n", _CHOICE, "slices"),
    "reward_benchmark_groups": ("benchmarks", ("benchmark", "rewarder"), "groups"),
    "reward_benchmark_outcomes": ("benchmarks", ("benchmark", "rewarder"), "outcomes"),
    "correlation_points": ("correlations", (*_AXIS, "n"), "points"),
    "verdict_points": ("verdicts", _AXIS[1:], "points"),
    "verdict_policies": ("verdicts", _AXIS[1:], "policies"),
    "correlation_by_n": ("correlation_by_n", _AXIS, "points"),
    "shortlists": ("decisions", _AXIS, "shortlists"),
    "trained": ("trained", ("policy",), "arms"),
    "needed": ("needed", ("benchmark",), "rows"),
}
"""Tables of lists within records: the list of the results, keys of its records, the inner list."""


def frames(results: Results) -> dict[str, pd.DataFrame]:
    """Return the non-empty tables by name: of every list of records in the results, and `INNER`."""
    tables = {
        _NAMES.get(field, field): pd.DataFrame([_flat(row) for row in value])
        for field, value in results
        if isinstance(value, tuple) and value and isinstance(value[0], Record)
    }
    tables |= {name: pd.DataFrame(list(_inner(results, name))) for name in INNER}
    return {name: frame for name, frame in tables.items() if name and len(frame)}


def _inner(results: Results, table: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of lists within records, each with the keys of its record."""
    field, keys, inner = INNER[table]
    for record in getattr(results, field):
        if table != "slices" or record.headline:
            yield from (_flat(record, keys) | _flat(row) for row in getattr(record, inner))


def _flat(record: Record, only: tuple[str, ...] | None = None) -> dict[str, Any]:
    """Return scalars, estimates as three columns."""
    line: dict[str, Any] = {}
    for name in only or type(record).model_fields:
        value = getattr(record, name)
        if isinstance(value, Estimate):
            line |= {name: value.value, f"{name}_low": value.low, f"{name}_high": value.high}
        elif isinstance(value, Coefficient):
            line |= {f"{name}_{k}": v for k, v in _flat(value).items() if k != "read"}
            line[name] = line.pop(f"{name}_estimate")
            line |= {f"{name}_{k}": line.pop(f"{name}_estimate_{k}") for k in ("low", "high")}
        elif value is None or isinstance(value, str | bool | int | float):
            line[name] = value
    return line


# ------------------------------------------------------------------ figures


def write_figures(results: Results, folder: str | Path) -> list[Path]:
    """Write the figures of the report as PNG, SVG and PDF, each with its data as CSV."""
    tables = frames(results)
    several = [p.policy for p in results.policies] if len(results.policies) > 1 else []

    def rows(table: str, **wanted: object) -> pd.DataFrame:
        data = tables[table]
        for column, value in wanted.items():
            data = data[data[column] == value]
        return data

    def density() -> pd.DataFrame:
        v = results.verdicts[0]
        return pd.DataFrame({"r": np.linspace(-0.99, 0.99, len(v.density)), "density": v.density})

    def measured(policy: str | None) -> pd.DataFrame:
        return pd.DataFrame(plots.points(results, policy))

    drawn: dict[str, tuple[Callable[[], Figure], Callable[[], pd.DataFrame]]] = {
        "verdict": (partial(plots.verdict, results), density),
        "correlation": (partial(plots.correlation, results), partial(measured, None)),
    }
    for i, policy in enumerate(several):
        if any(c.policy == policy and c.points for c in results.correlations):
            draw = partial(plots.correlation, results, policy=policy)
            drawn[f"correlation_{i + 1}"] = draw, partial(measured, policy)
    for i, row in enumerate(results.policies):
        drawn[f"accuracy_at_n_{i + 1}" if several else "accuracy_at_n"] = (
            partial(plots.accuracy_at_n, results, policy=row.policy),
            partial(rows, "accuracy_at_n", policy=row.policy, headline=True),
        )
    for i, study in enumerate(results.trained):
        drawn[f"gains_{i + 1}" if i else "gains"] = (
            partial(plots.gains, study), partial(rows, "trained", policy=study.policy),
        )  # fmt: skip
    written = []
    for name, (plot, data) in drawn.items():
        try:
            figure = plot()
        except plots.NothingToDrawError:
            continue
        written += [*plots.save(figure, Path(folder) / name), Path(folder) / f"{name}.csv"]
        written[-1].write_text(csv_text(data()), encoding="utf-8")
    return written
