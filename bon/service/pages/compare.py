"""Validations side by side: estimates for each rewarder, and paired differences."""

from pathlib import Path
from typing import Any

from bon.analysis.results import Estimate
from bon.service.validations.job import read_json

CHOICES = Path("tables") / "choices.parquet"


def comparison(validations: list[tuple[dict[str, Any], Path]]) -> dict[str, Any]:
    """Return a column per validation and a row per policy and rewarder, best first.

    Only headline rules are shown, and validations without results come last. From the second
    column on, a cell has its paired difference to the first over the questions they share.
    """
    columns = []
    cells: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    baselines = set()
    first: Path | None = None
    read = [(*row, read_json(row[1] / "results.json")) for row in validations]
    for summary, directory, results in sorted(read, key=lambda row: row[2] is None):
        if results is None:
            columns.append({**summary, "finding": None, "questions": None})
            continue
        finding, questions = results["finding"]["sentence"], results["counts"]["questions"]
        columns.append({**summary, "finding": finding, "questions": questions})
        differences = {} if first is None else _differences(directory, first)
        first = first or directory
        for key, cell in headlines(results).items():
            if cell["rule"] == "baseline":
                baselines.add(key[1])
            cells.setdefault(key, {})[summary["id"]] = {**cell, "difference": differences.get(key)}
    rows: list[dict[str, Any]] = [
        {"policy": policy, "rewarder": rewarder, "baseline": rewarder in baselines, "cells": row}
        for (policy, rewarder), row in cells.items()
    ]
    rows.sort(key=lambda row: (row["policy"], row["baseline"], -_best(row["cells"])))
    return {"columns": columns, "rows": rows}


def headlines(results: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the estimates under the headline rule by policy and rewarder."""
    benchmarks = {row["rewarder"]: row for row in results["benchmarks"]}
    return {
        (row["policy"], row["rewarder"]): {
            "n": row["n"],
            "rule": row["rule"],
            "accuracy": _estimate(row["accuracy"]),
            "gain": _estimate(row["gain"]),
            "versus_majority": _estimate(row.get("versus_majority")),
            "benchmark": _estimate(benchmarks.get(row["rewarder"], {}).get("macro")),
        }
        for row in results["best_of_n"]
        if row["headline"]
    }


def _differences(directory: Path, first: Path) -> dict[tuple[str, str], Estimate]:
    """Paired differences between two runs; none before both have a report."""
    import pandas as pd

    from bon.analysis.estimators.comparisons import paired

    if not ((directory / CHOICES).is_file() and (first / CHOICES).is_file()):
        return {}
    return paired(pd.read_parquet(directory / CHOICES), pd.read_parquet(first / CHOICES))


def _estimate(values: dict[str, Any] | None) -> Estimate | None:
    return None if values is None else Estimate.model_validate(values)


def _best(cells: dict[str, dict[str, Any]]) -> float:
    return max((cell["accuracy"].value or 0.0 for cell in cells.values()), default=0.0)
