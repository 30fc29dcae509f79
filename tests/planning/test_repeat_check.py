"""`--repeat-check`: what is asked again, in which company, and what it says."""

import json

import pandas as pd
import pytest
from typer.testing import CliRunner

from bon.analysis.estimators.repeated import repeats
from bon.analysis.results import Options
from bon.commands.main import app
from bon.engines.echo import EchoEngine
from bon.engines.metering import fresh
from bon.planning.plan import make_plan
from bon.running import runner
from bon.running.reporting import read_results, report_run
from bon.storage.store import Store
from bon.work.repeat_check import FOLDER
from bon.work.setup import prepare
from tests.running.conftest import work_here


@pytest.fixture
def here(monkeypatch):
    """Works in this process instead of on Ray; returns (stage, model, items) of every batch."""
    asked = []

    def work_off(setup, tally, sources, **_):
        busy = [source for source in sources if source.has_work()]
        for source, tasks in work_here(setup, tally, sources, size=8):
            items = [getattr(getattr(task, "item", None), "key", "") for task in tasks]
            asked.append((source.stage, source.model, items))
        return bool(busy)

    monkeypatch.setattr(runner, "work_off", work_off)
    return asked


@pytest.fixture
def experiment(make_experiment):
    return {**make_experiment(), "judging": {"repeat_check": 10}, "analysis": {"bootstrap": 100}}


def rows(directory, spec=None):
    with Store(directory, readonly=True) as store:
        return {row.key: row for row in store.stored_judgements(spec)}


def test_as_many_items_are_asked_again_in_another_order(experiment, go, here):
    directory = go(experiment, until="generate")
    directory = go(experiment, until="")
    again, first = rows(directory / FOLDER), rows(directory)
    assert len(again) == 30
    for key, row in again.items():
        assert (row.item, row.first, row.second, row.vote) == (
            first[key].item, first[key].first, first[key].second, first[key].vote,
        )  # fmt: skip
        assert (row.outcome, row.score) == (first[key].outcome, first[key].score)  # echo is stable
    for name in ("judge", "critic", "head"):
        mine = [row.item for row in again.values() if row.rewarder == name]
        assert len(set(mine)) == 10  # one judgement each, so they are independent
        in_order = list(dict.fromkeys(row.item for row in first.values() if row.rewarder == name))
        asked = [item for stage, model, items in here if (stage, model) == ("repeat", name)
                 for item in items]  # fmt: skip
        assert sorted(asked) == sorted(mine)
        assert asked != [item for item in in_order if item in mine]


def test_repeats_are_kept_apart_resumed_and_change_no_key(experiment, go, here):
    without = go({**experiment, "judging": {}}, out="without")
    directory = go(experiment)
    assert rows(directory).keys() == rows(without).keys()
    with Store(directory / FOLDER) as store:  # as if killed on the way
        store.db.execute("DELETE FROM judgements WHERE rewarder = 'judge' AND key > '8'")
    kept = rows(directory / FOLDER)
    assert 20 <= len(kept) < 30
    here.clear()
    go(experiment)
    asked = [(stage, model) for stage, model, items in here for _ in items]
    assert asked == [("repeat", "judge")] * (30 - len(kept))
    here.clear()
    go(experiment)
    assert here == []
    go({**experiment, "judging": {}})  # no longer wanted: what there is stays
    assert len(rows(directory / FOLDER)) == 30


def test_an_engine_is_told_that_nothing_kept_may_answer(experiment, go, here, monkeypatch):
    told = []
    receive = EchoEngine._receive

    async def noted(self, messages):
        told.append(fresh())
        return await receive(self, messages)

    monkeypatch.setattr(EchoEngine, "_receive", noted)
    go(experiment)
    assert sum(told) == 30
    assert not any(told[: told.index(True)])


