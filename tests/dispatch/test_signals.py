"""A command that is told to end three times within half a second ends once, with its line."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import yaml

from tests.conftest import echo_experiment, write_pairs, write_questions
from tests.processes import descendants

pytestmark = [pytest.mark.ray]
BON = str(Path(sys.executable).with_name("bon"))
STOPPED = "bon: stopped; the same command resumes from here"


def handles_signals(pid: int, _: Path) -> bool:
    if BON not in psutil.Process(pid).cmdline():
        return False
    (caught,) = re.findall(r"SigCgt:\t(\w+)", Path(f"/proc/{pid}/status").read_text())
    return bool(int(caught, 16) & 1 << 14)


def starts_ray(pid: int, _: Path) -> bool:
    return any(child.name() == "gcs_server" for child in psutil.Process(pid).children())


def works(pid: int, _: Path) -> bool:
    below = psutil.Process(pid).children(recursive=True)
    return any(child.name().startswith("ray::Host") for child in below)


def ends(_: int, run: Path) -> bool:
    return (run / "results.json").exists()


@pytest.mark.parametrize(
    ("begun", "later", "number"),
    [
        (handles_signals, 0.0, signal.SIGINT),
        (starts_ray, 0.0, signal.SIGTERM),
        (starts_ray, 0.3, signal.SIGINT),
        (starts_ray, 0.6, signal.SIGTERM),
        (works, 0.0, signal.SIGTERM),
        (works, 0.0, signal.SIGINT),
        (ends, 0.0, signal.SIGTERM),
    ],
)
def test_the_first_of_three_signals_wins(
    begun: Callable[[int, Path], bool], later: float, number: signal.Signals, tmp_path: Path
) -> None:
    write_questions(tmp_path / "questions.jsonl", 6)
    write_pairs(tmp_path / "pairs.jsonl", 3)
    raw = echo_experiment(latency=0.3 if begun is not ends else 0.0)
    (tmp_path / "e.yaml").write_text(yaml.safe_dump(raw | {"analysis": {"bootstrap": 100}}))
    environment = {k: v for k, v in os.environ.items() if k != "BON_RAY_ADDRESS"}
    process = subprocess.Popen(
        [BON, "run", "e.yaml", "--out", "run", "--quiet"],
        cwd=tmp_path, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    while process.poll() is None and not begun(process.pid, tmp_path / "run"):
        time.sleep(0.01)
    time.sleep(later)
    below = descendants([process.pid])
    for _ in range(3):
        process.send_signal(number)
        time.sleep(0.2)
    _, errors = process.communicate(timeout=60)
    if begun is ends:  # it may have been too late
        assert (process.returncode, errors.strip()) in ((0, ""), (128 + number, STOPPED))
    else:
        assert (process.returncode, errors.strip()) == (128 + number, STOPPED)
    end = time.monotonic() + 30
    while any(each.alive() for each in below) and time.monotonic() < end:
        time.sleep(0.1)
    assert not any(each.alive() for each in below)
