"""`bon.load` in a notebook: a table, a figure, a page fragment, and objects that travel."""

import pickle

import pytest
from matplotlib.figure import Figure

import bon
from bon.running.reporting import report_run


@pytest.fixture
def run(make_experiment, go):
    directory = go(make_experiment(judging={"skip": "nothing"}))
    report_run(directory, quiet=True)
    return bon.load(directory)


def test_a_run_shows_itself(run):
    board = run.leaderboard("policy")
    assert {"judge", "critic", "head", "pass@1", "oracle"} <= set(board.rewarder)
    assert board.accuracy.is_monotonic_decreasing
    assert board.dtypes.astype(str).to_dict() == {
        "rewarder": "string", "kind": "string", "rule": "string", "rank": "string",
        "accuracy": "float64", "accuracy_low": "float64", "accuracy_high": "float64",
        "vs_majority": "float64", "vs_majority_low": "float64", "vs_majority_high": "float64",
        "gain": "float64", "gain_low": "float64", "gain_high": "float64",
        "benchmark": "float64", "benchmark_low": "float64", "benchmark_high": "float64",
    }  # fmt: skip
    best = {b.rewarder: b.accuracy.value for b in run.results.best_of_n if b.headline}
    shown = dict(zip(board.rewarder, board.accuracy, strict=True))
    assert {name: shown[name] for name in ("judge", "head")} == {
        name: pytest.approx(best[name]) for name in ("judge", "head")
    }
    with pytest.raises(bon.BonError, match="no policy 'other' -> choose one of policy"):
        run.leaderboard("other")
    assert isinstance(run.plot(), Figure)
    for shown in (run, run.results):
        page = shown._repr_html_()
        assert "<table" in page
        assert "head" in page


def test_a_run_without_results_shows_what_to_do(tmp_path):
    assert "bon report" in bon.load(tmp_path / "<none>")._repr_html_()
    assert "<none>" not in bon.load(tmp_path / "<none>")._repr_html_()


def test_runs_and_results_can_be_pickled_and_compared(run):
    results = run.results
    assert pickle.loads(pickle.dumps(results)) == results
    copy = pickle.loads(pickle.dumps(run))
    assert copy == run == bon.load(run.directory)
    assert copy.results == results
    assert run.analyse(n=2) != results
