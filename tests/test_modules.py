"""Processes that bon starts look first for modules where the one that starts them does."""

import os
import subprocess
import sys

import pytest

from bon.engines.free_gpu_memory import free_memory

STARTS = (
    "import subprocess; from bon.dispatch.module_path import module_command as command; "
    "subprocess.run(command('beside'))"
)
LAST = f"import os, sys; sys.path.append(os.getcwd()); {STARTS}"


@pytest.mark.parametrize(
    ("command", "path", "found"),
    [
        (["-c", STARTS], "", True),
        (["starts.py"], "", True),
        (["-m", "starts"], "", True),
        (["-P", "-c", STARTS], ".", True),
        (["-P", "-c", STARTS], "", False),
        (["-P", "-c", LAST], "", False),
    ],
    ids=["-c", "a script", "-m", "PYTHONPATH", "a command", "a command that looks here last"],
)
def test_the_current_folder_comes_first_where_it_does_here(tmp_path, command, path, found):
    (tmp_path / "beside.py").write_text("print('found')")
    (tmp_path / "starts.py").write_text(STARTS)
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, *command], cwd=tmp_path, env=environment, text=True, capture_output=True
    )
    assert (done.stdout, done.returncode) == ("found\n" if found else "", 0), done.stderr
    assert found or "No module named beside" in done.stderr


def test_gpus_are_looked_for_with_the_torch_that_is_installed(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "torch.py").write_text("open('taken', 'w')")
    free_memory()
    assert not (tmp_path / "taken").exists()
