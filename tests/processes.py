"""The processes below a process, for tests that look at them and kill them."""

import os
import signal
from contextlib import suppress
from pathlib import Path

import psutil

from bon.core.processes import Process, find


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
