"""Tables as CSV and Parquet, and figures as files, from the same results as the report."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
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
    for name, frame in tables.items():
        csv, parquet = folder / f"{name}.csv", folder / f"{name}.parquet"
        csv.write_text(csv_text(frame), encoding="utf-8")
        frame.to_parquet(parquet, index=False)
        written += [csv, parquet]
    lists = ("choices", *(name for name, value in results if isinstance(value, tuple)))
    for path in {*folder.glob("*.csv"), *folder.glob("*.parquet")} - set(written):
        if path.stem.startswith(lists):  # of an earlier analysis
            path.unlink()
    return written


KEYS = ("policy", "benchmark", "axis", "leaks", "rewarder", "rule", "headline", "n")
"""Fields of a record that its inner lists are told apart by."""


def frames(results: Results) -> dict[str, pd.DataFrame]:
    """Return the non-empty tables by name.

    `best_of_n` is the list of the results, `best_of_n_curve` what its records list as `curve`, each
    row with the `KEYS` of its record.
    """
    tables: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for name, records in results:
        for record in _records(records):
            tables[name].append(_flat(record))
            keys = _flat(record, [key for key in KEYS if key in type(record).model_fields])
            for inner, rows in record:
                tables[f"{name}_{inner}"] += (keys | _flat(row) for row in _records(rows))
    return {name: pd.DataFrame(rows) for name, rows in tables.items() if rows}


def _records(value: Any) -> list[Record]:
    return [row for row in value if isinstance(row, Record)] if isinstance(value, tuple) else []


def _flat(record: Record, only: Sequence[str] | None = None) -> dict[str, Any]:
    """Return scalars, estimates as three columns."""
    line: dict[str, Any] = {}
    for name in type(record).model_fields if only is None else only:
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
            partial(rows, "best_of_n_curve", policy=row.policy, headline=True),
        )
    for i, study in enumerate(results.trained):
        drawn[f"gains_{i + 1}" if i else "gains"] = (
            partial(plots.gains, study), partial(rows, "trained_arms", policy=study.policy),
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
