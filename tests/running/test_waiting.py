"""A run that waits says so at once, for what, and on every line of its progress."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.conftest import echo_experiment, write_questions
from tests.engines.fake_endpoint import serve


@pytest.mark.ray
@pytest.mark.usefixtures("commands_on_one_ray")
@pytest.mark.slow
def test_an_hour_of_retry_after_is_said(tmp_path: Path) -> None:
    write_questions(tmp_path / "questions.jsonl", 4)
    with serve(lambda *_: (429, {"Retry-After": "3600"}, {"error": "slow down"})) as server:
        policy = {
            "name": "policy", "engine": "openai", "model": "m", "prompt": "bare", "n": 2,
            "sampling": {"temperature": 1.0, "max_tokens": 10},
            "engine_args": {"base_url": server.url, "api_key_env": None},
        }  # fmt: skip
        experiment = echo_experiment() | {"pairs": [], "policies": [policy], "rewarders": []}
        (tmp_path / "e.yaml").write_text(yaml.safe_dump(experiment))
        run = subprocess.Popen(
            [sys.executable, "-m", "bon", "run", "e.yaml", "--out", "run"], cwd=tmp_path, text=True,
            stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env={**os.environ, "COLUMNS": "400"},
        )  # fmt: skip
        assert run.stderr is not None
        reason = "127.0.0.1 asks to wait 3,600 seconds (HTTP 429 slow down)"
        lines = []
        for line in run.stderr:
            lines.append(" ".join(line.split()))
            if "sampling 0/4" in line and "waiting: " in line:
                break
        run.send_signal(signal.SIGINT)
        run.communicate()
    assert [line for line in lines if line.startswith(reason)], lines
    assert f"waiting: {reason}" in lines[-1]
    assert run.returncode == 130
