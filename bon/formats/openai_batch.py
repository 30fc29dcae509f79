"""Output of OpenAI's batch API and of vLLM's run-batch, in any order.

A `custom_id` is the question's id, optionally with `#3` for a repeat and `NAME:` as a prefix;
`--questions` provides the questions.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bon.benchmarks.base import BadRow
from bon.benchmarks.rows import RawRow
from bon.core.text import read_choice
from bon.formats.base import Format, columns_of, file_rows


def recognises(path: Path) -> bool:
    """By columns."""
    return path.suffix == ".jsonl" and columns_of(path) >= {"custom_id", "response"}


def rows(path: Path) -> Iterator[RawRow]:
    """Yield one row per question, its candidates by repeat, then by choice."""
    questions: dict[str, dict[int, list[str | None]]] = {}
    for folder, row in file_rows(path):
        if isinstance(row, BadRow) or not isinstance(row.get("custom_id"), str):
            yield folder, row if isinstance(row, BadRow) else BadRow("?", "has no custom_id")
            continue
        match = re.fullmatch(r"(.+)#(\d+)", row["custom_id"])
        label, number = (match[1], int(match[2])) if match else (row["custom_id"], 0)
        # A request may occur twice, first as an error; its completions count once.
        repeats = questions.setdefault(label, {})
        repeats[number] = repeats.get(number) or _completions(row)
    for label, repeats in questions.items():
        texts = [text for _, some in sorted(repeats.items()) for text in some or [None]]
        ids = [label, label.partition(":")[2]]
        yield path.parent, {"id": label, "ids": ids, "response": texts}


def _completions(row: Mapping[str, Any]) -> list[str | None]:
    """Return the texts of a line in order; none if the request failed.

    Older versions of vLLM put the completion directly under `response`.
    """
    response = row.get("response") or {}
    body = response.get("body", response)
    if row.get("error") or not isinstance(body, dict):
        return []
    texts: list[str | None] = []
    for choice in sorted(body.get("choices") or [], key=lambda choice: choice.get("index", 0)):
        try:
            reply = read_choice(choice)
        except ValueError:
            texts.append(None)
            continue
        empty = not reply.text and choice["message"].get("content") is None
        texts.append(None if empty else reply.text)
    return texts


FORMAT = Format(
    "openai_batch",
    "Output of OpenAI batches and of vllm run-batch",
    "custom_id: ID, ID#NUMBER or NAME:ID#NUMBER; n choices are n candidates; --questions",
    "answers",
    recognises,
    rows,
    bare=True,
)
