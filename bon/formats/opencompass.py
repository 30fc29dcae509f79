"""Predictions of OpenCompass's generation tasks: one JSON object of rows by number and file.

A row has the prompt and perhaps the right answer; `--questions` provides the question.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from bon.benchmarks.rows import RawRow
from bon.core.errors import BonError
from bon.core.text import LETTERS
from bon.formats.base import Format, starts_with


def rows(path: Path) -> Iterator[RawRow]:
    """Yield one row per question."""
    try:
        for number, row in json.loads(path.read_bytes()).items():
            prompt, gold = row["origin_prompt"], row.get("gold")
            if isinstance(prompt, list):  # the turns of a chat
                prompt = "\n".join(turn["prompt"] for turn in prompt)
            answer = gold if isinstance(gold, str) and gold in LETTERS else None
            row = {"prompt": prompt, "answer": answer, "response": row["prediction"]}
            yield path.parent, {"row": int(number), **row}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise BonError(f"{path} is not a file of generated predictions", "copy it again") from None


FORMAT = Format(
    "opencompass",
    "Predictions of OpenCompass",
    "predictions/MODEL/DATASET.json of a whole dataset, generated (not by perplexity); --questions",
    "answers",
    lambda path: starts_with(path, b'"origin_prompt"'),
    rows,
    bare=True,
)
