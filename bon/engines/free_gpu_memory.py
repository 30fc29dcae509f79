"""Loading into GPU memory: one engine at a time, and once there is room.

Drivers release memory some time after a process has ended, and an engine that loads measures what
is free: beside another that loads, it would measure wrongly.
"""

import fcntl
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from bon.core.files import cache_folder

USABLE = 0.9
"""Share of a GPU's memory that engines fill, on a machine that does nothing else."""

WAIT_SECONDS = 120.0
POLL_SECONDS = 2.0
_GIB = 2**30
# In a subprocess: a CUDA context takes hundreds of MiB for the life of its process.
_QUERY = """
import json, torch
count = torch.cuda.device_count() if torch.cuda.is_available() else 0
print(json.dumps([torch.cuda.mem_get_info(place) for place in range(count)]))
"""
_PROCESSES = (
    "nvidia-smi", "--query-compute-apps=pid,process_name,used_memory", "--format=csv,noheader",
)  # fmt: skip


def free_memory() -> list[tuple[int, int]]:
    """Return (free, total) bytes of every visible GPU; empty if none can be queried."""
    output = _output((sys.executable, "-P", "-c", _QUERY))
    return [(free, total) for free, total in json.loads(output)] if output else []


def gpu_processes() -> str:
    """Describe the processes that hold GPU memory, as nvidia-smi lists them."""
    lines = [" ".join(line.split()) for line in _output(_PROCESSES).splitlines() if line.strip()]
    processes = "; ".join(f"process {line}" for line in lines).replace(",", "")
    return processes or "no process that can be seen here"


@contextmanager
def alone_on_gpus() -> Iterator[None]:
    """Hold the GPUs of this process, as no other process of this user on this machine does."""
    folder = cache_folder() / "gpus"
    folder.mkdir(parents=True, exist_ok=True)
    # Ray sets it for workers with GPUs.
    gpus = set(os.environ.get("CUDA_VISIBLE_DEVICES", "all").split(","))
    with ExitStack() as stack:
        for gpu in sorted(gpus):  # in one order: two processes never wait for each other
            lock = stack.enter_context((folder / f"{platform.node()}-{gpu.strip()}").open("w"))
            fcntl.flock(lock, fcntl.LOCK_EX)  # until the file is closed, however the process ends
        yield


def wait_for_room(share: float, seconds: float = WAIT_SECONDS) -> str:
    """Wait until this share of every GPU is free, `seconds` at most.

    Returns:
        "", or one line on what is not free and who holds it. The model may fit all the same, so
        only a failure to load it turns this into an error.
    """
    end = time.monotonic() + seconds
    while True:
        short = [
            f"GPU {index} has {free / _GIB:.1f} of {total / _GIB:.1f} GiB free"
            for index, (free, total) in enumerate(free_memory())
            if free < share * total
        ]
        if not short:
            return ""
        if time.monotonic() >= end:
            return f"after {seconds:.0f} s {', '.join(short)}; held by {gpu_processes()}"
        time.sleep(POLL_SECONDS)


def _output(command: Sequence[str]) -> str:
    """Return what a command printed; empty if it is missing or fails."""
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=60, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
