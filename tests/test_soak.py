"""The soak in small; `make soak` is the long one."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

SOAK = [sys.executable, str(Path(__file__).parents[1] / "tools/soak/soak.py")]


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.ray
def test_kills_change_nothing():
    done = subprocess.run(
        [*SOAK, "--seed", "1", "--only", "torn write"],
        capture_output=True, text=True, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "| torn write | 1 |" in done.stdout


def test_a_killed_soak_leaves_no_disk_behind(tmp_path):
    soak = subprocess.Popen(SOAK, stdout=subprocess.PIPE, env={"TMPDIR": str(tmp_path)})
    small, end = list(tmp_path.glob("bon-soak-*/small")), time.monotonic() + 60
    while not small and time.monotonic() < end:
        time.sleep(0.1)
        small = list(tmp_path.glob("bon-soak-*/small"))
    time.sleep(0.5)  # it is mounted right after
    soak.kill()
    soak.wait()
    assert small
    assert str(tmp_path) not in Path("/proc/mounts").read_text()