def test_what_changed_is_in_results_report_and_summary(experiment, go, here, monkeypatch, capsys):
    score = EchoEngine._score

    def other(self, digest):
        found = score(self, digest)
        return found + 0.5 if fresh() and digest[0] % 2 else found

    monkeypatch.setattr(EchoEngine, "_score", other)
    directory = go(experiment)
    report_run(directory)
    judge, critic, head = read_results(directory).repeats
    assert (judge.rewarder, critic.rewarder, head.rewarder) == ("judge", "critic", "head")
    assert (judge.changed.value, judge.largest, judge.num_repeated) == (0.0, None, 10)
    assert 0 < head.changed.value < 1
    assert head.changed.low < head.changed.value < head.changed.high
    assert head.largest == pytest.approx(0.5)
    assert head.spread > 0
    said = capsys.readouterr().err
    assert "judge: 0 of 10 judgements changed when asked again in other batches (0.0%" in said
    assert "by at most 0.5; their standard deviation is" in said
    page = (directory / "report.html").read_text()
    assert "Repeated judgements" in page


def test_errors_of_the_repetition_are_counted_and_tried_again(experiment, go, here, monkeypatch):
    score, failing = EchoEngine._score, [True]

    def broken(self, digest):
        if fresh() and failing[0]:
            raise RuntimeError("no answer")
        return score(self, digest)

    monkeypatch.setattr(EchoEngine, "_score", broken)
    directory = go(experiment)
    report_run(directory, quiet=True)
    results = read_results(directory)
    head = results.repeats[2]
    assert (head.errors, head.num_repeated, head.changed.value) == (10, 0, None)
    assert results.completeness.complete  # nothing that counts is missing
    failing[0] = False
    go(experiment)
    assert {row.outcome for row in rows(directory / FOLDER).values()} >= {"scored"}
    assert not any(row.error for row in rows(directory / FOLDER).values())


def test_a_plan_counts_what_is_asked_again(experiment, go, here, tmp_path):
    setup = prepare(experiment, tmp_path)
    without = make_plan(prepare({**experiment, "judging": {}}, tmp_path))
    plan = make_plan(setup)
    assert [work.again for work in plan.rewarders] == [10] * 3
    assert plan.totals()["calls"] == without.totals()["calls"] + 30
    directory = go(experiment)
    assert make_plan(setup, directory).totals()["calls"] == 0
    few = prepare({**experiment, "judging": {"repeat_check": 500}}, tmp_path)
    assert make_plan(few).rewarders[0].again == 12 + 9  # no more than there are items


def test_the_option_of_the_command(experiment, go, here, tmp_path):
    directory = go({**experiment, "judging": {}})
    result = CliRunner().invoke(
        app,
        ["run", str(directory / "experiment.yaml"), "-o", str(directory), "--repeat-check", "3",
         "--set", f"questions.path={tmp_path}/questions.jsonl",
         "--set", f"pairs.0.path={tmp_path}/pairs.jsonl", "--json"],
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert [one["num_repeated"] for one in json.loads(result.stdout)["repeats"]] == [3, 3, 3]


def said(*pairs):
    columns = ["rewarder", "before", "score", "again", "score_again"]
    return pd.DataFrame([("r", *pair) for pair in pairs], columns=columns)


def test_flips_and_differences_by_hand():
    ((found),) = repeats(
        said(("first", None, "second", None), ("tie", None, "tie", None),
             ("unparsed", None, "first", None), ("first", None, "error", None)), Options()
    )  # fmt: skip
    assert (found.num_repeated, found.errors, found.largest) == (3, 1, None)
    assert found.changed.value == pytest.approx(2 / 3)
    ((found),) = repeats(
        said(("scored", 1.0, "scored", 1.0 + 1e-9), ("scored", 3.0, "scored", 2.0),
             ("scored", 3.0, "unparsed", None)), Options()
    )  # fmt: skip
    assert found.changed.value == pytest.approx(2 / 3)
    assert found.largest == pytest.approx(1.0)


def test_votes_are_repeated_with_their_own_seed(make_experiment, go, here):
    made = {**make_experiment(), "judging": {"repeat_check": 5}}
    made["rewarders"][0] |= {"votes": 3, "sampling": {"temperature": 1.0}}
    directory = go(made)
    first, again = rows(directory), rows(directory / FOLDER)
    mine = [key for key, row in again.items() if row.rewarder == "judge"]
    assert len(mine) == 5
    assert all(again[key].text == first[key].text for key in mine)
