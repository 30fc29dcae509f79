"""The annotation queue: assignment, storage and progress of one benchmark.

Whoever opens an item holds a lease, so that two annotators do not take the last open slot; leases
expire.
"""

import statistics
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from bon.core.errors import BonError
from bon.core.keys import item_seed
from bon.curating.items import CuratedItem
from bon.curating.labelling.annotations import (
    CANNOT,
    TIE,
    WITHDRAWN,
    Annotation,
    add,
    history,
)
from bon.curating.recipe import Annotating
from bon.curating.workbench import Workbench, open_workbench

LEASE_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class QueueState:
    """Choices by item and annotator, and the item that each annotator has leased."""

    choices: Mapping[str, Mapping[str, str]]
    leased: Mapping[str, str]


def shown_order(item: str, annotator: str, responses: int) -> tuple[int, ...]:
    """Return the order in which an annotator sees the responses, by a hash."""
    order = list(range(responses))
    Random(item_seed("shown", item, annotator)).shuffle(order)
    return tuple(order)


def required_answers(annotating: Annotating, choices: Collection[str]) -> int:
    """Return how many answers an item needs: one more if its answers have no majority."""
    usual = annotating.annotators_per_item
    if len(choices) < max(2, usual):
        return usual
    return usual + (2 * max(Counter(choices).values()) <= len(choices))


def remaining_items(
    keys: Sequence[str], annotating: Annotating, state: QueueState, annotator: str
) -> list[str]:
    """Return the items that lack an answer of this annotator, apart from leases of others."""
    leased = Counter(
        key
        for name, key in state.leased.items()
        if name != annotator and name not in state.choices.get(key, {})
    )
    remaining = []
    for key in keys:
        choices = state.choices.get(key, {})
        required = required_answers(annotating, choices.values())
        if annotator not in choices and required > len(choices) + leased[key]:
            remaining.append(key)
    return remaining


def next_item(
    keys: Sequence[str], annotating: Annotating, seed: int, state: QueueState, annotator: str
) -> str | None:
    """Return the annotator's open item, else the one that lacks the fewest answers, or None."""
    leased = state.leased.get(annotator, "")
    if leased in keys and annotator not in state.choices.get(leased, {}):
        return leased
    open_at = Counter(state.leased.values())

    def rank(key: str) -> tuple[int, int]:
        started = len(state.choices.get(key, ())) + open_at[key]
        return -started, item_seed("turn", seed, key)

    return min(remaining_items(keys, annotating, state, annotator), key=rank, default=None)


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of an annotator and overall; `pace` is the annotator's median seconds per item."""

    answered: int
    remaining: int
    complete: int
    items: int
    pace: float | None


class Submission(BaseModel):
    """One answer. `choice` is a place as shown, from 1, or one of the words."""

    model_config = ConfigDict(extra="forbid")
    event: str = Field(pattern=r"^[A-Za-z0-9-]{8,64}$")
    item: str = Field(max_length=100)
    choice: Literal["1", "2", "3", "4", "5", "6", "7", "8", "9", "tie", "cannot", "withdrawn"]
    tags: list[Annotated[str, Field(max_length=200)]] = Field([], max_length=100)
    rationale: str = Field("", max_length=4000)
    seconds: float | None = Field(None, ge=0, le=1e6)


