"""Tables as CSV and Parquet, and figures as files, from the same results as the report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from bon.analysis import plots
from bon.analysis.results import Basis, Coefficient, Correlation, Estimate, Record, Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def write_tables(
    results: Results, folder: str | Path, choices: pd.DataFrame | None = None
) -> list[Path]:
    """Write every table as CSV and Parquet; return the paths.

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
    return written


_PLAIN = (
    *("policies", "rewarders", "best_of_n", "lengths", "comparisons", "ranks", "before_after"),
    *("judging", "repeats", "costs", "samples"),
)
"""Lists of the results that are a table as they are."""


def frames(results: Results) -> dict[str, pd.DataFrame]:
    """Return the non-empty tables by name."""
    axis = ("policy", "benchmark", "axis")
    choice = ("policy", "rewarder", "rule")
    r, study = results, (*axis, "leaks", "n")
    rows: dict[str, Iterable[dict[str, Any]]] = {
        name: map(_flat, getattr(r, name)) for name in _PLAIN
    }
    rows |= {
        "reward_benchmark": map(_flat, r.benchmarks),
        "correlations": map(_coefficients, r.correlations),
        "policy_slices": _inner(r.policies, ("policy",), "slices"),
        "accuracy_at_n": _inner(r.best_of_n, (*choice, "headline"), "curve"),
        "depth": _inner(r.depth, ("policy", "rewarder"), "points"),
        "reward_benchmark_groups": _inner(
            r.benchmarks,
            ("benchmark", "rewarder"),
            by={"group": "groups", "tag": "tags", "length": "by_length"},
        ),
        "correlation_points": _inner(r.correlations, study, "points"),
        "leave_one_out": _inner(
            r.correlations, study, what={"rewarder": "leave_one_out", "family": "leave_family_out"}
        ),
        "what_if": _inner(r.what_if, axis, "rows"),
        "trained": _inner(r.trained, ("policy", "imported"), "arms"),
        "how_much": _inner(r.how_much, axis, "sizes"),
        "slices": _inner(
            [b for b in r.best_of_n if b.headline],
            choice,
            by={"subject": "by_subject", "difficulty": "by_difficulty"},
        ),
    }
    tables = {name: pd.DataFrame(list(lines)) for name, lines in rows.items()}
    return {name: frame for name, frame in tables.items() if len(frame)}


def _inner(
    records: Iterable[Record], keys: tuple[str, ...], name: str = "", **kinds: dict[str, str]
) -> Iterator[dict[str, Any]]:
    """Yield rows of a list in each record, or of several, told apart in a column."""
    ((column, lists),) = kinds.items() or [("", {"": name})]
    for record in records:
        for kind, field in lists.items():
            label = {column: kind} if column else {}
            yield from (_flat(record, keys) | label | _flat(row) for row in getattr(record, field))


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
    for i, study in enumerate(results.trained):
        drawn[f"gains_{i + 1}" if i else "gains"] = (
            lambda _, study=study: plots.gains(study), "trained", {"policy": study.policy},
        )  # fmt: skip
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
