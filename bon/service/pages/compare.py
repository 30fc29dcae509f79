"""Several validations in one table: what each says about a rewarder."""

from typing import Any


def comparison(compared: list[tuple[dict[str, Any], dict[str, Any] | None]]) -> dict[str, Any]:
    """Rows by (policy, rewarder): Best-of-N accuracy, gain, benchmark accuracy of each run.

    Only headline rules are shown. A difference between two runs is not tested here: their
    questions may differ, which the numbers of questions beside the names show.
    """
    columns = []
    cells: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for shown, results in compared:
        if results is None:
            columns.append({**shown, "finding": None, "questions": None})
            continue
        columns.append(
            {
                **shown,
                "finding": results["finding"]["sentence"],
                "questions": results["counts"]["questions"],
            }
        )
        benchmarks = {row["rewarder"]: row for row in results["benchmarks"]}
        for row in results["best_of_n"]:
            if not row["headline"]:
                continue
            judged = benchmarks.get(row["rewarder"])
            cells.setdefault((row["policy"], row["rewarder"]), {})[shown["id"]] = {
                "n": row["n"],
                "rule": row["rule"],
                "accuracy": row["accuracy"],
                "gain": row["gain"],
                "benchmark": judged["macro"] if judged else None,
            }
    rows = [
        {"policy": policy, "rewarder": rewarder, "cells": by_run}
        for (policy, rewarder), by_run in sorted(cells.items())
    ]
    return {"columns": columns, "rows": rows}
