"""Panels of the benchmark's best, and a gate on verdicts."""

import pytest
from markupsafe import escape

from bon.commands.main import main
from bon.running.reporting import read_results, report_run


def test_panels_of_a_run(make_experiment, go):
    experiment = make_experiment(questions=60, pairs=60, analysis={"bootstrap": 100})
    experiment["rewarders"].append(
        {"name": "both", "kind": "ensemble", "combine": "scores", "engine": "none",
         "members": ["critic", "head"]}
    )  # fmt: skip
    directory = go(experiment)
    page = report_run(directory, quiet=True)
    results = read_results(directory)
    (found,) = results.panels
    accuracy = {b.rewarder: b.accuracy.value for b in results.best_of_n if b.headline}
    scores = {b.rewarder: b.macro.value for b in results.benchmarks}
    assert [s.size for s in found.sizes] == [1, 2, 3]
    order = [scores[s.added] for s in found.sizes]
    assert order == sorted(order, reverse=True)
    assert found.sizes[0].over_pick.value == 0
    for s in found.sizes:
        if s.added != "judge":  # whose shares among all with copies differ
            assert s.alone == pytest.approx(accuracy[s.added])
        assert s.over_pick.value == pytest.approx(s.accuracy.value - found.sizes[0].accuracy.value)
        assert s.ensemble is not None
    best = max(s.accuracy.value for s in found.sizes)
    assert found.sizes[found.size - 1].accuracy.value == best
    assert found.held_out.low <= found.held_out.value <= found.held_out.high
    assert -1 <= found.error_correlation <= 1
    gained = found.rescued.value - found.spoilt.value
    assert gained == pytest.approx(found.sizes[found.size - 1].over_pick.value, abs=0.1)
    assert escape(found.sentence) in page.read_text("utf-8")
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
