"""The whole recipe in a few steps per phase, and the command's own errors."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from bon.engines.packed_checkpoints import unpacked

COMMAND = [sys.executable, "-m", "tools.miniature.train"]


@pytest.mark.long
@pytest.mark.model
@pytest.mark.slow
@pytest.mark.timeout(1800)  # a minute on quiet cores, many where they are shared
def test_smoke_training_makes_every_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    out = tmp_path / "out"
    work = ["--work", str(tmp_path / "work")]
    subprocess.run([*COMMAND, "--smoke", *work, "--out", str(out)], check=True)
    entries = yaml.safe_load((out / "manifest.yaml").read_text())["checkpoints"]
    committed = Path(__file__).parents[2] / "bon" / "miniature" / "manifest.yaml"
    expected = yaml.safe_load(committed.read_text())["checkpoints"]
    assert [e["name"] for e in entries] == [e["name"] for e in expected]
    for entry in entries:
        assert (unpacked(out / "checkpoints" / entry["name"]) / "model.safetensors").exists()
    assert (out / "pairs.jsonl").read_text().count("\n") == 12


@pytest.mark.model
def test_an_unknown_stage_is_said(tmp_path: Path) -> None:
    command = [*COMMAND, "--stage", "base-x", "--work", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert "no such stage: base-x" in done.stderr
