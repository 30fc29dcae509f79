"""Scorers of an installed lmms-eval: `lmms_eval:TASK` grades whole responses.

A task's `process_results` is given the document, without its images, and the response; the first
metric of the task that is a number of one response counts. Its code runs in this process.
"""

import json
import re
from collections.abc import Mapping
from functools import lru_cache, partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bon.core.errors import BonError, one_line, suggestion
from bon.core.records import LMMS_EVAL
from bon.graders import Gold, Grader

_TASK = re.compile(r"""^task:\s*["']?([\w.-]+)["']?\s*$""", re.MULTILINE)


def scorer(name: str) -> Grader:
    """Return the grader of a task."""
    return partial(score, name)


def score(name: str, text: str, gold: Gold) -> float | None:
    """Return the task's score of a response; None where it gives none."""
    task = load_task(name)
    document = json.loads(gold.answers[-1])
    try:
        results: Mapping[str, Any] = task["process_results"](document, [text])
    except Exception as error:
        raise BonError(f"the scorer of {name} fails: {one_line(error)}") from None
    for metric in task["metric_list"]:
        value = results.get(metric["metric"])
        value = value.get("score") if isinstance(value, Mapping) else value
        if isinstance(value, int | float) and 0 <= value <= 1:
            return float(value)
    raise BonError(
        f"the scorer of {name} gives no number from 0 to 1 for one response: "
        f"{', '.join(map(str, results))[:120]}",
        "use bon's own task, or `benchmark: open_ended` with `grader: llm`",
    )


@lru_cache(maxsize=64)
def load_task(benchmark: str) -> dict[str, Any]:
    """Return the configuration of a task, with its functions.

    Raises:
        BonError: lmms-eval is missing, or the task is unknown, needs filters, or has no scorer of
            single responses.
    """
    name = benchmark.removeprefix(LMMS_EVAL)
    found = find_spec("lmms_eval")
    if found is None or found.origin is None:
        raise BonError(f"lmms_eval:{name} needs the package lmms-eval", "pip install lmms-eval")
    files = _files(Path(found.origin).parent / "tasks")
    if name not in files:
        raise BonError(f"lmms-eval has no task {name!r}", suggestion(name, files, cutoff=0.5))
    try:
        load = import_module("lmms_eval.utils").load_yaml_config
        task: dict[str, Any] = load(str(files[name]), mode="full")
    except Exception as error:
        raise BonError(f"lmms-eval cannot load {name}: {one_line(error)}") from None
    for key, why in (("process_results", "has no scorer of"), ("test_split", "has no split for")):
        if not task.get(key):
            raise BonError(f"lmms_eval:{name} {why} single responses", "use bon's own task")
    if task.get("filter_list"):
        raise BonError(f"lmms_eval:{name} needs filters of replies", "use bon's own task")
    return task


@lru_cache(maxsize=4)
def _files(folder: Path) -> dict[str, Path]:
    """Return the file of each task by its name."""
    files: dict[str, Path] = {}
    for path in sorted(folder.rglob("*.yaml")):
        if match := _TASK.search(path.read_text(encoding="utf-8", errors="replace")):
            files.setdefault(match[1], path)
    return files
