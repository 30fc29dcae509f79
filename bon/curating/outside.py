"""Labelling in another tool: what it is given of each item, and how what comes back is taken in.

Every tool shows an item's responses to all its people in one order, which follows from the item
and the tool; they are called left, right, third and fourth. An import is all or nothing.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bon.core.errors import BonError, shown
from bon.curating.annotations import CANNOT, TIE, Annotation, add, current
from bon.curating.assigning import shown_order
from bon.curating.drafts import Draft, read_drafts
from bon.curating.items import CuratedItem
from bon.curating.workbench import Workbench

PLACES = ("left", "right", "third", "fourth")
OTHER = {"tie": TIE, "cannot judge": CANNOT}


@dataclass(frozen=True, slots=True)
class Sheet:
    """One item as a tool shows it: `texts` maps left, right, … to responses.

    `draft` is what a judge says of it, as one of the tool's own words; only where drafts go along.
    """

    item: CuratedItem
    order: tuple[int, ...]
    texts: Mapping[str, str]
    draft: Draft | None = None

    def word(self, choice: str) -> str:
        """How the tool calls a choice; empty for a draft that was not read."""
        if choice.isdigit():
            return PLACES[self.order.index(int(choice))]
        return {TIE: "tie", CANNOT: "cannot judge"}.get(choice, "")

    @property
    def image_names(self) -> list[str]:
        """What the fields of the images are called: image, image2, …"""
        return ["image" if not n else f"image{n + 1}" for n in range(len(self.item.images))]

    @property
    def layout(self) -> str:
        """Items of one layout fit one form: as many responses and images."""
        responses, images = len(self.order), len(self.item.images)
        kind = "pairs" if responses == 2 else f"best-of-{responses}"
        return kind + {0: "-no-image", 1: ""}.get(images, f"-{images}-images")


def sheets(bench: Workbench, source: str, *, drafts: bool = False) -> list[Sheet]:
    """Every item, as a tool shows it."""
    drafted = read_drafts(bench.drafts_path) if drafts else {}
    return [_sheet(item, source, drafted.get(item.key)) for item in bench.items]


def by_layout(every: Iterable[Sheet]) -> dict[str, list[Sheet]]:
    """Layout -> its sheets."""
    found: dict[str, list[Sheet]] = {}
    for one in every:
        found.setdefault(one.layout, []).append(one)
    return found


def _sheet(item: CuratedItem, source: str, draft: Draft | None = None) -> Sheet:
    order = shown_order(item.key, source, len(item.responses))
    texts = {PLACES[at]: item.responses[place] for at, place in enumerate(order)}
    return Sheet(item, order, texts, draft)


def new_place(out: Path) -> Path:
    """Where an export goes: nothing may lie there, for it could hold people's answers."""
    if out.is_file() or (out.is_dir() and any(out.iterdir())):
        raise BonError(f"{out} is there already", "name another place, or move it away first")
    return out


@dataclass
class Incoming:
    """The answers of a file, checked one after another and taken in together."""

    bench: Workbench
    source: str
    origin: str
    rows: dict[tuple[str, str], Annotation] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._items = {item.key: item for item in self.bench.items}

    def form(self, where: str, key: Any, question: Any, texts: Mapping[str, Any]) -> Sheet:
        """The item that an answer is about, if it is what people were shown.

        Raises:
            BonError: the item is not of this benchmark, or the file has other text.
        """
        if not isinstance(key, str) or key not in self._items:
            raise self.wrong(
                where,
                f"no item {shown(key)} in {self.bench.name}: the file is of another benchmark, "
                "or the items were proposed again",
                "import it where it was exported from",
            )
        found = _sheet(self._items[key], self.source)
        given = {"question": question, **texts}
        meant = {"question": found.item.prompt, **found.texts}
        for name, text in meant.items():
            if not isinstance(given.get(name), str) or _plain(given[name]) != _plain(text):
                raise self.wrong(
                    where,
                    f"its {name} is not what was exported, so the answer may be about other text",
                    "export again and label that, or restore the text",
                )
        return found

    def answer(
        self,
        where: str,
        form: Sheet,
        word: Any,
        annotator: str,
        *,
        tags: Sequence[Any] = (),
        why: Any = "",
        seconds: Any = None,
        time: Any = "",
    ) -> None:
        """Take one answer; of two by one person on one item the later one counts."""
        words = {text: str(place) for text, place in zip(PLACES, form.order, strict=False)} | OTHER
        if word not in words:
            raise self.wrong(where, f"better is {shown(word)}", f"one of {', '.join(words)}")
        known = self.bench.recipe.annotating.tags
        for tag in tags:
            if tag not in known:
                raise self.wrong(
                    where, f"no tag {shown(tag)} in the recipe", "add it to annotating.tags there"
                )
        if not annotator:
            raise self.wrong(where, "nobody is named who answered", "name them: --annotator NAME")
        row = Annotation(
            form.item.key,
            annotator,
            words[word],
            form.order,
            tags=tuple(dict.fromkeys(tags)),
            rationale=str(why or "").strip(),
            seconds=_seconds(seconds),
            time=str(time or ""),
            source=self.source,
        )
        self.rows.pop((annotator, row.item), None)
        self.rows[annotator, row.item] = row

    def wrong(self, where: str, what: str, fix: str) -> BonError:
        """Why nothing of the file is taken."""
        return BonError(f"{self.origin}, {where}: {what}; nothing was imported", fix)

    def take(self) -> "Taken":
        """Keep what is new or changed, all in one step."""
        there = {(row.annotator, row.item): row for row in current(self.bench.annotations_path)}
        new = [row for who, row in self.rows.items() if _content(row) != _content(there.get(who))]
        add(self.bench.annotations_path, *new)
        people = {row.annotator for row in self.rows.values()}
        return Taken(len(new), len(self.rows) - len(new), len(people), dict(self.left_out))


@dataclass(frozen=True, slots=True)
class Taken:
    """What an import came to: new answers, those that were there, people, and what was left out."""

    added: int
    known: int
    people: int
    left_out: dict[str, int]


def _content(row: Annotation | None) -> object:
    """What makes an answer another one; not when or by which way it came in."""
    return row and (row.choice, sorted(row.tags), row.rationale, row.seconds)


def _plain(text: str) -> str:
    """Text but for what spreadsheets and browsers do to the ends of lines."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _seconds(value: Any) -> float | None:
    try:
        found = float(value)
    except (TypeError, ValueError):
        return None
    return found if 0 <= found < 1e7 else None
