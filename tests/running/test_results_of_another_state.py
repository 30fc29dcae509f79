"""What decides reads results of the run's present rows and settings, or says that it cannot."""

import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import yaml

from bon.commands.main import main
from bon.running.reporting import read_results, report_run
from bon.storage.database import DATABASE, salvage
from bon.storage.store import Store
from tests.conftest import echo_experiment, write_pairs, write_questions

from .conftest import change, go_in

DECISIONS = {
    "gate": ["--min-gain", "0.02", "--rewarder", "critic"],
    "recommend": [],
    "compare": ["FINISHED"],
    "export": ["--format", "latex", "--out", "OUT"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a finished run."""
    base = tmp_path_factory.mktemp("study")
    write_questions(base / "questions.jsonl", 40)
    write_pairs(base / "pairs.jsonl", 9)
    report_run(go_in(base)(changed(accuracy=1.0), out="FINISHED"), quiet=True)
    return base


def changed(**critic):
    """The experiment with another critic."""
    found = echo_experiment()
    found["policies"][0]["engine_args"]["accuracy"] = 0.4
    found["rewarders"][1]["engine_args"].update(critic)
    return {**found, "analysis": {"bootstrap": 100}, "judging": {"skip": "nothing"}}


@pytest.fixture
def finished(folder, request):
    """A copy of the finished run."""
    copy = folder / request.node.name
    shutil.copytree(folder / "FINISHED", copy)
    return copy


@pytest.fixture
def go(folder, finished):
    """Continues the copy as another experiment."""
    return partial(go_in(folder), out=finished.name)


@pytest.fixture
def decide(monkeypatch, capsys):
    """Runs a command on a run; returns its exit code and what it said."""

    def run(name: str, directory: Path) -> tuple[int, str]:
        named = ("FINISHED", "OUT")
        words = [str(directory.with_name(w)) if w in named else w for w in DECISIONS[name]]
        monkeypatch.setattr(sys, "argv", ["bon", name, str(directory), *words])
        with pytest.raises(SystemExit) as stopped:
            main()
        return int(stopped.value.code or 0), "".join(capsys.readouterr())

    return run


BAD = changed(accuracy=0.0)


def test_a_run_that_went_on_and_was_stopped_decides_nothing(finished, go, decide):
    assert decide("gate", finished)[0] == 0
    before = (finished / "results.json").read_bytes()
    go(BAD, until="generate")  # starts as the changed experiment, and judges nothing
    for name in DECISIONS:
        code, said = decide(name, finished)
        assert code == 3, (name, said)
        assert "the run is not complete: critic has 0 of " in said
    assert (finished / "results.json").read_bytes() == before
    command = [sys.executable, "-m", "bon", "gate", str(finished), "--min-gain", "0"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (3, "", 1)


def test_a_run_that_was_stopped_before_its_report_is_analysed(finished, go, decide):
    go(BAD)
    code, said = decide("gate", finished)
    assert code == 4, said
    with Store(finished, readonly=True) as store:
        assert read_results(finished).run.state == store.state
    written = (finished / "results.json").stat().st_mtime_ns
    assert decide("gate", finished) == (code, said)
    assert (finished / "results.json").stat().st_mtime_ns == written  # computed once


def test_choices_do_not_outlive_the_rewarders(finished, go, decide):
    assert decide("compare", finished)[0] == 0
    go({**BAD, "rewarders": []})
    code, said = decide("compare", finished)
    assert code == 2
    assert "holds no choices of rewarders" in said


@pytest.mark.parametrize("how", ["empty", "garbage", "newer"])
def test_a_database_that_cannot_be_read_decides_nothing(finished, how, decide):
    database = finished / "run.sqlite"
    if how == "newer":
        change(finished, "PRAGMA user_version = 99")
    else:
        database.write_bytes(b"" if how == "empty" else b"garbage" * 4096)
    for name in DECISIONS:
        code, said = decide(name, finished)
        assert code == 2, (name, said)
        assert "run.sqlite" in said


def test_rows_that_a_repair_lost_are_missed(finished, decide):
    change(finished, "DELETE FROM judgements WHERE rewarder = 'critic'")
    salvage(finished / DATABASE)
    assert decide("gate", finished)[0] == 3


RUN = """
import sys
from bon.commands.main import main
try:
    main()
finally:
    heavy = {"ray", "torch", "transformers", "pandas", "scipy", "matplotlib", "pyarrow"}
    print(sorted(heavy & set(sys.modules)), file=sys.stderr)
"""


def run_again(finished: Path, *arguments: str) -> list[str]:
    """Run the experiment of a run again, as a user does; return what it says."""
    file = finished.with_name(f"{finished.name}.yaml")
    shutil.copy(finished / "experiment.yaml", file)
    words = ["run", file.name, "--out", finished.name, *arguments]
    command = [sys.executable, "-c", RUN, *words]
    done = subprocess.run(
        command, cwd=finished.parent, capture_output=True, text=True, check=True, timeout=100
    )
    return done.stderr.splitlines()


def test_a_run_with_nothing_left_and_nothing_new_imports_neither_ray_nor_the_analysis(finished):
    run_again(finished)  # by this name, with this file
    before = {path: path.stat().st_mtime_ns for path in finished.rglob("*.json")}
    with Store(finished, readonly=True) as store:
        state = store.state, store.meta("finished")
        sentence = read_results(finished).finding.sentence
    *_, said, page, heavy = run_again(finished)
    assert heavy == "[]"
    assert said == sentence
    assert page == f"report: {finished.name}/report.html (unchanged)"
    with Store(finished, readonly=True) as store:
        assert (store.state, store.meta("finished")) == state
    assert {path: path.stat().st_mtime_ns for path in finished.rglob("*.json")} == before


@pytest.mark.parametrize("what", ["settings", "data", "a card", "another report", "no report"])
def test_a_run_whose_rows_or_settings_are_new_is_analysed(finished, what):
    card, arguments = finished.with_name("card.yaml"), []
    head = echo_experiment()["rewarders"][2]
    if what == "a card":
        card.write_text(yaml.safe_dump(head))
        arguments = ["--set", "rewarders.2=card.yaml"]
    run_again(finished, *arguments)
    written = (finished / "results.json").stat().st_mtime_ns
    match what:
        case "settings":
            arguments = ["--set", "analysis.ties=drop"]
        case "data":
            arguments = ["--set", "questions.limit=39"]
        case "a card":
            card.write_text(yaml.safe_dump({**head, "title": "Another"}))
        case "another report":
            report_run(finished, quiet=True, settings=["analysis.ties=drop"])
        case "no report":
            (finished / "report.html").unlink()
    assert "pandas" in run_again(finished, *arguments)[-1]
    assert (finished / "report.html").exists()
    assert (finished / "results.json").stat().st_mtime_ns > written
    assert run_again(finished, *arguments)[-1] == "[]"


def test_a_folder_without_database_is_what_its_results_say(finished, decide):
    (finished / "run.sqlite").unlink()
    assert decide("gate", finished)[0] == 0
