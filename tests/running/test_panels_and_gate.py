"""A panel in a run, and a gate on verdicts."""

import pytest

from bon.commands.main import main
from bon.running.reporting import read_results, report_run


def test_a_panel_in_a_run(make_experiment, go):
    experiment = make_experiment(questions=60, pairs=60, analysis={"bootstrap": 100})
    experiment["rewarders"].append(
        {"name": "both", "kind": "ensemble", "combine": "scores", "engine": "none",
         "members": ["critic", "head"]}
    )  # fmt: skip
    directory = go(experiment)
    report_run(directory, quiet=True)
    results = read_results(directory)
    accuracy = {b.rewarder: b.accuracy.value for b in results.best_of_n if b.headline}
    units = {b.rewarder: b.unit for b in results.best_of_n if b.headline and b.unit}
    assert {"critic", "head", "judge", "both"} <= set(units)
    assert "both" in accuracy


def test_gate_by_a_judges_verdicts(make_experiment, go, monkeypatch, capsys):
    directory = go(make_experiment(questions=80, pairs=60, analysis={"bootstrap": 100}))
    report_run(directory, quiet=True)

    def gate(*arguments):
        monkeypatch.setattr("sys.argv", ["bon", "gate", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            main()
        return stopped.value.code, *capsys.readouterr()

    assert "give --min-gain or --judge" in gate(directory)[2]
    assert "no such option" in gate(directory, "--risk", "0.2")[2].lower()
    code, text, _ = gate(directory, "--judge", "tpr=.2", "--rewarder", "critic")
    assert code == 0
    assert "go: critic tpr" in text
