"""Progress of a run: rates and time left, shown as bars, lines, a file, or numbers for trackers."""

import json
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Column, Table
from rich.text import Text

from bon.core.console import say, stderr
from bon.core.files import write_atomic
from bon.dispatch.source import Source, Stage

LABELS = {
    "generate": "sampling",
    "read": "reading answers",
    "benchmark": "reward benchmark",
    "grade": "grading answers",
    "judge": "judging candidates",
}
LINE_SECONDS = 10.0
FILE_SECONDS = 1.0
CURVE_POINTS = 200
WINDOW_SECONDS = 30.0
BAR_WIDTH = 20  # a terminal of 60 columns shows all: one that is made narrower breaks no line
UNITS = ((1, "s"), (60, "min"), (3600, "h"))


@dataclass(frozen=True, slots=True)
class StageProgress:
    """Items of a stage; `known` were done beforehand. `rate` is items per second."""

    stage: Stage
    done: int
    total: int
    known: int
    rate: float | None


class Pace:
    """Rates of the sources, measured whenever work comes back."""

    def __init__(
        self, sources: Iterable[Source], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._stages: dict[Stage, list[Source]] = {}
        for source in sources:
            self._stages.setdefault(source.stage, []).append(source)
        # When items came back, how many until then, the workers' seconds for them, workers then.
        self._returns: dict[Stage, deque[tuple[float, int, float, int]]]
        self._returns = {stage: deque() for stage in self._stages}
        self._workers = 1

    def update(self, workers: int = 1) -> None:
        """Measure how far every source is; `workers` are at work."""
        self._workers = max(1, workers)
        now = self._clock()
        for stage, sources in self._stages.items():
            returns, answered = self._returns[stage], sum(source.answered for source in sources)
            if answered > (returns[-1][1] if returns else 0):
                spent = sum(source.seconds for source in sources)
                returns.append((now, answered, spent, self._workers))
            while len(returns) > 2 and returns[0][0] < returns[-1][0] - WINDOW_SECONDS:
                returns.popleft()

    def stages(self) -> list[StageProgress]:
        """Return the progress of every stage that has items; a finished one keeps its rate."""
        rows = [
            StageProgress(
                stage,
                sum(source.done for source in sources),
                sum(source.total for source in sources),
                sum(source.known for source in sources),
                self._rate(stage),
            )
            for stage, sources in self._stages.items()
        ]
        return [row for row in rows if row.total]

    def seconds_left(self) -> float | None:
        """Estimate the remaining time; None while a stage with work left is not measured."""
        worker_seconds = 0.0
        for sources in self._stages.values():
            measured = [source for source in sources if source.answered]
            for source in sources:
                if source.total > source.done:
                    like = [source] if source.answered else measured
                    if not like:
                        return None
                    per_item = sum(s.seconds for s in like) / sum(s.passed for s in like)
                    worker_seconds += (source.total - source.done) * per_item
        return worker_seconds / self._workers

    def _rate(self, stage: Stage) -> float | None:
        """Items per second since the first return of the last WINDOW_SECONDS.

        Batches of several workers come back together: they took the time that the workers spent.
        """
        returns = self._returns[stage]
        if len(returns) < 2:
            return None
        (start, before, spent_before, _), (end, answered, spent, _) = returns[0], returns[-1]
        worked = (spent - spent_before) / max(workers for *_, workers in returns)
        seconds = max(end - start, worked)
        return (answered - before) / seconds if seconds else None


class Reporter:
    """Show progress as bars in a terminal, else as lines; `file` is also kept up to date."""

    def __init__(
        self, sources: Iterable[Source], *, quiet: bool = False, file: Path | None = None
    ) -> None:
        self.pace = Pace(sources)
        self._quiet, self._file = quiet, file
        self._bars: Live | None = None
        if not quiet and sys.stderr.isatty() and stderr().is_interactive:
            self._bars = Live(
                get_renderable=self._draw, console=stderr(), redirect_stdout=sys.stdout.isatty()
            )
        self._started = self._shown = time.monotonic()
        self._written = 0.0
        self._waits: Sequence[str] = ()
        self._curve: list[dict[str, float]] = []

    def __enter__(self) -> "Reporter":
        try:
            if self._bars:
                self._bars.start(refresh=True)
            self.update()
        except BaseException:  # interrupted: the terminal gets its cursor back
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.pace.update()
        if self._bars:
            self._bars.stop()
        else:
            self._say(left=False)
        self._write()

    def update(self, workers: int = 1, waits: Sequence[str] = ()) -> None:
        """Measure and show how far the sources are, and what they wait for."""
        self.pace.update(workers)
        self._waits = waits
        now = time.monotonic()
        if not self._bars and now - self._shown >= LINE_SECONDS:
            self._shown = now
            self._say(left=True)
        if now - self._written >= FILE_SECONDS:
            self._written = now
            self._write()

    def _draw(self) -> Group:
        """Return a bar per stage, and the remaining time below while it runs.

        It stays as high meanwhile: rich erases lines of the last height from two threads.
        """
        whole = partial(Column, no_wrap=True)  # where it is narrow, the bar gives way
        table = Table.grid(
            whole(), Column(max_width=BAR_WIDTH), whole(justify="right"), whole(), padding=(0, 1)
        )
        for row in self.pace.stages():
            bar = ProgressBar(row.total, row.done)
            table.add_row(LABELS[row.stage], bar, f"{row.done}/{row.total}", format_rate(row.rate))
        if self._bars is None or not self._bars.is_started:
            return Group(table)
        state = [format_time_left(self.pace.seconds_left() or None), *self._waiting()]
        return Group(table, Text("; ".join(filter(None, state)), overflow="ellipsis", no_wrap=True))

    def _waiting(self) -> list[str]:
        return [f"waiting: {wait}" for wait in self._waits]

    def _say(self, *, left: bool) -> None:
        parts = [
            f"{LABELS[row.stage]} {row.done}/{row.total}"
            + (f" ({format_rate(row.rate)})" if row.rate else "")
            for row in self.pace.stages()
        ]
        if parts:
            time_left = format_time_left(self.pace.seconds_left()) if left else ""
            line = filter(None, [*parts, time_left, *self._waiting()])
            say("; ".join(line), quiet=self._quiet)

    def _write(self) -> None:
        rows = [{**asdict(row), "label": LABELS[row.stage]} for row in self.pace.stages()]
        done: dict[str, float] = {row["label"]: row["done"] for row in rows}
        self._curve.append({"seconds": time.monotonic() - self._started, **done})
        if len(self._curve) > CURVE_POINTS:
            del self._curve[1:-1:2]
        left = self.pace.seconds_left()
        state = {"seconds_left": left, "waits": [*self._waits]}
        note_phase(self._file, "computing", stages=rows, curve=self._curve, **state)


def note_phase(file: Path | None, phase: str, **values: Any) -> None:
    """Write the phase (preparing, computing, analysing) into a progress file; the rest stays.

    `stages`: how far each is; `curve`: items done by stage, at seconds since the start.
    """
    if file is None:
        return
    progress: dict[str, Any] = {"stages": [], "curve": []}
    with suppress(OSError, ValueError):
        progress |= json.loads(file.read_text(encoding="utf-8"))
    progress |= {"seconds_left": None, **values, "phase": phase, "at": time.time()}
    write_atomic(file, json.dumps(progress))


def format_rate(rate: float | None) -> str:
    """Format items per second, minute or hour."""
    if rate is None:
        return ""
    size, unit = next((pair for pair in UNITS if rate * pair[0] >= 1), UNITS[-1])
    return f"{rate * size:.1f}/{unit}"


def format_time_left(seconds: float | None) -> str:
    """Format the remaining time in the unit that suits it."""
    if seconds is None:
        return ""
    size, unit = next((pair for pair in UNITS if seconds < 90 * pair[0]), UNITS[-1])
    return f"about {seconds / size:.0f} {unit} left"
