"""The benchmark as tasks of lmms-eval and VLMEvalKit, so that whoever has no bon can run it.

Both ask about every pair in both orders. In VLMEvalKit it is a multiple-choice set, which it reads
from a TSV without code; for lmms-eval there is a task of a few lines, written here from a template.
"""

import base64
import csv
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bon.core.featured import IMAGE, featured
from bon.experiment.prompt_refs import load_prompt

_TEXT = pa.string()
_ASKED = [
    ("pair", _TEXT), ("order", pa.int64()), ("images", pa.list_(IMAGE)), ("prompt", _TEXT),
    ("answer", _TEXT), ("group", _TEXT), ("weight", pa.float64()),
]  # fmt: skip

_TASK = """task: {name}
dataset_path: parquet
dataset_kwargs:
  data_files:
    test: {data}
test_split: test
output_type: generate_until
doc_to_visual: !function utils.doc_to_visual
doc_to_text: "prompt"
doc_to_target: "answer"
process_results: !function utils.process_results
generation_kwargs:
  max_new_tokens: 1024
  temperature: 0
  do_sample: false
metric_list:
  - metric: accuracy
    aggregation: !function utils.accuracy
    higher_is_better: true
  - metric: unread
    aggregation: mean
    higher_is_better: false
metadata:
  - version: {version}
"""

_UTILS = '''"""{name}: which of two answers is better, every pair in both orders."""

import re
from collections import defaultdict

VERDICT = re.compile(r"Answer\\s*([12])\\s*is\\s*better", re.IGNORECASE)


def doc_to_visual(doc):
    return [image.convert("RGB") for image in doc["images"]]


def process_results(doc, results):
    said = VERDICT.findall(results[0].replace("*", ""))
    right = bool(said) and said[-1] == doc["answer"]
    row = {{"group": doc["group"], "right": right if said else None}}
    return {{"accuracy": row, "unread": float(not said)}}


def accuracy(rows):
    """Mean over groups; a verdict that cannot be read counts as wrong."""
    groups = defaultdict(list)
    for row in rows:
        groups[row["group"]].append(float(row["right"] or False))
    return sum(sum(group) / len(group) for group in groups.values()) / len(groups)
'''


def _asked(rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Each pair in both orders, with our wording; `answer` is the place of the better one."""
    prompt = load_prompt("pairwise", room="rewarders", base=Path())
    for row in rows:
        for order in (0, 1):
            first, second = row["responses"] if order == 0 else row["responses"][::-1]
            yield {
                "pair": row["id"],
                "order": order,
                "images": row["images"],
                "prompt": prompt.render(prompt=row["prompt"], first=first, second=second),
                "answer": str((row["preferred"] if order == 0 else 1 - row["preferred"]) + 1),
                "group": row["group"],
                "weight": row["weight"],
            }


def write_lmms_eval(rows: Iterable[dict[str, Any]], folder: Path, name: str, version: str) -> None:
    """A task folder: `--include_path FOLDER --tasks NAME`."""
    folder.mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pylist(list(_asked(rows)), featured(pa.schema(_ASKED)))
    pq.write_table(table, folder / f"{name}.parquet", compression="zstd")
    task = _TASK.format(name=name, data=f"{name}.parquet", version=json.dumps(version))
    (folder / f"{name}.yaml").write_text(task, encoding="utf-8")
    (folder / "utils.py").write_text(_UTILS.format(name=name), encoding="utf-8")


def write_vlmevalkit(rows: Iterable[dict[str, Any]], folder: Path, name: str) -> None:
    """A TSV for $LMUData: `--data NAME` takes it for a multiple-choice set."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.tsv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="\t")
        writer.writerow(["index", "image", "question", "A", "B", "answer", "category"])
        for index, row in enumerate(_both_orders(rows)):
            writer.writerow([index, *row])


def _both_orders(rows: Iterable[dict[str, Any]]) -> Iterator[list[str]]:
    for row in rows:
        pictures = [base64.b64encode(image["bytes"]).decode() for image in row["images"]]
        image = pictures[0] if len(pictures) == 1 else json.dumps(pictures)
        ask = f"{row['prompt']}\n\nWhich answer to this question is better?"
        for order in (0, 1):
            shown = row["responses"] if order == 0 else row["responses"][::-1]
            better = row["preferred"] if order == 0 else 1 - row["preferred"]
            yield [image, ask, *shown, "AB"[better], row["group"]]
