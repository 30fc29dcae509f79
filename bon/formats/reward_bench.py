"""Scores of reward-bench (`eval-set-scores/ORG/MODEL.json`): lists by column."""

import json
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

from bon.benchmarks.base import BadRow
from bon.benchmarks.rows import RawRow
from bon.core.errors import BonError
from bon.formats.base import Format

_COLUMNS = ("id", "scores_chosen", "scores_rejected")


def recognises(path: Path) -> bool:
    """As JSON with its columns."""
    if path.suffix != ".json" or not path.is_file():
        return False
    text = path.read_bytes()
    names = (b'"scores_chosen"', b'"scores_rejected"')
    return text[:1] == b"{" and (all(name in text for name in names) or b'"num_correct"' in text)


def rows(path: Path) -> Iterator[RawRow]:
    """Yield one row per pair, its subset as the group; the model is the rewarder."""
    try:
        table: dict[str, Any] = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise BonError(f"{path} is not JSON: {error}", "copy it again") from None
    if "num_correct" in table and "scores_chosen" not in table:
        raise BonError(
            f"{path} holds scores of RewardBench 2, which are of four responses and no pairs",
            "give them as a table of scores: rewarder, question, scores (bon list formats)",
        )
    columns = [column for name in _COLUMNS if isinstance(column := table.get(name), list)]
    if len(columns) < len(_COLUMNS) or len(set(map(len, columns))) > 1:
        raise BonError(
            f"{path} has no lists of one length: {', '.join(_COLUMNS)}",
            "give a file of eval-set-scores; eval-set has only accuracies",
        )
    rewarder = str(table.get("model") or f"{path.parent.name}-{path.stem}".strip("-"))
    subsets, prompts = table.get("subset") or [], table.get("prompt") or []
    keys = set(zip_longest(map(str, columns[0]), subsets[: len(columns[0])]))
    repeated = len({label for label, _ in keys}) < len(keys)  # numbered within each subset
    for at, (label, chosen, rejected) in enumerate(zip(*columns, strict=True)):
        if label is None:
            yield None, BadRow(f"row-{at + 1}", "has no id")
            continue
        yield (
            None,
            {
                "rewarder": rewarder,
                "pair": f"{subsets[at]} {label}" if repeated and at < len(subsets) else str(label),
                "chosen": chosen,
                "rejected": rejected,
                "group": subsets[at] if at < len(subsets) else "",
                "prompt": prompts[at] if at < len(prompts) else "",
            },
        )


FORMAT = Format(
    "reward_bench",
    "Scores of reward-bench",
    "eval-set-scores/ORG/MODEL.json; with candidates or answers for the other axis",
    "pair scores",
    recognises,
    rows,
)
