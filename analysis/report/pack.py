"""The browser's data, small enough for one file: columns, chunks, deflate and base64.

Four tiers, each cut into chunks of questions: `index` (for lists, filters and search),
`detail` (options, answers, scores, choices), `text` (candidates) and `why` (rationales). A
tier goes into the page while there is room and into the side folder after that.
"""

from __future__ import annotations

import base64
import json
import shutil
import zlib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bon.analysis.report.pictures import Images, Pictures
from bon.analysis.report.views import ChoiceView, QuestionView

CHUNK = 24
_SEARCH = 700
_TIERS = ("detail", "text", "why")

# one bit a filter; report.js reads them by these numbers
LEAKED, ALL_WRONG, ALL_RIGHT, DISAGREE, UNPARSED = 1, 2, 4, 8, 16


@dataclass
class Packed:
    """What the page embeds, and what goes beside it."""

    data: dict[str, Any]
    num_questions: int
    beside: dict[str, str] = field(default_factory=dict)
    tiers_beside: tuple[str, ...] = ()
    images_beside: bool = False

    def text(self) -> str:
        """JSON for a script element: nothing in it can end the element."""
        return dumps(self.data).replace("<", "\\u003c")


def dumps(value: Any) -> str:
    """Compact JSON that refuses NaN."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def squeeze(value: Any) -> str:
    """Compact JSON, deflated, in base64. The browser undoes it with DecompressionStream."""
    return base64.b64encode(zlib.compress(dumps(value).encode(), 9)).decode()


class Packing:
    """Takes views one after the other and keeps only what is compressed."""

    def __init__(self, folder: Path, images: Images, rewarders: list[str]) -> None:
        self.folder, self.pictures = folder, Pictures(folder, images)
        self.policies: dict[str, int] = {}
        self.rewarders = {name: i for i, name in enumerate(rewarders)}
        self.subjects: dict[str, int] = {}
        self.difficulties: dict[str, int] = {}
        self.index: dict[str, list[Any]] = {
            k: [] for k in ("id", "key", "subject", "difficulty", "flags", "state", "text")
        }
        self.open: dict[str, list[Any]] = {tier: [] for tier in _TIERS}
        self.chunks: dict[str, list[str]] = {tier: [] for tier in _TIERS}
        self.has_why = False

    def add(self, view: QuestionView) -> None:
        """One question."""
        pools: dict[int, list[Any]] = {}
        for c in view.candidates:
            pools.setdefault(_number(self.policies, c.policy), []).append(c)
        chosen: dict[int, list[ChoiceView]] = {}
        for choice in view.choices:
            chosen.setdefault(_number(self.policies, choice.policy), []).append(choice)
            _number(self.rewarders, choice.rewarder)

        self._index(view, pools, chosen)
        self.open["detail"].append(
            {
                "o": view.options,
                "a": view.answer,
                "i": [self.pictures.add(image) for image in view.images],
                "q": view.text,
                "c": {
                    p: [[c.index, c.answer, _outcome(c.outcome), int(c.correct)] for c in pool]
                    for p, pool in pools.items()
                },
                "s": {
                    p: [
                        [self.rewarders[x.rewarder], x.picked, [_short(s) for s in x.scores]]
                        for x in choices
                    ]
                    for p, choices in chosen.items()
                },
            }
        )
        self.open["text"].append({p: [c.text for c in pool] for p, pool in pools.items()})
        why = {
            p: {
                self.rewarders[x.rewarder]: [
                    [j.first, j.second, j.outcome, _short(j.score), j.text] for j in x.judgements
                ]
                for x in choices
                if x.judgements
            }
            for p, choices in chosen.items()
        }
        self.has_why = self.has_why or any(why.values())
        self.open["why"].append(why)
        if len(self.open["detail"]) == CHUNK:
            self._close()

    def _index(
        self,
        view: QuestionView,
        pools: dict[int, list[Any]],
        chosen: dict[int, list[ChoiceView]],
    ) -> None:
        """The line of the list: flags, and a letter a rewarder and policy."""
        everyone = [c for pool in pools.values() for c in pool]
        flags = LEAKED * view.leaked
        flags |= ALL_WRONG * (bool(everyone) and not any(c.correct for c in everyone))
        flags |= ALL_RIGHT * (bool(everyone) and all(c.correct for c in everyone))
        flags |= UNPARSED * any(c.outcome != "parsed" for c in everyone)
        state: dict[int, list[Any]] = {}
        for p, pool in pools.items():
            right = {c.index: c.correct for c in pool}
            answer = {c.index: c.answer for c in pool}
            picked = [x for x in chosen.get(p, []) if x.picked]
            sets = [{answer.get(i) for i in x.picked} for x in picked]
            if sets and any(not (a & b) for i, a in enumerate(sets) for b in sets[:i]):
                flags |= DISAGREE
            state[p] = [
                _state([c.correct for c in _voted(pool)]),
                [[self.rewarders[x.rewarder], _state([right.get(i, False) for i in x.picked])]
                 for x in picked],
            ]  # fmt: skip
        self.index["id"].append(view.id)
        self.index["key"].append(view.key)
        self.index["subject"].append(_number(self.subjects, view.subject))
        self.index["difficulty"].append(_number(self.difficulties, view.difficulty))
        self.index["flags"].append(flags)
        self.index["state"].append(state)
        self.index["text"].append(" ".join(view.text.split())[:_SEARCH])

    def _close(self) -> None:
        for tier in _TIERS:
            self.chunks[tier].append(squeeze(self.open[tier]))
            self.open[tier] = []

    def finish(self, budget: int) -> Packed:
        """Everything the browser needs; `budget` is how many bytes the page may still grow by."""
        if self.open["detail"]:
            self._close()
        ids = Counter(self.index["id"])
        self.index["link"] = [
            i if ids[i] == 1 else k[:16]
            for i, k in zip(self.index["id"], self.index.pop("key"), strict=True)
        ]
        head: dict[str, Any] = {
            "policies": list(self.policies),
            "rewarders": list(self.rewarders),
            "subjects": list(self.subjects),
            "difficulties": list(self.difficulties),
            "chunk": CHUNK,
            "index": squeeze(self.index),
            "images": self.pictures.addresses,
            "tiers": {},
            "folder": self.folder.name,
        }
        left = budget - len(head["index"])
        beside: dict[str, str] = {}
        outside = []
        for tier in _TIERS:
            if tier == "why" and not self.has_why:
                head["tiers"][tier] = None
                continue
            total = sum(map(len, self.chunks[tier])) + 4 * len(self.chunks[tier])
            if total <= left:
                left -= total
                head["tiers"][tier] = self.chunks[tier]
                continue
            head["tiers"][tier] = "folder"
            outside.append(tier)
            for i, chunk in enumerate(self.chunks[tier]):
                beside[f"{tier}-{i:04d}.js"] = f'bonChunk("{tier}",{i},"{chunk}")\n'
        return Packed(head, len(self.index["id"]), beside, tuple(outside), self.pictures.beside)


def write_beside(packed: Packed, folder: Path) -> None:
    """Write the side folder's data, and remove what an earlier report left there."""
    data = folder / "data"
    if data.is_dir():
        shutil.rmtree(data)
    if packed.beside:
        data.mkdir(parents=True)
        for name, text in packed.beside.items():
            (data / name).write_text(text, encoding="utf-8")
    elif folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def _number(names: dict[str, int], name: str) -> int:
    return names.setdefault(name, len(names))


def _outcome(outcome: str) -> int:
    return {"parsed": 0, "unparsed": 1}.get(outcome, 2)


def _short(value: float | None) -> float | None:
    return None if value is None or value != value else float(f"{value:.4g}")


def _state(correct: list[bool]) -> str:
    """r: right, w: wrong, m: a tie between right and wrong ones, -: nothing chosen."""
    if not correct:
        return "-"
    return "r" if all(correct) else "w" if not any(correct) else "m"


def _voted(pool: list[Any]) -> list[Any]:
    """The candidates that have the most frequent answer."""
    votes = Counter(c.answer for c in pool if c.answer is not None)
    top = max(votes.values(), default=0)
    return [c for c in pool if c.answer is not None and votes[c.answer] == top]
