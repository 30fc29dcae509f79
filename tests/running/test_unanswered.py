"""What an endpoint never answered is no answer: exit code 3, and the same command asks again."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from bon.commands.main import app
from bon.core.errors import UNANSWERED, ExitCode, Incomplete
from bon.engines.endpoints.endpoint import Unanswered
from bon.running.reporting import read_results
from bon.storage.store import Store
from tests.conftest import echo_experiment, write_questions
from tests.engines.fake_endpoint import serve

QUESTIONS, N = 12, 4


@pytest.mark.ray
def test_what_no_try_answered_is_missing_and_asked_again(tmp_path: Path) -> None:
    write_questions(tmp_path / "questions.jsonl", QUESTIONS)
    down = True

    def behave(number: int, body: dict[str, Any]) -> Any:
        return (503, {}, {"error": "overloaded"}) if down and number < 2 else None

    with serve(behave) as server:
        policy = {
            "name": "policy", "engine": "openai", "model": "m", "prompt": "bare", "n": N,
            "sampling": {"temperature": 1.0, "max_tokens": 10},
            "engine_args": {
                "base_url": server.url, "api_key_env": None, "retry_wait": 0.0, "retries": 0,
            },
        }  # fmt: skip
        experiment = echo_experiment() | {"pairs": [], "policies": [policy], "rewarders": []}
        experiment |= {"cluster": {"retries": 0}, "analysis": {"bootstrap": 100}}
        (tmp_path / "e.yaml").write_text(yaml.safe_dump(experiment))
        command = ["run", str(tmp_path / "e.yaml"), "--out", str(tmp_path / "run")]
        first = CliRunner().invoke(app, command)
        assert isinstance(first.exception, Incomplete), first.output
        assert first.exception.exit_code == ExitCode.INCOMPLETE
        last = str(first.exception)
        assert "candidates of policy were not answered by its endpoint" in last
        with Store(tmp_path / "run", readonly=True) as store:
            lost = store.count("candidates", "error LIKE ?", (f"{UNANSWERED}%",))
        assert f"{lost} candidates" in last
        down = False
        again = CliRunner().invoke(app, command)
        assert again.exit_code == ExitCode.COMPLETE, again.output
    with Store(tmp_path / "run", readonly=True) as store:
        assert store.count("candidates", "outcome != 'error'") == QUESTIONS * N
    assert read_results(tmp_path / "run").completeness.complete


def test_the_error_of_a_row_names_its_kind() -> None:
    assert f"{Unanswered.__name__}: " == UNANSWERED
