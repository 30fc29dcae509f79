"""Processes by number and start time: a number alone may belong to another one by now."""

import contextlib
import os
import signal
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Process:
    """A process of this machine; `ticks` is when it started, after the boot named `boot`."""

    pid: int
    ticks: int
    boot: str

    def alive(self) -> bool:
        """Whether it is still this one, and no zombie."""
        return find(self.pid) == self

    def interrupt(self) -> None:
        """Ask it to stop at once and keep what it has."""
        self._signal(signal.SIGINT)

    def kill(self) -> None:
        """End it and everything it started."""
        if self.alive():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        if self.alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


def find(pid: int) -> Process | None:
    """The process of that number, unless there is none or it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The name, in brackets, may hold blanks and brackets: what counts comes after the last one.
    fields = text.rpartition(")")[2].split()
    if fields[0] in "ZX":
        return None
    return Process(pid, int(fields[19]), _boot())


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""
