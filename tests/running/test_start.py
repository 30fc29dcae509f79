"""The start of a run: everything changes together, or nothing does."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from bon.core.errors import BonError
from bon.running.reporting import report_run
from bon.storage.store import Store

BON = str(Path(sys.executable).with_name("bon"))


def bon(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The command as a user runs it."""
    return subprocess.run([BON, *arguments], cwd=cwd, capture_output=True, text=True, timeout=120)


def state(directory: Path) -> dict[str, object]:
    """What a run is about and what it holds."""
    with Store(directory, readonly=True) as store:
        return {
            "experiment": store.meta("experiment"),
            "finished": store.meta("finished"),
            "questions": [question.key for question in store.questions()],
            "pairs": [pair.key for _, pair in store.pairs()],
            "rows": store.count("candidates") + store.count("judgements"),
            "file": (directory / "experiment.yaml").read_text(),
        }


def as_parquet(rows: Path, folder: Path) -> None:
    """The rows of a JSONL file as two parquet files."""
    table = pa.Table.from_pylist([json.loads(line) for line in rows.read_text().splitlines()])
    folder.mkdir()
    half = len(table) // 2
    pq.write_table(table.slice(0, half), folder / "test-0.parquet")
    pq.write_table(table.slice(half), folder / "test-1.parquet")


def test_a_torn_file_leaves_a_finished_run_as_it_was(make_experiment, go, tmp_path):
    experiment = make_experiment()
    as_parquet(tmp_path / "questions.jsonl", tmp_path / "data")
    experiment["questions"]["path"] = "data"
    before = state(go(experiment))
    second = tmp_path / "data" / "test-1.parquet"
    second.write_bytes(second.read_bytes()[:-200])
    (tmp_path / "e.yaml").write_text(yaml.safe_dump({**experiment, "seed": 1}))
    found = bon("run", "e.yaml", "--out", "run", cwd=tmp_path)
    assert found.returncode == 2
    assert "test-1.parquet is not a complete parquet file" in found.stderr
    assert state(tmp_path / "run") == before


def test_the_wrong_file_is_refused_and_can_be_asked_for(make_experiment, go, tmp_path):
    experiment = make_experiment()
    directory = go(experiment)
    before = state(directory)
    (tmp_path / "questions.jsonl").rename(tmp_path / "first.jsonl")
    lines = (tmp_path / "first.jsonl").read_text().replace("What is", "How much is")
    (tmp_path / "other.jsonl").write_text(lines)
    other = {**experiment, "questions": {"benchmark": "multiple_choice", "path": "other.jsonl"}}
    (tmp_path / "other.yaml").write_text(yaml.safe_dump(other))
    found = bon("run", "other.yaml", "--out", "run", cwd=tmp_path)
    assert found.returncode == 2
    assert "is a run of another experiment" in found.stderr
    assert "--replace" in found.stderr
    assert state(directory) == before
    go(other, replace=True)
    assert state(directory)["questions"] != before["questions"]
    # The way back is as short, and finds everything that was computed.
    rows = state(directory)["rows"]
    experiment["questions"]["path"] = "first.jsonl"
    go(experiment, replace=True)
    assert state(directory)["questions"] == before["questions"]
    assert state(directory)["rows"] == rows


def test_another_name_with_another_policy_is_another_experiment(make_experiment, go):
    experiment = make_experiment()
    directory = go(experiment)
    go({**experiment, "name": "renamed"})
    other = {**experiment["policies"][0], "name": "another", "engine_args": {"accuracy": 0.1}}
    with pytest.raises(BonError, match="another name and none of the run's policies"):
        go({**experiment, "name": "other", "policies": [other]})
    assert state(directory)["experiment"]["name"] == "renamed"
    go({**experiment, "name": "renamed", "policies": [other]})


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 5},
        {"pairs": []},
        {"judging": {"design": "knockout"}},
        {"questions": {"benchmark": "multiple_choice", "path": "questions.jsonl", "limit": 5}},
    ],
)
def test_what_changes_within_an_experiment_goes_on(make_experiment, go, change):
    experiment = make_experiment()
    go(experiment)
    go({**experiment, **change})
    go(experiment)


