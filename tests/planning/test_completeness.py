"""A run says whether it is complete, what is missing, and how a command ended."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from running.conftest import change

from bon.core.errors import ExitCode, some
from bon.running.reporting import read_results, report_run
from bon.running.status import format_status, run_status
from bon.storage.store import Store

QUICK = {"bootstrap": 100}
BON = str(Path(sys.executable).with_name("bon"))


def bon(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The command as a user runs it."""
    return subprocess.run([BON, *arguments], cwd=cwd, capture_output=True, text=True, timeout=200)


def finished(directory: Path) -> str | None:
    with Store(directory, readonly=True) as store:
        return store.meta("finished")


def test_finished_means_complete(make_experiment, go):
    experiment = make_experiment()
    directory = go(experiment)
    assert finished(directory)
    found = run_status(directory)
    assert found["complete"]
    assert [(m["model"], m["wanted"] - m["have"], m["errors"]) for m in found["models"]] == [
        ("policy", 0, 0),
        ("judge", 0, 0),
        ("critic", 0, 0),
        ("head", 0, 0),
    ]
    assert "complete since" in format_status(found)
    # Going on with more to do: it is no longer finished, and says what is missing.
    larger = {**experiment, "policies": [{**experiment["policies"][0], "n": 6}]}
    go(larger, until="generate")
    assert finished(directory) is None
    found = run_status(directory)
    assert not found["complete"]
    assert all("policy" not in problem for problem in found["missing"])
    assert {problem.split()[0] for problem in found["missing"]} == {"judge", "critic", "head"}
    assert ", not complete" in format_status(found)
    go(larger)
    assert finished(directory)


def test_every_row_that_is_gone_is_missed(make_experiment, go):
    directory = go(make_experiment(judging={"skip": "nothing"}))
    with Store(directory, readonly=True) as store:
        ((judgement,),) = store.query("SELECT MIN(key) FROM judgements WHERE rewarder = 'judge'")
        ((candidate,),) = store.query("SELECT MIN(key) FROM candidates")
    change(directory, "DELETE FROM judgements WHERE key = ?", judgement)
    assert run_status(directory)["missing"] == ("judge has 20 of 21 items",)
    change(directory, "DELETE FROM candidates WHERE key = ?", candidate)
    found = run_status(directory)
    assert found["missing"][0] == "policy has 47 of 48 candidates"
    assert len(found["missing"]) == 4  # its question is not judged in full by anyone


def test_a_report_of_an_unfinished_run_says_so_first_and_exits_with_3(
    make_experiment, go, tmp_path
):
    directory = go(make_experiment(analysis=QUICK), until="generate")
    found = bon("report", "run", cwd=tmp_path)
    assert found.returncode == ExitCode.INCOMPLETE == 3
    (line,) = found.stderr.splitlines()
    assert line.startswith("bon: the run is not complete: judge has 0 of ")
    assert "-> run the same command again" in line
    assert found.stdout == ""
    page = (directory / "report.html").read_text()
    assert page.index("This run is incomplete") < page.index("<h1")
    results = json.loads((directory / "results.json").read_text())
    assert not results["completeness"]["complete"]
    assert results["completeness"]["missing"] == list(run_status(directory)["missing"])


@pytest.mark.ray
@pytest.mark.usefixtures("commands_on_one_ray")
def test_a_run_that_goes_on_to_its_end_is_reported_as_complete(make_experiment, go, tmp_path):
    experiment = make_experiment(analysis=QUICK)
    directory = go(experiment, until="generate")
    (tmp_path / "e.yaml").write_text(yaml.safe_dump(experiment))
    found = bon("run", "e.yaml", "--out", "run", cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    assert finished(directory)
    completeness = read_results(directory).completeness
    assert completeness is not None
    assert completeness.complete


@pytest.mark.ray
@pytest.mark.usefixtures("commands_on_one_ray")
def test_errors_above_the_limit_are_not_complete(make_experiment, go, tmp_path):
    experiment = make_experiment(questions=6, analysis=QUICK)
    experiment["cluster"] = {"retries": 0, "max_error_share": 0.2}
    experiment["rewarders"][1]["engine_args"]["failure_rate"] = 0.6
    directory = go(experiment)
    assert finished(directory) is None
    (problem,) = run_status(directory)["missing"]
    assert "judgements of critic are errors (cluster.max_error_share is 0.2)" in problem
    (tmp_path / "e.yaml").write_text(yaml.safe_dump(experiment))
    again = bon("run", "e.yaml", "--out", "run", cwd=tmp_path)
    assert again.returncode == ExitCode.INCOMPLETE
    assert "items that failed are asked again" in again.stderr
    # All have failed twice: nothing is asked again, so no Ray is started.
    again = bon("run", "e.yaml", "--out", "run", cwd=tmp_path)
    assert again.returncode == ExitCode.INCOMPLETE
    assert "errors are kept (critic " in again.stderr
    assert "--retry-errors retries them" in again.stderr
    last = again.stderr.splitlines()[-1]
    assert last.startswith("bon: the run is not complete: ")
    assert "--retry-errors retries the" in last
    assert "predict" not in again.stderr


@pytest.mark.parametrize(("share", "limit"), [(0.05, 0), (0.3, 0.9)])
def test_errors_within_the_limit_are_complete_and_counted(share, limit, make_experiment, go):
    """The limit is 0 by default."""
    cluster = {"retries": 0} | ({"max_error_share": limit} if limit else {})
    experiment = make_experiment(cluster=cluster)
    experiment["rewarders"][1]["engine_args"]["failure_rate"] = share
    directory = go(experiment)
    assert bool(finished(directory)) == bool(limit)
    assert run_status(directory)["models"][2]["errors"] > 0
    line = r"\d of \d+ judgements of critic are errors \(cluster.max_error_share is 0\)"
    assert all(re.fullmatch(line, problem) for problem in run_status(directory)["missing"])


def test_a_failed_model_is_named(make_experiment, go):
    experiment = make_experiment(questions=60, cluster={"retries": 0})
    experiment["rewarders"][1]["engine_args"]["failure_rate"] = 0.95
    directory = go(experiment)
    missing = run_status(directory)["missing"]
    assert missing[0].startswith("critic failed: ")


@pytest.mark.parametrize(
    ("things", "said"), [([], ""), (["a"], "a"), (["a", "b", "c", "d", "e"], "a; b; c; and 2 more")]
)
def test_some(things, said):
    assert some(things) == said


@pytest.mark.browser
def test_the_first_screen_says_what_is_missing(make_experiment, go, request):
    page = report_run(go(make_experiment(analysis=QUICK), until="generate"), quiet=True)
    tab = request.getfixturevalue("tab")  # the browser has an event loop of its own
    tab.set_viewport_size({"width": 390, "height": 800})
    tab.goto(page.as_uri())
    box = tab.get_by_text("This run is incomplete").bounding_box()
    assert box["y"] + box["height"] < 800
    assert tab.locator(".incomplete li").count() == 3
