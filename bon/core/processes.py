"""Processes identified by number and start time, since numbers are reused."""

import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Process:
    """A process of this machine that started `ticks` after the boot named `boot`."""

    pid: int
    ticks: int
    boot: str

    def alive(self) -> bool:
        """Whether it still runs and is no zombie."""
        return find(self.pid) == self

    def interrupt(self) -> None:
        """Send SIGINT, so that it stops and keeps what it has."""
        if self.alive():
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGINT)

    def kill(self) -> None:
        """Kill its process group."""
        if self.alive():
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)


def find(pid: int) -> Process | None:
    """Return the running process of that number."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()  # the name before it may hold blanks and brackets
    return Process(pid, int(fields[19]), boot) if fields and fields[0] not in "ZX" else None
