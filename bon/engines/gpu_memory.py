"""Whether a GPU has room for the model that comes next: what ended a moment ago may still hold it.

A driver frees the memory of a process some time after its end, and vLLM refuses to start meanwhile.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

Free = tuple[int, int]
"""Bytes that are free, and bytes in all."""

ROOM = 0.9
"""The share of a GPU that a model of its own finds free on a machine that does nothing else."""

WAIT_SECONDS = 120.0
LOOK_SECONDS = 2.0
_GIB = 2**30
# In a process of its own: asking takes hundreds of MiB for the life of the process that asks.
_ASK = """
import json, torch
count = torch.cuda.device_count() if torch.cuda.is_available() else 0
print(json.dumps([torch.cuda.mem_get_info(place) for place in range(count)]))
"""
_HOLDERS = (
    "nvidia-smi", "--query-compute-apps=pid,process_name,used_memory", "--format=csv,noheader",
)  # fmt: skip


def look() -> list[Free]:
    """Of every GPU that this process may use; none where there is none, or none can be asked."""
    told = _told((sys.executable, "-P", "-c", _ASK))
    return [(free, total) for free, total in json.loads(told)] if told else []


def holders() -> str:
    """Who holds GPU memory on this machine, as the driver's own tool shows it."""
    lines = [line.strip() for line in _told(_HOLDERS).splitlines() if line.strip()]
    named = [" ".join(f"process {line}".split()).replace(",", "") for line in lines]
    return "; ".join(named) or "no process that can be seen here"


def wait_for_room(
    share: float,
    *,
    seconds: float = WAIT_SECONDS,
    look: Callable[[], Sequence[Free]] = look,
    holders: Callable[[], str] = holders,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> str:
    """Return when this share of every GPU is free, or after `seconds`.

    Returns "" or, in one line, what was not free in time and who holds it: a model may fit all the
    same, so whether that is a fault shows when it is loaded.
    """
    end = clock() + seconds
    while True:
        lacking = [
            f"GPU {place} has {free / _GIB:.1f} of {total / _GIB:.1f} GiB free"
            for place, (free, total) in enumerate(look())
            if free < share * total
        ]
        if not lacking:
            return ""
        if clock() >= end:
            return f"after {seconds:.0f} s {', '.join(lacking)}; held by {holders()}"
        sleep(LOOK_SECONDS)


def _told(command: Sequence[str]) -> str:
    """What a command printed; "" where it is not there or fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
