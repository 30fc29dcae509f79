"""What is said of a validation: its state and progress, its counts, its tables, its log."""

import csv
import io
import math
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bon.core.errors import BonError
from bon.running.reporting import open_run
from bon.running.store import Store
from bon.service.job import LOG, PROGRESS, read_json
from bon.service.jobs import FINAL, Validation
from bon.service.logs import told

COUNTS_SECONDS = 2.0
STARTING = "Ray and the models are starting; the first answers can take a minute."
TABLES = ("questions", "candidates", "pairs", "judgements", "rewarders")
"""The analysis tables of a run."""
SUMMARIES = ("policies", "best_of_n", "benchmarks", "correlations")
"""Tables made of results.json."""

_counts_cache: dict[tuple[str, int], tuple[float, float, dict[str, Any]]] = {}


def summary(validation: Validation) -> dict[str, Any]:
    """A validation as the API and the pages show it."""
    return {
        "id": validation.id,
        "name": validation.name,
        "owner": validation.owner,
        "state": validation.state,
        "error": told(validation.error),
        "attempt": validation.attempt,
        "created": _iso(validation.created),
        "started": _iso(validation.started),
        "finished": _iso(validation.finished),
    }


def detail(validation: Validation, directory: Path) -> dict[str, Any]:
    """The summary with progress, counts and what results there are."""
    return {
        **summary(validation),
        "progress": progress(validation, directory),
        "counts": counts(validation, directory),
        "results": (directory / "results.json").is_file(),
        "report": (directory / "report.html").is_file(),
        "experiment": validation.experiment,
    }


def progress(validation: Validation, directory: Path) -> dict[str, Any]:
    """Phase and stages; of a validation that does not run, where it stopped."""
    written = read_json(directory / PROGRESS) or {"phase": "", "stages": [], "at": None}
    found: dict[str, Any] = {"seconds_left": None, "left_is": "about", **written}
    if validation.state == "queued":
        found["phase"] = "queued"
    if validation.state in ("done", "failed", "cancelled"):
        found["phase"] = validation.state
    if validation.state not in ("running", "cancelling"):
        found["seconds_left"] = None
    waiting = validation.state == "running" and not any(row["rate"] for row in found["stages"])
    found["note"] = STARTING if waiting and found["phase"] != "analysing" else ""
    return found


def counts(validation: Validation, directory: Path) -> dict[str, Any]:
    """Calls, tokens, money and failures so far, read beside a running driver.

    They are sums over tables that can hold millions of rows, so they are kept for a while,
    the longer the longer they took.
    """
    final = validation.state in FINAL
    key = (validation.id, validation.attempt if not final else -validation.attempt)
    now = time.monotonic()
    known = _counts_cache.get(key)
    if known is not None and now < known[1]:
        return known[2]
    found = _count(directory)
    took = time.monotonic() - now
    if len(_counts_cache) > 1000:
        _counts_cache.clear()
    lasts = math.inf if final else max(COUNTS_SECONDS, 20 * took)
    _counts_cache[key] = (now, now + lasts, found)
    return found


def forget_counts(key: str) -> None:
    """Count anew: the validation was deleted or has just ended."""
    for known in [known for known in _counts_cache if known[0] == key]:
        del _counts_cache[known]


_NOTHING = {
    "candidates": 0, "judgements": 0, "errors": 0, "unparsed": 0,
    "input_tokens": 0, "output_tokens": 0, "cost": 0.0,
    "sample_seconds": 0.0, "judge_seconds": 0.0,
}  # fmt: skip


def _count(directory: Path) -> dict[str, Any]:
    try:
        with Store(directory, readonly=True) as store:
            cost = store.cost()
            rows = [
                store.query(
                    "SELECT COUNT(*), SUM(outcome = 'error'), SUM(outcome = 'unparsed'), "
                    f"SUM(num_prompt_tokens), SUM(num_tokens), SUM(seconds) FROM {table}"
                )[0]
                for table in ("candidates", "judgements")
            ]
    except BonError:  # no run yet, or one that is being created
        return dict(_NOTHING)
    both = [[value or 0 for value in row] for row in rows]
    total = [sum(values) for values in zip(*both, strict=True)]
    return {
        "candidates": both[0][0],
        "judgements": both[1][0],
        "errors": total[1],
        "unparsed": total[2],
        "input_tokens": total[3],
        "output_tokens": total[4],
        "cost": cost,
        "sample_seconds": both[0][5],
        "judge_seconds": both[1][5],
    }


def speeds(directories: Iterator[Path]) -> dict[str, float]:
    """Spec -> mean seconds of a call, over the first thousand calls of each in these runs."""
    found: dict[str, float] = {}
    for directory in directories:
        try:
            with Store(directory, readonly=True) as store:
                for table in ("candidates", "judgements"):
                    specs = store.query(f"SELECT DISTINCT spec FROM {table}")
                    for (spec,) in specs:
                        row = store.query(
                            f"SELECT AVG(seconds) FROM (SELECT seconds FROM {table} "
                            "WHERE spec = ? AND outcome != 'error' LIMIT 1000)",
                            (spec,),
                        )
                        if spec not in found and row[0][0] is not None:
                            found[spec] = row[0][0]
        except BonError:
            continue
    return found


# ------------------------------------------------------------------ tables


def run_table(directory: Path, name: str) -> Any:
    """One analysis table as a data frame."""
    from bon.running.frames import run_tables

    with Store(directory, readonly=True) as store:
        return getattr(run_tables(open_run(store), store), name)


def summary_rows(results: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Part of results.json as flat rows; an estimate becomes value, low and high."""
    return [dict(_flat(row)) for row in results.get(name, [])]


def _flat(row: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in row.items():
        if isinstance(value, dict) and {"value", "low", "high"} <= set(value):
            yield prefix + key, value["value"]
            yield f"{prefix}{key}_low", value["low"]
            yield f"{prefix}{key}_high", value["high"]
        elif isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}_")
        elif not isinstance(value, list):
            yield prefix + key, value


def to_csv(rows: list[dict[str, Any]]) -> str:
    """CSV with the union of the rows' columns; no cell starts a formula in a spreadsheet."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns)
    writer.writeheader()
    writer.writerows({key: safe_cell(value) for key, value in row.items()} for row in rows)
    return text.getvalue()


def safe_cell(value: Any) -> Any:
    """A text that a spreadsheet would run as a formula, made a plain one."""
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return f"'{value}"
    return value


def log_tail(directory: Path, size: int) -> str:
    """The last bytes of a validation's log, from the start of a line, without secrets."""
    try:
        with (directory / LOG).open("rb") as file:
            end = file.seek(0, io.SEEK_END)
            file.seek(max(0, end - size))
            data = file.read()
    except OSError:
        return ""
    if end > size:
        data = data.partition(b"\n")[2]
    return told(data.decode("utf-8", "replace"))


def _iso(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
