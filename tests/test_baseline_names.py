"""A rewarder cannot have the name of a baseline, which results list beside it."""

import json
import sys

import pandas as pd
import pytest

from bon.analysis.results import Options
from bon.analysis.run import analyse
from bon.commands.main import main
from bon.core.errors import BonError
from bon.core.records import BASELINES
from bon.work.setup import prepare
from tests.analysis.synthetic import synthetic_tables


@pytest.fixture
def bon(monkeypatch, capsys):
    """Runs a command; returns its exit code and the lines that it wrote to stderr."""

    def run(*words: object) -> tuple[int, list[str]]:
        monkeypatch.setattr(sys, "argv", ["bon", *map(str, words)])
        with pytest.raises(SystemExit) as stopped:
            main()
        return int(stopped.value.code or 0), capsys.readouterr().err.splitlines()

    return run


@pytest.mark.parametrize("name", BASELINES)
def test_an_experiment_is_refused_before_it_starts(make_experiment, tmp_path, name):
    experiment = make_experiment()
    experiment["rewarders"][1]["name"] = name
    with pytest.raises(BonError, match=rf"name: a rewarder is named {name!r}, as is a base"):
        prepare(experiment, tmp_path)
    ensemble = {"name": name, "kind": "ensemble", "members": ["judge", "head"]}
    with pytest.raises(BonError, match="is named"):
        prepare(make_experiment(rewarders=[*make_experiment()["rewarders"], ensemble]), tmp_path)


def test_a_run_says_so_in_one_line_and_leaves_nothing(make_experiment, tmp_path, bon):
    experiment = make_experiment()
    experiment["rewarders"][1]["name"] = "majority"
    file = tmp_path / "study.yaml"
    file.write_text(json.dumps(experiment))
    code, (line,) = bon("run", file, "--out", tmp_path / "run")
    assert code == 2
    assert "'majority', as is a baseline that is always computed -> give it another name" in line
    assert not (tmp_path / "run").exists()


def test_an_imported_table_too(tmp_path, bon):
    questions = [
        {"id": f"q{i}", "candidates": [{"correct": j == i % 3} for j in range(3)]} for i in range(6)
    ]
    scores = [
        {"rewarder": name, "question": q["id"], "scores": [0.1, 0.2, 0.3]}
        for name in ("mine", "random")
        for q in questions
    ]
    files = []
    for name, rows in (("questions", questions), ("scores", scores)):
        files.append(tmp_path / f"{name}.jsonl")
        files[-1].write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, lines = bon("import", *files, "--policy", "p", "--out", tmp_path / "run")
    assert code == 2
    assert "'random', as is a baseline" in lines[-1]
    assert not (tmp_path / "run").exists()


def test_correlate_computes_no_baseline_and_takes_any_name(tmp_path, bon):
    file = tmp_path / "published.csv"
    names = ("random", "majority", "one", "two", "three")
    rows = [{"rewarder": n, "score": 50 + i, "best_of_n": 60 + i} for i, n in enumerate(names)]
    pd.DataFrame(rows).to_csv(file, index=False)
    assert bon("correlate", file)[0] == 0


def test_tables_made_by_hand_too():
    tables = synthetic_tables(1, 4, 2, 4)
    first = tables.rewarders["rewarder"][0]
    options = Options(draws=100, ensembles={"oracle": (first,)})
    with pytest.raises(BonError, match="'oracle', as is a baseline"):
        analyse(tables, options)
    tables.rewarders.loc[0, "rewarder"] = "random"
    with pytest.raises(BonError, match="'random', as is a baseline"):
        analyse(tables)
