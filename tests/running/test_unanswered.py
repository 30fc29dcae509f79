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


def command(folder: Path, url: str) -> list[str]:
    """A run of one policy at this endpoint."""
    write_questions(folder / "questions.jsonl", QUESTIONS)
    policy = {
        "name": "policy", "engine": "openai", "model": "m", "prompt": "bare", "n": N,
        "sampling": {"temperature": 1.0, "max_tokens": 10},
        "engine_args": {"base_url": url, "api_key_env": None, "retry_wait": 0.0, "retries": 0},
    }  # fmt: skip
    experiment = echo_experiment() | {"pairs": [], "policies": [policy], "rewarders": []}
    experiment |= {"cluster": {"retries": 0}, "analysis": {"bootstrap": 100}}
    (folder / "e.yaml").write_text(yaml.safe_dump(experiment))
    return ["run", str(folder / "e.yaml"), "--out", str(folder / "run")]


def incomplete(run: list[str]) -> str:
    """What an incomplete run says last."""
    ended = CliRunner().invoke(app, run)
    assert isinstance(ended.exception, Incomplete), ended.output
    assert ended.exception.exit_code == ExitCode.INCOMPLETE
    return str(ended.exception)


@pytest.mark.ray
@pytest.mark.usefixtures("one_ray")
def test_what_no_try_answered_is_missing_and_asked_again(tmp_path: Path) -> None:
    down = True

    def behave(number: int, body: dict[str, Any]) -> Any:
        return (503, {}, {"error": "overloaded"}) if down and number < 2 else None

    with serve(behave) as server:
        run = command(tmp_path, server.url)
        last = incomplete(run)
        assert "candidates of policy were not answered by its endpoint" in last
        with Store(tmp_path / "run", readonly=True) as store:
            lost = store.count("candidates", "error LIKE ?", (f"{UNANSWERED}%",))
        assert f"{lost} candidates" in last
        down = False
        again = CliRunner().invoke(app, run)
        assert again.exit_code == ExitCode.COMPLETE, again.output
    with Store(tmp_path / "run", readonly=True) as store:
        assert store.count("candidates", "outcome != 'error'") == QUESTIONS * N
    assert read_results(tmp_path / "run").completeness.complete


@pytest.mark.ray
@pytest.mark.usefixtures("one_ray")
def test_what_failed_is_missing_and_asked_again_until_nothing_comes_through(tmp_path: Path) -> None:
    refused = {0, 1}

    def behave(number: int, body: dict[str, Any]) -> Any:
        asked = int(body["messages"][-1]["content"].split("?")[0].rsplit(" ", 1)[-1])
        return (400, {}, {"error": "not this one"}) if asked in refused else None

    with serve(behave) as server:
        run = command(tmp_path, server.url)
        for once_refused, failed in (({0, 1}, 2), ({1}, 1), ({1}, 1)):
            refused, before = once_refused, len(server.bodies)
            assert f"{failed * N} of {QUESTIONS * N} candidates of policy are errors" in incomplete(
                run
            )
            assert len(server.bodies) > before
        before = len(server.bodies)
        incomplete(run)
        assert len(server.bodies) == before, "the same item failed alone: it is not asked for ever"
        accepted = CliRunner().invoke(app, [*run, "--set", "cluster.max_error_share=0.1"])
        assert accepted.exit_code == ExitCode.COMPLETE, accepted.output
        refused = set()
        again = CliRunner().invoke(app, [*run, "--retry-errors"])
        assert again.exit_code == ExitCode.COMPLETE, again.output
        assert read_results(tmp_path / "run").completeness.models[0].errors == 0


def test_the_error_of_a_row_names_its_kind() -> None:
    assert f"{Unanswered.__name__}: " == UNANSWERED
