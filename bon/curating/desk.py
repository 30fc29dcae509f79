"""Where people answer: what each is shown, what is kept of what they say, and who is on what."""

import statistics
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from bon.core.errors import BonError
from bon.curating.annotations import CANNOT, TIE, WITHDRAWN, Annotation, add, history
from bon.curating.assigning import (
    LEASE_SECONDS,
    Lease,
    Standing,
    gold_checks,
    items_left,
    next_item,
    places_wanted,
    shown_order,
)
from bon.curating.drafts import UNREAD, Draft, read_drafts
from bon.curating.items import CuratedItem
from bon.curating.workbench import Workbench, open_workbench


@dataclass(frozen=True, slots=True)
class Progress:
    """How far somebody is, and all together. `pace` is their median of seconds per item."""

    mine: int
    left: int
    complete: int
    items: int
    pace: float | None


@dataclass(frozen=True, slots=True)
class Stated:
    """An answer as it comes in: `place` is that of the better response as shown, or None."""

    event: str
    item: str
    choice: str
    place: int | None = None
    tags: tuple[str, ...] = ()
    rationale: str = ""
    seconds: float | None = None


class Desk:
    """One benchmark that people label; answers are on disk before a method returns."""

    def __init__(self, directory: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.directory = directory
        self._clock = clock
        self._leases: dict[str, Lease] = {}
        self._lock = threading.RLock()
        self._stamp: tuple[int, ...] = ()
        self._bench = open_workbench(directory)
        self._items: dict[str, CuratedItem] = {}
        self._images: dict[str, Path] = {}
        self._checks: frozenset[str] = frozenset()
        self._said: list[Annotation] = []
        self._current: list[Annotation] = []
        self._said_stamp: tuple[int, ...] = ()

    @property
    def bench(self) -> Workbench:
        """The folder as it is now: it is read again where the recipe or the items changed."""
        with self._lock:
            stamp = (*_stamp(self._bench.recipe_path), *_stamp(self._bench.items_path))
            if stamp != self._stamp:
                bench = open_workbench(self.directory)
                recipe = bench.recipe
                self._items = {item.key: item for item in bench.items}
                self._checks = gold_checks(bench.items, recipe.annotating, recipe.seed)
                images = {name for item in bench.items for name in item.images}
                self._images = {Path(name).name: bench.directory / name for name in images}
                self._bench, self._stamp = bench, stamp
            return self._bench

    def item(self, key: str) -> CuratedItem:
        """An item by its key.

        Raises:
            BonError: it is none of this benchmark's, or no longer.
        """
        assert self.bench
        if key not in self._items:
            raise BonError(f"{self.bench.name} has no such item", "load the page again")
        return self._items[key]

    def ask(self, annotator: str) -> CuratedItem | None:
        """What this person is asked next; it is theirs for ten minutes."""
        with self._lock:
            bench = self.bench
            standing = self._standing(self._counted())
            key = next_item(
                list(self._items),
                self._checks,
                bench.recipe.annotating,
                bench.recipe.seed,
                standing,
                annotator,
            )
            if key is None:
                return None
            self._lease(key, annotator)
            return self._items[key]

    def answer(self, annotator: str, said: Stated) -> Draft | None:
        """Keep an answer. Returns the draft, which may be shown from now on, if one was read.

        Raises:
            BonError: it is about another benchmark's item, or says what cannot be chosen.
        """
        with self._lock:
            item = self.item(said.item)
            order = shown_order(item.key, annotator, len(item.responses))
            choice = self._choice(said, order)
            draft = read_drafts(self.bench.drafts_path).get(item.key)
            draft = draft if draft is not None and draft.label != UNREAD else None
            before = [
                row.choice
                for row in self._history()
                if row.annotator == annotator
                and row.item == item.key
                and row.choice != WITHDRAWN
                and row.event != said.event
            ]
            row = Annotation(
                item.key,
                annotator,
                choice,
                order,
                tags=said.tags,
                rationale=said.rationale,
                first=before[0] if before and draft is not None and choice != WITHDRAWN else "",
                seconds=said.seconds,
                time=datetime.now(UTC).isoformat(timespec="seconds"),
                event=said.event,
            )
            add(self.bench.annotations_path, row)
            self._said_stamp = ()
            if choice == WITHDRAWN:
                self._lease(item.key, annotator)
            else:
                held = self._leases.get(annotator)
                if held is not None and held.item == item.key:
                    del self._leases[annotator]
            return None if choice == WITHDRAWN else draft

    def image(self, name: str) -> Path | None:
        """The file of an image of the items, by its name; None for any other name."""
        assert self.bench
        return self._images.get(name)

    def last(self, annotator: str) -> str | None:
        """The item that this person answered last here, for going back."""
        with self._lock:
            mine = [row for row in self._counted() if row.annotator == annotator]
            known = [row.item for row in mine if row.source == "page" and row.item in self._items]
            return known[-1] if known else None

    def progress(self, annotator: str) -> Progress:
        """How far this person is, and all together."""
        with self._lock:
            bench = self.bench
            rows = self._counted()
            standing = self._standing(rows)
            wanted = bench.recipe.annotating
            mine = [row for row in rows if row.annotator == annotator and row.item in self._items]
            times = [row.seconds for row in mine if row.seconds is not None]
            said = [standing.choices.get(key, {}) for key in self._items]
            due, others = items_left(list(self._items), self._checks, wanted, standing, annotator)
            return Progress(
                len(mine),
                len(due) + len(others),
                sum(len(one) >= places_wanted(wanted, one.values()) for one in said),
                len(self._items),
                statistics.median(times) if times else None,
            )

    def _choice(self, said: Stated, order: Sequence[int]) -> str:
        unknown = [tag for tag in said.tags if tag not in self.bench.recipe.annotating.tags]
        if unknown:
            raise BonError(f"no tag {unknown[0]!r} in the recipe", "load the page again")
        if said.place is not None and 0 <= said.place < len(order):
            return str(order[said.place])
        if said.place is None and said.choice in (TIE, CANNOT, WITHDRAWN):
            return said.choice
        raise BonError(f"{len(order)} responses were shown, and none of them was chosen")

    def _history(self) -> list[Annotation]:
        """Every answer; read again only where the database has changed, by whomever."""
        path = self._bench.annotations_path
        stamp = (*_stamp(path), *_stamp(path.with_name(f"{path.name}-wal")))
        if stamp != self._said_stamp:
            self._said, self._said_stamp = history(path), stamp
            last: dict[tuple[str, str], Annotation] = {}
            for row in self._said:
                last.pop((row.annotator, row.item), None)
                last[row.annotator, row.item] = row
            self._current = [row for row in last.values() if row.choice != WITHDRAWN]
        return self._said

    def _counted(self) -> list[Annotation]:
        """The answers that count, in the order in which they were last changed."""
        self._history()
        return self._current

    def _standing(self, rows: Sequence[Annotation]) -> Standing:
        choices: defaultdict[str, dict[str, str]] = defaultdict(dict)
        for row in rows:
            choices[row.item][row.annotator] = row.choice
        now = self._clock()
        self._leases = {name: one for name, one in self._leases.items() if one.until > now}
        return Standing(choices, list(self._leases.values()))

    def _lease(self, item: str, annotator: str) -> None:
        self._leases[annotator] = Lease(item, annotator, self._clock() + LEASE_SECONDS)


def as_shown(draft: Draft, order: Sequence[int]) -> Draft:
    """A draft whose label is a place as this person sees the responses."""
    if not draft.label.isdigit():
        return draft
    return replace(draft, label=str(order.index(int(draft.label))))


def _stamp(path: Path) -> tuple[int, int]:
    """What tells that a file has changed."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return 0, 0
    return found.st_mtime_ns, found.st_size