class AnnotationQueue:
    """Thread-safe queue of one benchmark; answers are on disk before a method returns."""

    def __init__(self, directory: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.directory = directory
        self._clock = clock
        self._leases: dict[str, tuple[str, float]] = {}  # annotator: item, until
        self._lock = threading.RLock()
        self._bench = open_workbench(directory)
        self._stamp: tuple[int, ...] = ()
        self._items: dict[str, CuratedItem] = {}
        self._images: dict[str, Path] = {}

    @property
    def bench(self) -> Workbench:
        """The folder, reloaded when the recipe or the items changed."""
        with self._lock:
            stamp = _stamp(self._bench.recipe_path, self._bench.items_path)
            if stamp != self._stamp:
                bench = open_workbench(self.directory)
                self._items = {item.key: item for item in bench.items}
                images = {name for item in bench.items for name in item.images}
                self._images = {Path(name).name: bench.directory / name for name in images}
                self._bench, self._stamp = bench, stamp
            return self._bench

    def item(self, key: str) -> CuratedItem:
        """Return an item by key."""
        bench = self.bench
        if key not in self._items:
            raise BonError(f"{bench.name} has no such item", "load the page again")
        return self._items[key]

    def image(self, name: str) -> Path | None:
        """Return the file of an item image; None for any other name."""
        return self._images.get(name) if self.bench else None

    def lease_next(self, annotator: str) -> CuratedItem | None:
        """Return the annotator's next item and lease it."""
        with self._lock:
            recipe, keys = self.bench.recipe, list(self._items)
            state = self._state(self._annotations())
            key = next_item(keys, recipe.annotating, recipe.seed, state, annotator)
            if key is None:
                return None
            self._lease(key, annotator)
            return self._items[key]

    def submit(self, annotator: str, submission: Submission) -> None:
        """Store an answer."""
        with self._lock:
            item = self.item(submission.item)
            order = shown_order(item.key, annotator, len(item.responses))
            choice = self._choice(submission, order)
            row = Annotation(
                item.key,
                annotator,
                choice,
                order,
                tags=tuple(dict.fromkeys(submission.tags)),
                rationale=submission.rationale.strip(),
                seconds=submission.seconds,
                time=datetime.now(UTC).isoformat(timespec="seconds"),
                event=submission.event,
            )
            add(self.bench.annotations_path, row)
            if choice == WITHDRAWN:
                self._lease(item.key, annotator)
            elif self._leases.get(annotator, ("", 0.0))[0] == item.key:
                del self._leases[annotator]

    def last_answered(self, annotator: str) -> str | None:
        """Return the item that the annotator last answered on the page, to undo."""
        with self._lock:
            keys = [
                row.item
                for row in self._annotations()
                if row.annotator == annotator and row.item in self._items
            ]
            return keys[-1] if keys else None

    def progress(self, annotator: str) -> Progress:
        """Return the progress of an annotator and overall."""
        with self._lock:
            annotating = self.bench.recipe.annotating
            annotations, keys = self._annotations(), list(self._items)
            state = self._state(annotations)
            own = (row for row in annotations if row.annotator == annotator)
            rows = [row for row in own if row.item in self._items]
            times = [row.seconds for row in rows if row.seconds is not None]
            choices = [state.choices.get(key, {}).values() for key in keys]
            return Progress(
                len(rows),
                len(remaining_items(keys, annotating, state, annotator)),
                sum(len(row) >= required_answers(annotating, row) for row in choices),
                len(keys),
                statistics.median(times) if times else None,
            )

    def _choice(self, submission: Submission, order: Sequence[int]) -> str:
        annotating = self.bench.recipe.annotating
        if unknown := [tag for tag in submission.tags if tag not in annotating.tags]:
            raise BonError(f"no tag {unknown[0]!r} in the recipe", "load the page again")
        choices = {str(place): str(response) for place, response in enumerate(order, 1)}
        choices |= {word: word for word in (TIE, CANNOT, WITHDRAWN)}
        if submission.choice not in choices:
            raise BonError(f"the choice is none of the {len(order)} shown")
        return choices[submission.choice]

    def _annotations(self) -> list[Annotation]:
        """The annotations that count, in the order of their last event."""
        last: dict[tuple[str, str], Annotation] = {}
        for row in history(self._bench.annotations_path):
            last.pop((row.annotator, row.item), None)
            last[row.annotator, row.item] = row
        return [row for row in last.values() if row.choice != WITHDRAWN]

    def _state(self, annotations: Iterable[Annotation]) -> QueueState:
        choices: defaultdict[str, dict[str, str]] = defaultdict(dict)
        for row in annotations:
            choices[row.item][row.annotator] = row.choice
        now = self._clock()
        self._leases = {name: lease for name, lease in self._leases.items() if lease[1] > now}
        return QueueState(choices, {name: item for name, (item, _) in self._leases.items()})

    def _lease(self, item: str, annotator: str) -> None:
        self._leases[annotator] = item, self._clock() + LEASE_SECONDS


def _stamp(*paths: Path) -> tuple[int, ...]:
    """Return modification times and sizes; nothing for missing files."""
    stamp: list[int] = []
    for path in paths:
        with suppress(FileNotFoundError):  # SQLite removes its -wal file at any time
            stat = path.stat()
            stamp += [stat.st_mtime_ns, stat.st_size]
    return tuple(stamp)
