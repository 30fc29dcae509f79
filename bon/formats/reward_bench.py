"""Scores of reward-bench and of RewardBench 2 (`eval-set-scores/ORG/MODEL.json`): lists by column.

Ids are numbered within each subset. In RewardBench 2 the first `num_correct` of an item's responses
are right, and its scores may be nested.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from bon.benchmarks.base import BadRow
from bon.benchmarks.rows import RawRow
from bon.core.errors import BonError
from bon.formats.base import Format


def _recognised(*columns: str) -> Callable[[Path], bool]:
    def recognises(path: Path) -> bool:
        """As JSON with its columns."""
        if path.suffix != ".json" or not path.is_file():
            return False
        text = path.read_bytes()
        return text[:1] == b"{" and all(f'"{name}"'.encode() in text for name in columns)

    return recognises


def _items(path: Path, names: Sequence[str]) -> Iterator[tuple[dict[str, str], tuple[Any, ...]]]:
    """Yield what names an item, without `id` if it has none, and its values of these columns."""
    try:
        table: dict[str, Any] = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise BonError(f"{path} is not JSON: {error}", "copy it again") from None
    columns = [column for name in ("id", *names) if isinstance(column := table.get(name), list)]
    if len(columns) <= len(names) or len(set(map(len, columns))) > 1:
        raise BonError(
            f"{path} has no lists of one length: {', '.join(('id', *names))}",
            "give a file of eval-set-scores; eval-set has only accuracies",
        )
    rewarder = str(table.get("model") or f"{path.parent.name}-{path.stem}".strip("-"))
    subsets, prompts = table.get("subset") or [], table.get("prompt") or []
    keys = set(zip_longest(map(str, columns[0]), subsets[: len(columns[0])]))
    repeated = len({label for label, _ in keys}) < len(keys)  # numbered within each subset
    for at, (label, *values) in enumerate(zip(*columns, strict=True)):
        item = {
            "rewarder": rewarder,
            "group": subsets[at] if at < len(subsets) else "",
            "prompt": prompts[at] if at < len(prompts) else "",
        }
        if label is not None:
            item["id"] = f"{item['group']} {label}" if repeated and item["group"] else str(label)
        yield item, tuple(values)


def _pairs(path: Path) -> Iterator[RawRow]:
    """Yield one row per pair, its subset as the group; the model is the rewarder."""
    for number, (item, (chosen, rejected)) in enumerate(_items(path, _PAIRS), start=1):
        if "id" in item:
            row = {**item, "pair": item.pop("id"), "chosen": chosen, "rejected": rejected}
            yield None, {name: value for name, value in row.items() if name != "id"}
        else:
            yield None, BadRow(f"row-{number}", "has no id")


def _responses(path: Path) -> Iterator[RawRow]:
    """Yield one row per response to each item."""
    for number, (item, (scores, right)) in enumerate(_items(path, _OF_RESPONSES), start=1):
        if "id" not in item or not isinstance(scores, list) or not isinstance(right, int):
            yield None, BadRow(f"row-{number}", "has no id, no list of scores or no num_correct")
            continue
        for at, score in enumerate(scores):
            nested = isinstance(score, list) and len(score) == 1
            row = {"candidate": at, "score": score[0] if nested else score, "correct": at < right}
            yield None, {"rewarder": item["rewarder"], "question": item["id"], **row}


_PAIRS, _OF_RESPONSES = ("scores_chosen", "scores_rejected"), ("scores", "num_correct")
FORMATS = (
    Format(
        "reward_bench", "Scores of reward-bench",
        "eval-set-scores/ORG/MODEL.json; with candidates or answers for the other axis",
        "pair scores", _recognised(*_PAIRS), _pairs,
    ),
    Format(
        "reward_bench_2", "Scores of RewardBench 2",
        "eval-set-scores/ORG/MODEL.json: one right response of four; --policy names who wrote them",
        "scores", _recognised(*_OF_RESPONSES), _responses,
    ),
)  # fmt: skip
