"""The processes below a process, for tests that look at them and kill them.

They are identified by number and start time, since numbers are reused.
"""

import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil


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


def name(process: Process) -> str:
    """The kernel's name of a process, at most 15 characters; "" once it has ended."""
    try:
        return Path(f"/proc/{process.pid}/comm").read_text(errors="replace").strip()
    except OSError:
        return ""


def command(process: Process) -> str:
    """The command line of a process; "" once it has ended."""
    try:
        return " ".join(psutil.Process(process.pid).cmdline())
    except psutil.Error:
        return ""


def end_process(process: Process) -> None:
    """Kill the process alone."""
    if process.alive():
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)


def raylet_of(address: str) -> psutil.Process:
    """The raylet on this machine of the Ray at this address."""
    own = f"--gcs-address={address}"
    return next(
        process
        for process in psutil.process_iter(["name", "cmdline"])
        if process.info["name"] == "raylet" and own in (process.info["cmdline"] or ())
    )


def children(parents: list[int], *, recursive: bool = False) -> list[Process]:
    """The running children of these processes."""
    pids: list[int] = []
    for parent in parents:
        with suppress(psutil.Error):
            pids += [child.pid for child in psutil.Process(parent).children(recursive)]
    return [process for pid in dict.fromkeys(pids) if (process := find(pid)) is not None]


def descendants(parents: list[int]) -> list[Process]:
    """The running children of these processes, their children, and so on."""
    return children(parents, recursive=True)
