"""Data of the question browser, compressed into the page: columns, chunks, deflate, base64.

The `index` (lists, filters, search) is read at once; the questions themselves, in chunks, when they
are shown. Chunks that do not fit into the page go to the side folder.
"""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import zlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bon.analysis.report.question_views import ChoiceView, QuestionView

CHUNK = 24
_SEARCH = 700

# one bit per filter; report.js reads them by these numbers
LEAKED, ALL_WRONG, ALL_RIGHT, DISAGREE, UNPARSED = 1, 2, 4, 8, 16


@dataclass
class Packed:
    """Data embedded in the page; whether questions and images are files beside it."""

    data: dict[str, Any]
    beside: bool
    images_beside: bool

    def text(self) -> str:
        """Return JSON that cannot end its script element."""
        return dumps(self.data).replace("<", "\\u003c")


def dumps(value: Any) -> str:
    """Return compact JSON; raise ValueError for NaN."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def squeeze(value: Any) -> str:
    """Return deflated JSON in base64, which the browser reads with DecompressionStream."""
    return base64.b64encode(zlib.compress(dumps(value).encode(), 9)).decode()


class Packing:
    """Compresses views one after the other."""

    def __init__(self, folder: Path, images: bool, rewarders: list[str]) -> None:
        self.folder, self.shows_images = folder, images
        self.images: dict[str, int] = {}
        if images:  # of an earlier report
            shutil.rmtree(folder / "images", ignore_errors=True)
        self.policies: dict[str, int] = {}
        self.rewarders = {name: i for i, name in enumerate(rewarders)}
        self.subjects: dict[str, int] = {}
        self.difficulties: dict[str, int] = {}
        self.index: dict[str, list[Any]] = {
            k: [] for k in ("id", "key", "subject", "difficulty", "flags", "state", "text")
        }
        self.open: list[dict[str, Any]] = []
        self.chunks: list[str] = []

    def add(self, view: QuestionView) -> None:
        """Add one question."""
        pools: dict[int, list[Any]] = {}
        for c in view.candidates:
            pools.setdefault(_number(self.policies, c.policy), []).append(c)
        chosen: dict[int, list[ChoiceView]] = {}
        for choice in view.choices:
            chosen.setdefault(_number(self.policies, choice.policy), []).append(choice)
            _number(self.rewarders, choice.rewarder)

        self._index(view, pools, chosen)
        self.open.append(
            {
                "o": view.options,
                "a": view.answer,
                "i": [self._image(Path(image)) for image in view.images],
                "q": view.text,
                "c": {
                    p: [
                        [c.index, c.answer, _outcome(c.outcome), _short(c.correct), c.text]
                        for c in pool
                    ]
                    for p, pool in pools.items()
                },
                "s": {
                    p: [
                        [
                            self.rewarders[x.rewarder],
                            x.picked,
                            [_short(s) for s in x.scores],
                            [[*shown, o, _short(s), text] for *shown, o, s, text in x.judgements],
                        ]
                        for x in choices
                    ]
                    for p, choices in chosen.items()
                },
            }
        )
        if len(self.open) == CHUNK:
            self._close()

    def _index(
        self, view: QuestionView, pools: dict[int, list[Any]], chosen: dict[int, list[ChoiceView]]
    ) -> None:
        """Add the row of the list: flags, and for each policy what each rewarder picked."""
        candidates = [c for pool in pools.values() for c in pool]
        flags = LEAKED * view.leaked
        flags |= ALL_WRONG * (bool(candidates) and not any(c.correct for c in candidates))
        flags |= ALL_RIGHT * (bool(candidates) and all(c.correct == 1 for c in candidates))
        flags |= UNPARSED * any(c.outcome != "parsed" for c in candidates)
        state: dict[int, list[Any]] = {}
        for p, pool in pools.items():
            correct = {c.index: c.correct for c in pool}
            answer = {c.index: c.answer for c in pool}
            picked = [x for x in chosen.get(p, []) if x.picked]
            sets = [{answer.get(i) for i in x.picked} for x in picked]
            if sets and any(not (a & b) for i, a in enumerate(sets) for b in sets[:i]):
                flags |= DISAGREE
            number = {said: at for at, said in enumerate(dict.fromkeys(answer.values()))}
            state[p] = [
                _state([c.correct for c in _voted(pool)]),
                [[self.rewarders[x.rewarder], _state([correct.get(i, 0.0) for i in x.picked]),
                  sorted({number[answer.get(i)] for i in x.picked if i in answer})]
                 for x in picked],
            ]  # fmt: skip
        self.index["id"].append(view.id)
        self.index["key"].append(view.key)
        self.index["subject"].append(_number(self.subjects, view.subject))
        self.index["difficulty"].append(_number(self.difficulties, view.difficulty))
        self.index["flags"].append(flags)
        self.index["state"].append(state)
        self.index["text"].append(" ".join(view.text.split())[:_SEARCH])

    def _image(self, path: Path) -> int | None:
        """Copy an image beside the page, once; return its number, None if it is not shown."""
        try:
            data = path.read_bytes() if self.shows_images else b""
        except OSError:
            data = b""
        if not data:
            return None
        name = hashlib.sha256(data).hexdigest()[:24] + (path.suffix.lower() or ".png")
        if name not in self.images:
            (self.folder / "images").mkdir(parents=True, exist_ok=True)
            (self.folder / "images" / name).write_bytes(data)
        return self.images.setdefault(name, len(self.images))

    def _close(self) -> None:
        if self.open:
            self.chunks.append(squeeze(self.open))
        self.open = []

    def finish(self, budget: int) -> Packed:
        """Return the data; chunks beyond `budget`, the bytes left in the page, are files."""
        self._close()
        ids = Counter(self.index["id"])
        self.index["link"] = [
            i if ids[i] == 1 else k[:16]
            for i, k in zip(self.index["id"], self.index.pop("key"), strict=True)
        ]
        index = squeeze(self.index)
        fits = len(index) + sum(len(chunk) + 4 for chunk in self.chunks) <= budget
        head: dict[str, Any] = {
            "policies": list(self.policies),
            "rewarders": list(self.rewarders),
            "subjects": list(self.subjects),
            "difficulties": list(self.difficulties),
            "chunk": CHUNK,
            "index": index,
            "images": [f"{self.folder.name}/images/{name}" for name in self.images],
            "chunks": self.chunks if fits else None,
            "folder": self.folder.name,
        }
        data = self.folder / "data"
        shutil.rmtree(data, ignore_errors=True)  # of an earlier report
        if not fits:
            data.mkdir(parents=True)
            for i, chunk in enumerate(self.chunks):
                (data / f"{i:04d}.js").write_text(f'bonChunk({i},"{chunk}")\n', encoding="utf-8")
        return Packed(head, not fits, bool(self.images))


def _number(names: dict[str, int], name: str) -> int:
    return names.setdefault(name, len(names))


def _outcome(outcome: str) -> int:
    return {"parsed": 0, "unparsed": 1}.get(outcome, 2)


def _short(value: float | None) -> float | None:
    return None if value is None or value != value else float(f"{value:.4g}")


def _state(correct: list[float]) -> str:
    """r: right, w: wrong, m: partly right or a tie of both, -: nothing chosen."""
    if not correct:
        return "-"
    return "r" if min(correct) == 1 else "w" if not any(correct) else "m"


def _voted(pool: list[Any]) -> list[Any]:
    """Candidates with the most frequent answer."""
    votes = Counter(c.answer for c in pool if c.answer is not None)
    top = max(votes.values(), default=0)
    return [c for c in pool if c.answer is not None and votes[c.answer] == top]
