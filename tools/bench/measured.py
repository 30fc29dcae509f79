"""What a benchmark measured, and the table of everything that was measured.

A script notes a row as soon as it has it. Alone it only prints; under `make bench` (or with
`BON_BENCH=FILE`) every row is also a line of JSON, so that a run that is stopped keeps what it has.
"""

import json
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

FILE = "BON_BENCH"
LOOK = 0.2  # seconds between looks at the processes of a command


@dataclass(frozen=True)
class Side:
    """What one contestant reached, with the CPU-seconds and the seconds of wall that it took."""

    who: str
    value: float
    cpu: float | None = None
    wall: float | None = None


@dataclass(frozen=True)
class Measured:
    """One measurement: bon and what it was set beside, in one unit.

    What is asked is asked of the ratio of the first two sides, or of bon's value where it is alone.
    """

    what: str
    unit: str
    sides: tuple[Side, ...]
    at_least: float | None = None
    at_most: float | None = None
    said: str = ""
    script: str = ""

    @classmethod
    def read(cls, line: dict[str, Any]) -> "Measured":
        """From a line of the file."""
        return cls(**{**line, "sides": tuple(Side(**side) for side in line["sides"])})

    def ratio(self, beside: Side) -> float:
        """bon's value over another's."""
        return self.sides[0].value / beside.value

    @property
    def reached(self) -> bool | None:
        """Whether it is what was asked; None where nothing was, or nothing was measured."""
        if not self.sides or (self.at_least is None and self.at_most is None):
            return None
        found = self.ratio(self.sides[1]) if len(self.sides) > 1 else self.sides[0].value
        low = -float("inf") if self.at_least is None else self.at_least
        return low <= found <= (float("inf") if self.at_most is None else self.at_most)


def note(
    what: str,
    unit: str,
    *sides: Side,
    at_least: float | None = None,
    at_most: float | None = None,
    said: str = "",
) -> None:
    """Keep a measurement where `make bench` asks for it; `said` is why there are no sides."""
    if os.environ.get(FILE):
        script = Path(sys.argv[0]).stem
        row = Measured(what, unit, sides, at_least, at_most, said, script)
        append(Path(os.environ[FILE]), asdict(row))


def append(path: Path, line: dict[str, Any]) -> None:
    """One line of JSON at the end of a file."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


# ------------------------------------------------------------------ seconds


def spent(command: Sequence[str | Path], **options: Any) -> tuple[float, float, int]:
    """Run a command: seconds of wall, CPU-seconds of it and all that it started, its exit code.

    A process that nobody waits for counts up to the last look at it.
    """
    times: dict[int, float] = {}
    before = _waited_for()
    over = threading.Event()
    began = time.perf_counter()
    with subprocess.Popen(command, **options) as process:

        def watch() -> None:
            while not over.wait(LOOK):
                times.update(tree(process.pid))

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            wall = time.perf_counter() - began
        finally:
            over.set()
            watcher.join()
        times.update(tree(process.pid))  # what has ended keeps its times until it is waited for
    # Either may miss some: what came and went between two looks, or what nobody waited for.
    cpu = max(sum(times.values()), _waited_for() - before)
    return wall, cpu, process.returncode


def _waited_for() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def tree(root: int) -> dict[int, float]:
    """CPU-seconds so far of a process and of each that came of it."""
    tick = os.sysconf("SC_CLK_TCK")
    parents: dict[int, int] = {}
    times: dict[int, float] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(stat.parent.name)
        parents[pid] = int(fields[1])
        times[pid] = (int(fields[11]) + int(fields[12])) / tick
    family = {root}
    while more := {pid for pid, above in parents.items() if above in family} - family:
        family |= more
    return {pid: times[pid] for pid in family if pid in times}


# ------------------------------------------------------------------ the table

HEAD = ("what", "bon", "beside it", "", "ratio", "asked", "CPU s", "", "wall s", "")


def table(rows: Iterable[Measured]) -> str:
    """Markdown, one row for each thing that bon was set beside."""
    cells = [HEAD, *(line for row in rows for line in _lines(row))]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    rule = tuple("-" * width for width in widths)
    padded = (
        [cell.ljust(width) for cell, width in zip(line, widths, strict=True)]
        for line in (cells[0], rule, *cells[1:])
    )
    return "\n".join(f"| {' | '.join(line)} |" for line in padded)


def _lines(row: Measured) -> Iterator[tuple[str, ...]]:
    if not row.sides:
        yield (row.what, row.said, *("",) * (len(HEAD) - 2))
        return
    ours, *others = row.sides
    asked = _asked(row)
    what = row.what + (f" ({row.said})" if row.said else "")
    value = f"{number(ours.value)} {row.unit}"
    if not others:
        yield (what, value, "", "", "", asked, number(ours.cpu), "", number(ours.wall), "")
    for place, other in enumerate(others):
        first = place == 0
        yield (
            what if first else "",
            value if first else "",
            other.who,
            number(other.value),
            f"{row.ratio(other):.3f}",
            asked if first else "",
            number(ours.cpu) if first else "",
            number(other.cpu),
            number(ours.wall) if first else "",
            number(other.wall),
        )


def _asked(row: Measured) -> str:
    bounds = (("≥", row.at_least), ("≤", row.at_most))
    asked = " ".join(f"{sign} {number(bound)}" for sign, bound in bounds if bound is not None)
    return asked + ("" if row.reached is None else " yes" if row.reached else " **no**")


def number(value: float | None) -> str:
    """Three digits that count; "" for None."""
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
