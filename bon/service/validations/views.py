"""Views of a validation: state, progress, counts, tables, log."""

import io
import math
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bon.core.errors import BonError
from bon.running.reporting import open_run
from bon.service.server.logs import public_text
from bon.service.validations.job import LOG, PROGRESS, read_json
from bon.service.validations.jobs import FINAL, Validation
from bon.storage.store import Store

if TYPE_CHECKING:
    import pandas as pd

STARTING = "Ray and the models are starting; the first answers can take a minute."
TABLES = ("questions", "candidates", "pairs", "judgements", "rewarders")
"""The analysis tables of a run."""
SLOW = 0.05  # seconds of a core
_counts: dict[tuple[str, int], tuple[dict[str, Any], float]] = {}
"""Counts of a validation's attempt and the time until which they are shown again."""


def summary(validation: Validation) -> dict[str, Any]:
    """Return a validation as the API and the pages show it."""
    return {
        "id": validation.id,
        "name": validation.name,
        "owner": validation.owner,
        "state": validation.state,
        "error": public_text(validation.error),
        "attempt": validation.attempt,
        "created": _iso(validation.created),
        "started": _iso(validation.started),
        "finished": _iso(validation.finished),
    }


def detail(validation: Validation, directory: Path) -> dict[str, Any]:
    """Return the summary with progress, counts and which results exist."""
    return {
        **summary(validation),
        "progress": progress(validation, directory),
        "counts": counts(validation, directory),
        "results": (directory / "results.json").is_file(),
        "report": (directory / "report.html").is_file(),
        "experiment": validation.experiment,
    }


def progress(validation: Validation, directory: Path) -> dict[str, Any]:
    """Return phase and stages; of a validation that does not run, those where it stopped."""
    written = read_json(directory / PROGRESS) or {"phase": "", "stages": [], "at": None}
    view: dict[str, Any] = {"seconds_left": None, "left_is": "about", "curve": [], **written}
    if validation.state not in ("running", "cancelling"):
        view |= {"phase": validation.state, "seconds_left": None}
    waiting = validation.state == "running" and not any(row["rate"] for row in view["stages"])
    if view["phase"] == "computing":
        at_work = [
            row["label"] for row in view["stages"] if row["rate"] and row["done"] < row["total"]
        ]
        view["phase"] = " and ".join(at_work) or "loading models"
    view["note"] = STARTING if waiting and view["phase"] != "analysing" else ""
    return view


def counts(validation: Validation, directory: Path) -> dict[str, Any]:
    """Return calls, tokens, money and failures so far, read beside a running driver.

    They are sums over tables of up to millions of rows: a slow count is kept for twenty times as
    long as it took, and that of a validation that has ended for good.
    """
    final = validation.state in FINAL
    key = (validation.id, -validation.attempt if final else validation.attempt)
    values, until = _counts.get(key, ({}, 0.0))
    if time.monotonic() < until:
        return values
    started = time.thread_time()  # waiting for a busy core is no cost
    values = _count(directory)
    seconds = time.thread_time() - started
    if final or seconds > SLOW:
        if len(_counts) > 1000:
            _counts.clear()
        _counts[key] = values, time.monotonic() + (math.inf if final else 20 * seconds)
    return values


def _count(directory: Path) -> dict[str, Any]:
    cost, rows = 0.0, [(0,) * 5] * 2
    try:
        with Store(directory, readonly=True) as store:
            cost = store.cost()
            rows = [
                store.query(
                    "SELECT COUNT(*), TOTAL(outcome = 'error'), TOTAL(outcome = 'unparsed'), "
                    f"TOTAL(num_prompt_tokens), TOTAL(num_tokens) FROM {table}"
                )[0]
                for table in ("candidates", "judgements")
            ]
    except BonError:  # no run yet, or one that is being created
        pass
    names = ("errors", "unparsed", "input_tokens", "output_tokens")
    (candidates, *sampled), (judgements, *judged) = rows
    counts = {"candidates": candidates, "judgements": judgements}
    counts |= {n: int(a + b) for n, a, b in zip(names, sampled, judged, strict=True)}
    return {**counts, "cost": cost}


# ------------------------------------------------------------------ tables


def table(directory: Path, name: str) -> "pd.DataFrame":
    """Return an analysis table of a run."""
    from bon.work.run_tables import run_tables

    with Store(directory, readonly=True) as store:
        frame: pd.DataFrame = getattr(run_tables(open_run(store), store), name)
        return frame


def log_tail(directory: Path, size: int) -> str:
    """Return the log's last bytes from the start of a line, without secrets."""
    try:
        with (directory / LOG).open("rb") as file:
            end = file.seek(0, io.SEEK_END)
            file.seek(max(0, end - size))
            data = file.read()
    except OSError:
        return ""
    if end > size:
        data = data.partition(b"\n")[2]
    return public_text(data.decode("utf-8", "replace"))


def _iso(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
