"""Progress a person can read: bars in a terminal, plain lines elsewhere, nothing with --quiet."""

import json
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Protocol

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

from bon.core.files import write_atomic
from bon.running.pace import Left, Pace
from bon.running.saying import say
from bon.running.work import Source

LABELS = {
    "generate": "sampling",
    "benchmark": "reward benchmark",
    "judge": "judging candidates",
    "repeat": "asking again",
}
PLAIN_EVERY_SECONDS = 10.0
FILE_EVERY_SECONDS = 1.0
UNITS = ((1, "s"), (60, "min"), (3600, "h"))


class Reporter(Protocol):
    """Told now and then how far the sources are."""

    def update(self) -> None: ...  # noqa: D102


@contextmanager
def reporting(
    sources: Iterable[Source], *, quiet: bool = False, file: Path | None = None
) -> Iterator[Reporter]:
    """A reporter for these sources, in the form that suits where the output goes.

    `file` is also kept up to date, as JSON, for a watcher in another process.
    """
    pace = Pace(sources)
    with _shown(pace, quiet=quiet) as shown:
        if file is None:
            yield shown
            return
        writer = _File(file, pace, shown)
        writer.update(now=True)
        try:
            yield writer
        finally:
            writer.update(now=True)


def note_phase(file: Path | None, phase: str) -> None:
    """Write the phase (preparing, analysing) into the file of a watcher; the stages stay."""
    if file is None:
        return
    try:
        stages = json.loads(file.read_text(encoding="utf-8"))["stages"]
    except (OSError, ValueError, KeyError):
        stages = []
    write_atomic(file, json.dumps({"phase": phase, "stages": stages, "at": time.time()}))


@contextmanager
def _shown(pace: Pace, *, quiet: bool) -> Iterator[Reporter]:
    if quiet:
        yield _Silent(pace)
    elif sys.stderr.isatty():
        with _table() as table:
            yield _Bars(table, pace)
    else:
        reporter = _Lines(pace)
        yield reporter
        reporter.update(last=True)


def rate_text(rate: float | None) -> str:
    """Items per second, or per minute or hour where that says more; nothing before it is known."""
    if rate is None:
        return ""
    size, unit = next((pair for pair in UNITS if rate * pair[0] >= 1), UNITS[-1])
    return f"{rate * size:.1f}/{unit}"


def left_text(left: Left | None) -> str:
    """What a run still takes, as precisely as it can be known; nothing before it is known."""
    if left is None:
        return ""
    size, unit = next((pair for pair in UNITS if left.seconds < 90 * pair[0]), UNITS[-1])
    return f"{left.known} {left.seconds / size:.0f} {unit} left"


class _Silent:
    def __init__(self, pace: Pace) -> None:
        self._pace = pace

    def update(self) -> None:
        self._pace.look()


def _table() -> "_Table":
    return _Table(
        TextColumn("{task.description:<20}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}", style="progress.data.speed"),
        console=Console(stderr=True),
    )


class _Table(Progress):
    """A bar per stage with its rate, and below them what the whole run still takes."""

    left = ""

    def get_renderables(self) -> Iterable[RenderableType]:
        yield from super().get_renderables()
        yield Text(self.left)


class _Bars:
    def __init__(self, table: _Table, pace: Pace) -> None:
        self._table = table
        self._pace = pace
        self._bars = {
            row.stage: table.add_task(LABELS[row.stage], total=row.total, rate="")
            for row in pace.stages()
        }

    def update(self) -> None:
        self._pace.look()
        self._table.left = left_text(self._pace.left())
        for row in self._pace.stages():
            bar = self._bars[row.stage]
            self._table.update(bar, completed=row.done, rate=rate_text(row.rate))


class _Lines:
    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._shown = time.monotonic()

    def update(self, *, last: bool = False) -> None:
        self._pace.look()
        now = time.monotonic()
        if not last and now - self._shown < PLAIN_EVERY_SECONDS:
            return
        self._shown = now
        parts = []
        for row in self._pace.stages():
            rate = rate_text(row.rate)
            parts.append(f"{LABELS[row.stage]} {row.done}/{row.total}" + f" ({rate})" * bool(rate))
        left = "" if last else left_text(self._pace.left())
        if parts:
            say("; ".join([*parts, left] if left else parts))


class _File:
    def __init__(self, path: Path, pace: Pace, shown: Reporter) -> None:
        self._path = path
        self._pace = pace
        self._shown = shown
        self._written = 0.0

    def update(self, *, now: bool = False) -> None:
        self._shown.update()
        clock = time.monotonic()
        if not now and clock - self._written < FILE_EVERY_SECONDS:
            return
        self._written = clock
        rows = [{**asdict(row), "label": LABELS[row.stage]} for row in self._pace.stages()]
        left = self._pace.left()
        said = {"seconds_left": left.seconds, "left_is": left.known} if left else {}
        text = {"phase": "computing", "stages": rows, **said, "at": time.time()}
        write_atomic(self._path, json.dumps(text))
