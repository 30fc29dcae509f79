"""`bon gate` and `bon compare` on runs that were reported on."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic import analyse, synthetic_tables
from typer.testing import CliRunner

from bon.analysis.data.arrays import read
from bon.analysis.decision.changes import run_differences
from bon.analysis.decision.gate import gate
from bon.analysis.estimators.picks import choices
from bon.analysis.results import Estimate, Results
from bon.commands.main import app
from bon.core.errors import BonError


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """What `bon report` leaves of a run of two policies."""
    tables = synthetic_tables(4, 60, 4, 80, policies=("a", "b"))
    results = analyse(tables, draws=200)
    directory = tmp_path_factory.mktemp("gate") / "run"
    (directory / "tables").mkdir(parents=True)
    (directory / "results.json").write_text(results.model_dump_json())
    choices(read(tables), results).to_parquet(directory / "tables" / "choices.parquet")
    return directory


@pytest.fixture(scope="module")
def results(run) -> Results:
    return Results.model_validate_json((run / "results.json").read_text())


def invoke(*arguments: object):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def gains(results: Results, rewarder: str) -> dict[str, Estimate]:
    return {b.policy: b.gain for b in results.best_of_n if b.headline and b.rewarder == rewarder}


def test_the_exit_code_follows_the_interval_of_the_worst_policy(run, results):
    found = gains(results, "rewarder-01")
    low, high = min(g.low for g in found.values()), min(g.high for g in found.values())
    for least, code, word in (
        (low - 0.001, 0, "go"),
        ((low + high) / 2, 3, "inconclusive"),
        (high + 0.001, 4, "no-go"),
    ):
        result = invoke("gate", run, "--min-gain", least, "--rewarder", "rewarder-01")
        assert result.exit_code == code, result.output
        lines = result.output.splitlines()
        assert len(lines) == 2, "a line a policy"
        said = ("gains", "differs by")
        assert any(
            line.startswith(f"{word}: rewarder-01 {verb} ") for line in lines for verb in said
        )


def test_no_gain_on_few_questions_is_not_shown_to_be_below_a_small_one(tmp_path):
    """A gain on 7 of 100 questions is on none of 30 in one study of nine."""
    tables = synthetic_tables(3, 30, 4, 40)
    few = tables.judgements["rewarder"] == "rewarder-02"
    tables.judgements.loc[few & (tables.judgements["outcome"] == "scored"), "score"] = 0.0
    (tmp_path / "results.json").write_text(analyse(tables, draws=500).model_dump_json())
    gate = ("gate", tmp_path, "--rewarder", "rewarder-02", "--min-gain")
    assert invoke(*gate, 0.063).exit_code == 3
    assert invoke(*gate, 0.2).exit_code == 4


def test_a_real_process_tells_a_pipeline(run):
    code = f"import sys; sys.argv = ['bon', 'gate', {str(run)!r}, '--min-gain', '0.9', '--json']"
    command = [sys.executable, "-c", f"{code}\nfrom bon.commands.main import main; main()"]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    assert made.returncode == 4
    assert made.stderr == ""
    said = json.loads(made.stdout)
    assert said["answer"] == "no-go"
    assert {one["policy"] for one in said["gates"]} == {"a", "b"}


def test_without_a_name_it_is_the_benchmarks_pick(results):
    primary = [c for c in results.correlations if c.primary]
    picks = {c.policy: max(c.points, key=lambda p: p.x.value).rewarder for c in primary}
    assert {one.policy: one.rewarder for one in gate(results, 0)} == picks
    tie = {"x": Estimate(value=1.0)}
    tied = results.model_copy(
        update={
            "correlations": tuple(
                c.model_copy(update={"points": tuple(p.model_copy(update=tie) for p in c.points)})
                for c in primary
            )
        }
    )
    with pytest.raises(BonError, match="no single rewarder is first"):
        gate(tied, 0)
    with pytest.raises(BonError, match="'nobody' chose among no candidates"):
        gate(results, 0, "nobody")


def test_the_majority_vote_is_a_harder_thing_to_beat(results):
    for one in gate(results, 0.0, "rewarder-02", "majority"):
        b = next(
            b
            for b in results.best_of_n
            if b.headline and (b.policy, b.rewarder) == (one.policy, "rewarder-02")
        )
        assert one.gain == b.versus_majority
        assert "over majority vote" in one.sentence


@given(st.floats(-0.5, 0.5), st.floats(0, 0.3), st.floats(0, 0.3), st.floats(-1, 1), st.booleans())
def test_go_and_no_go_never_contradict_the_interval(value, down, up, least, known):
    gain = Estimate(value=value, low=value - down, high=value + up) if known else Estimate(value=0)
    b = RESULT.best_of_n[0].model_copy(update={"gain": gain, "headline": True})
    one = gate(RESULT.model_copy(update={"best_of_n": (b,)}), least, b.rewarder)[0]
    assert (one.answer == "go") == (known and gain.low >= least)
    assert (one.answer == "no-go") == (known and gain.high < least)


RESULT = analyse(synthetic_tables(2, 12, 2, 12), draws=100)


def test_an_incomplete_run_is_never_a_go(run, tmp_path):
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    said = json.loads((copy / "results.json").read_text())
    said["completeness"] = {"complete": False, "models": [], "missing": ["b: 3 of 9 candidates"]}
    (copy / "results.json").write_text(json.dumps(said))
    result = invoke("gate", copy, "--min-gain", -1)
    assert result.exit_code == 3
    assert "inconclusive: the run is not complete: b: 3 of 9 candidates" in result.output


def test_compare_lists_what_changed_and_by_how_much(run, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(run, other)
    path = other / "tables" / "choices.parquet"
    frame = pd.read_parquet(path)
    mine = frame.index[(frame["policy"] == "a") & (frame["rewarder"] == "rewarder-00")]
    changed = [i for i in mine[:-1] if frame["correct"][i] in (0, 1)][:3]
    frame.loc[changed, "correct"] = 1 - frame.loc[changed, "correct"]
    frame = frame.drop(index=mine[-1])  # a question that only one of the runs holds
    frame.to_parquet(path)
    before = pd.read_parquet(run / "tables" / "choices.parquet")
    found = {(d.policy, d.rewarder): d for d in run_differences(before, frame)}
    assert len(found) == 8
    one = found["a", "rewarder-00"]
    assert one.difference.n == 59
    assert {c.question for c in one.changed} == set(frame.loc[changed, "question"])
    assert one.difference.value == pytest.approx(sum(c.after - c.before for c in one.changed) / 59)
    steps = [c.after - c.before for c in one.changed]
    assert steps == sorted(steps)
    assert all(d.changed == () for key, d in found.items() if key != ("a", "rewarder-00"))
    result = invoke("compare", run, other)
    assert result.exit_code == 0, result.output
    assert "rewarder-00 on a, right before and after:" in result.output
    assert all(c.id in result.output for c in one.changed)
    listed = json.loads(invoke("compare", run, other, "--json").output)
    assert len(listed) == 8
    assert len(next(d for d in listed if d["changed"])["changed"]) == 3


def test_runs_that_share_nothing_are_refused(run):
    frame = pd.read_parquet(run / "tables" / "choices.parquet")
    with pytest.raises(BonError, match="share no rewarder"):
        run_differences(frame, frame.assign(question="another"))