KILLED = """
import os, sys, yaml
from pathlib import Path
from bon.running.start import start
from bon.work.setup import read_experiment
from bon.storage.store import Store
import bon.work.starting as starting
starting.find_leaks = lambda *both: os.kill(os.getpid(), 9)  # the data is read, nothing committed
with Store(Path("run")) as store:
    start(read_experiment(Path("e.yaml")), store)
"""


def test_kill_between_load_and_commit(make_experiment, go, tmp_path):
    experiment = make_experiment()
    before = state(go(experiment))
    larger = make_experiment(questions=30, pairs=20, name="echo", seed=3)
    (tmp_path / "e.yaml").write_text(yaml.safe_dump(larger))
    found = subprocess.run([sys.executable, "-c", KILLED], cwd=tmp_path, check=False)
    assert found.returncode == -signal.SIGKILL
    assert state(tmp_path / "run") == before


def test_a_first_start_that_failed_says_so(make_experiment, go, tmp_path):
    experiment = make_experiment()
    (tmp_path / "questions.jsonl").write_text("nothing\n")
    with pytest.raises(BonError, match="no row of"):
        go(experiment)
    with pytest.raises(BonError, match="holds no experiment yet"):
        report_run(tmp_path / "run")


def test_a_reader_reads_all_answers_again_not_only_those_asked_today(make_experiment, go):
    experiment = make_experiment()
    # Read as a letter by the one reader and not by the other.
    experiment["policies"][0]["engine_args"]["reply"] = "It is ({choice}), I think, or not"

    def outcomes(directory):
        with Store(directory, readonly=True) as store:
            return store.query("SELECT key, answer, outcome FROM candidates ORDER BY key")

    official = outcomes(go(experiment))
    strict = {**experiment, "policies": [{**experiment["policies"][0], "extractor": "strict"}]}
    few = {**strict, "questions": {**experiment["questions"], "limit": 5}}
    go(few)
    mixed = outcomes(go(strict))
    assert {outcome for _, _, outcome in mixed} == {"unparsed"}
    assert outcomes(go(experiment)) == official
    assert {outcome for _, _, outcome in official} == {"parsed"}


def test_answers_of_the_first_strict_reader_are_read_again(make_experiment, go):
    experiment = make_experiment()
    experiment["policies"][0] |= {"extractor": "strict"}
    experiment["policies"][0]["engine_args"]["reply"] = "so \\boxed{{choice}}."
    directory = go(experiment)
    with Store(directory) as store:  # as version 0.1 read them, and noted that it did
        noted = {s: m.split()[0] for s, m in store.meta("readers").items() if m}
        store.set_meta(readers=noted)
        keys = [key for (key,) in store.query("SELECT key FROM candidates")]
        store.set_answers((None, "unparsed", key) for key in keys)
    go(experiment)
    with Store(directory, readonly=True) as store:
        assert {o for (o,) in store.query("SELECT outcome FROM candidates")} == {"parsed"}


def test_bad_rows_are_forgotten_when_the_file_was_mended(make_experiment, go, tmp_path):
    experiment = make_experiment()
    path = tmp_path / "questions.jsonl"
    whole = path.read_text()
    path.write_text(whole + "{torn\n")
    directory = go(experiment)
    with Store(directory, readonly=True) as store:
        assert store.count("bad_rows") == 1
    row = json.loads(whole.splitlines()[0])
    path.write_text(whole + 2 * (json.dumps({**row, "answer": "?"}) + "\n"))
    go(experiment)
    with Store(directory, readonly=True) as store:
        assert store.count("bad_rows") == 2  # two rows, although they share their id
    path.write_text(whole)
    go(experiment)
    with Store(directory, readonly=True) as store:
        assert store.count("bad_rows") == 0
