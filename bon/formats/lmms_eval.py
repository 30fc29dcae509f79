"""Samples of lmms-eval (`--log_samples`): one line per document with all repeats.

A line has neither options nor images, only the row of the dataset (`doc_id`), the prompt, and in
MMMU tasks the question's id, so `--questions` provides the question.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bon.benchmarks.base import BadRow
from bon.benchmarks.rows import RawRow
from bon.core.errors import BonError
from bon.formats.base import Format, columns_of, file_rows


def recognises(path: Path) -> bool:
    """By columns; samples of lm-eval have `arguments`."""
    columns = columns_of(path) if path.suffix == ".jsonl" else set()
    return columns >= {"doc_id", "target", "filtered_resps"} and "arguments" not in columns


def rows(path: Path) -> Iterator[RawRow]:
    """Yield one row per document, the first; others are further filters."""
    repeats = _repeats(path)
    seen: set[Any] = set()
    for folder, row in file_rows(path):
        if isinstance(row, BadRow):
            yield folder, row
            continue
        number = row.get("doc_id")
        if number in seen:
            continue
        seen.add(number)
        responses = row.get("resps", row.get("filtered_resps"))
        while isinstance(responses, list) and len(responses) == 1 and type(responses[0]) is list:
            responses = responses[0]
        responses = responses if isinstance(responses, list) else [responses]
        if len(responses) < repeats:
            raise BonError(
                f"{path}: {repeats} answers per question were sampled, but document {number} holds "
                f"{len(responses)}: by default lmms-eval logs only the first",
                "sample again with --reasoning_tags none",
            )
        scored = next((v for v in row.values() if isinstance(v, dict) and "parsed_pred" in v), {})
        values = {"id": scored.get("id"), "row": number, "answer": row.get("target")}
        # Only the first response is scored.
        values |= {"response": responses, "parsed": [scored.get("parsed_pred")]}
        yield folder, values | {"prompt": row.get("input")}


def _repeats(path: Path) -> int:
    """Return the answers per question from the results next to the samples."""
    date, separator, task = path.stem.partition("_samples_")
    results = path.with_name(f"{date}_results.json")
    if not (separator and results.is_file()):
        return 1
    try:
        return int(json.loads(results.read_bytes())["configs"][task].get("repeats") or 1)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise BonError(
            f"{results} does not describe how task {task} was run", "copy it again"
        ) from None


FORMAT = Format(
    "lmms_eval",
    "Samples of lmms-eval",
    "*_samples_*.jsonl of --log_samples --reasoning_tags none, results next to it; --questions",
    "answers",
    recognises,
    rows,
    bare=True,
)
