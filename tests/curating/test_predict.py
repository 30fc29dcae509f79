"""`bon curate predict`: on questions that the items are not about, and on no others."""

import json
import shutil

import numpy as np
import pytest
from typer.testing import CliRunner

from bon.commands.main import app
from bon.core.errors import BonError
from bon.curating.item_judgements import credits
from bon.curating.pools import split_of
from bon.curating.predict import BenchmarkPrediction, predict
from bon.curating.propose import propose
from bon.curating.workbench import open_workbench
from bon.running.reporting import open_run
from bon.storage.store import Store
from tests.curating.test_propose import bench_with
from tests.running.conftest import change


@pytest.fixture(scope="module")
def bench(judged, tmp_path_factory):
    """A proposed benchmark of pairs, half of whose questions are held out."""
    made = bench_with(
        judged,
        tmp_path_factory.mktemp("predict") / "mine",
        quotas="{gold: 0.5, control: 0.5}",
        held_out="0.5",
    )
    propose(made, quiet=True)
    return made


@pytest.fixture(scope="module")
def found(bench):
    return predict(bench, quiet=True)


def best_of_n(run, policy_name, rewarder, split):
    """Accuracy of the highest score among all candidates, ties shared, one question at a time."""
    shares = []
    with Store(run, readonly=True) as store:
        setup = open_run(store)
        policy = next(one for one in setup.policies if one.card.name == policy_name)
        spec = next(one.spec for one in setup.rewarders if one.card.name == rewarder)
        for question in store.questions():
            if split_of(question, 0, 0.5) != split:
                continue
            rows = store.candidates(policy.spec, question.key)
            right = [row.answer == question.answer for row in rows]
            scores = {row.first: row.score for row in store.judgements(spec, question.key)}
            said = [scores.get(row.text_key, 0.0) for row in rows]
            top = [r for r, score in zip(right, said, strict=True) if score == max(said)]
            shares.append(np.mean(top))
    return len(shares), np.mean(shares)


def test_both_axes_are_of_different_questions(judged, bench, found):
    public = {item.key for item in bench.items if item.split == "public"}
    said = credits(bench).loc[sorted(public)].mean()
    rows = [one for one in found.predicted if one.benchmark == "mine" and one.axis == "overall"]
    assert {(row.policy, row.fresh) for row in rows} == {
        (policy, "held-out") for policy in ("policy", "talker")
    }
    for row in rows:
        points = {point.rewarder: point for point in row.points}
        for name in ("critic", "weak-critic", "head"):
            count, accuracy = best_of_n(judged, row.policy, name, "held-out")
            assert row.questions == count
            assert points[name].y.value == pytest.approx(accuracy)
            assert points[name].x.value == pytest.approx(said[name])
        x, y = ([getattr(p, a).value for p in row.points] for a in "xy")
        assert row.pearson.value == pytest.approx(np.corrcoef(x, y)[0, 1])
    assert found.items == len(public)


def test_it_stands_beside_the_runs_own_benchmark(found):
    of = {(one.policy, one.fresh, one.benchmark, one.axis): one for one in found.predicted}
    assert ("policy", "held-out", "mine", "natural") in of
    for policy in ("policy", "talker"):
        new = of[policy, "held-out", "mine", "overall"]
        standing = of[policy, "held-out", "vl_rewardbench", "macro"]
        by = new.pearson.value - standing.pearson.value
        (one,) = new.differences
        assert one.minus == "vl_rewardbench"
        assert one.difference.value == pytest.approx(by)
        assert one.difference.low <= by <= one.difference.high


def test_the_command_prints_what_it_writes(bench, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    done = CliRunner().invoke(app, ["curate", "predict", str(bench.directory)])
    assert done.exit_code == 0, done.output
    written = BenchmarkPrediction.model_validate_json(bench.prediction_path.read_text())
    assert len(written.predicted) == 6
    assert "mine (natural)" in done.stdout
    assert " from vl_rewardbench" in done.stdout


def test_another_run_is_asked_only_what_is_new(judged, bench, tmp_path):
    other = shutil.copytree(judged, tmp_path / "other")
    with Store(judged, readonly=True) as store:
        public = [q.key for q in store.questions() if split_of(q, 0, 0.5) == "public"]
        held_out = store.count("questions") - len(public)
    for key in public[:3]:
        text = json.dumps(f"Another question altogether: {key}?")
        change(other, "UPDATE questions SET data = json_set(data, '$.text', json(?)) WHERE key = ?",
               text, key)  # fmt: skip
    rows = predict(bench, [other], quiet=True).predicted
    assert {row.questions for row in rows if row.fresh == "other run"} == {held_out + 3}
    assert {row.run for row in rows if row.fresh == "other run"} == {"other"}


def test_mistakes_are_one_line(judged, tmp_path):
    def refusal(**settings):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        propose(bench_with(judged, folder, **settings), quiet=True)
        with pytest.raises(BonError) as refused:
            predict(open_workbench(folder), quiet=True)
        return str(refused.value)

    assert "no question is held out" in refusal(held_out="0")
    with pytest.raises(BonError, match="no proposed items"):
        predict(bench_with(judged, tmp_path / "none"), quiet=True)
