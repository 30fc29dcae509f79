"""Judge replies logged by the scripts of VL-RewardBench, Multimodal RewardBench and JudgeBench.

All keep the raw reply and the order shown. Their own verdicts are not used: one script counts
other numbers as agreement, the other flips a coin.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from bon.benchmarks.base import BadRow, RowError
from bon.benchmarks.multimodal_rewardbench import group_of as domain_of
from bon.benchmarks.rows import RawRow
from bon.benchmarks.vl_rewardbench import group_of
from bon.core.keys import content_key
from bon.formats.base import Format, columns_of, file_rows

Rows = Iterator[dict[str, Any]]
_OUTCOMES = {"1": "first", "2": "second", "A": "first", "B": "second", "C": "tie"}


def _vl_rewardbench(path: Path, row: Mapping[str, Any]) -> Rows:
    """Two ids of this benchmark are 25 pairs each, so items are named by their responses too."""
    meta, ranking = row["meta"], row["ranking"]
    if sorted(ranking) != [0, 1]:
        raise RowError(f"its ranking {ranking!r} is not an order of two")
    first = int(int(meta.get("random_number") or 0) == 1)  # 1: shown in reverse order
    sides = ["chosen" if rank == 0 else "rejected" for rank in ranking]
    texts = sorted(map(str, row["response"]))
    yield {
        "rewarder": str(row.get("judge") or path.stem),
        "item": f"{row['id']} {content_key(row.get('query'), texts)[:6]}",
        "first": sides[first],
        "second": sides[1 - first],
        "outcome": _outcome(r"[Aa]nswer\s*([12])\s*is\s*better", str(meta.get("filter_choice"))),
        "prompt": str(row.get("query") or ""),
        "group": group_of(str(row["id"])),
    }


def _multimodal_rewardbench(path: Path, row: Mapping[str, Any]) -> Rows:
    """`Label` is the better of the two as shown; `outputs` are several replies."""
    if row["Label"] not in ("A", "B"):
        raise RowError(f"its Label {row['Label']!r} is neither A nor B")
    sides = ("chosen", "rejected") if row["Label"] == "A" else ("rejected", "chosen")
    replies = row.get("outputs") or [row.get("output")]
    for reply in replies if isinstance(replies, list) else [replies]:
        yield {
            "rewarder": path.stem,
            "item": str(row["ID"]),
            "first": sides[0],
            "second": sides[1],
            "outcome": _outcome(r"\[\[([ABC])\]\]", str(reply)),
            "group": domain_of(str((row.get("Meta") or {}).get("Category") or "")),
        }


def _judgebench(path: Path, row: Mapping[str, Any]) -> Rows:
    """The second judgement, if there are two, was shown the responses the other way round."""
    if row["label"] not in ("A>B", "B>A"):
        raise RowError(f"its label {row['label']!r} prefers neither")
    sides = ["chosen", "rejected"] if row["label"] == "A>B" else ["rejected", "chosen"]
    for at, judgement in enumerate(row["judgments"]):
        decision = str((judgement or {}).get("decision"))
        yield {
            "rewarder": str(row.get("judge_name") or path.stem),
            "item": str(row["pair_id"]),
            "first": sides[at % 2],
            "second": sides[1 - at % 2],
            "outcome": {"A>B": "first", "B>A": "second", "A=B": "tie"}.get(decision, "unparsed"),
            "prompt": str(row.get("question") or ""),
            "group": str(row.get("source") or ""),
        }


def _outcome(pattern: str, reply: str) -> str:
    """Return the verdict of a reply; `unparsed` for none or contradictory ones."""
    verdicts = set(re.findall(pattern, reply))
    return _OUTCOMES[verdicts.pop()] if len(verdicts) == 1 else "unparsed"


def _format(
    name: str, title: str, columns: set[str], read: Callable[[Path, Mapping[str, Any]], Rows]
) -> Format:
    def recognises(path: Path) -> bool:
        return path.suffix in (".jsonl", ".json") and columns_of(path) >= columns

    def rows(path: Path) -> Iterator[RawRow]:
        seen: set[str] = set()
        for number, (folder, row) in enumerate(file_rows(path), start=1):
            if isinstance(row, BadRow):
                yield folder, row
                continue
            line = json.dumps(row, sort_keys=True)
            if line in seen:  # an identical line is not another vote
                continue
            seen.add(line)
            try:
                yield from ((folder, record) for record in read(path, row))
            except (KeyError, TypeError, ValueError, RowError) as error:
                yield folder, BadRow(f"row-{number}", str(error) or type(error).__name__)

    needs = "as its script wrote it; several lines of a pair are votes"
    return Format(name, title, needs, "verdicts", recognises, rows)


FORMATS = (
    _format(
        "vl_rewardbench_judgements",
        "Judgements by the script of VL-RewardBench",
        {"id", "query", "response", "ranking", "meta"},
        _vl_rewardbench,
    ),
    _format(
        "multimodal_rewardbench_judgements",
        "Judgements by the script of Multimodal RewardBench",
        {"ID", "Text", "Label", "Meta"},
        _multimodal_rewardbench,
    ),
    _format(
        "judgebench",
        "Outputs of JudgeBench",
        {"pair_id", "label", "judgments"},
        _judgebench,
    ),
)
