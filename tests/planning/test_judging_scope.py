"""`judging.decide`: rewarders are judged in looks, in process and without Ray."""

import asyncio
import json

import pytest

from bon.analysis.data.arrays import read
from bon.analysis.decision.sequential_decision import decided, interim_analyses
from bon.analysis.results import Decided, Results
from bon.core.errors import BonError
from bon.dispatch.worker import Host
from bon.planning.completeness import completeness
from bon.planning.judging_scope import judging_order
from bon.planning.plan import make_plan
from bon.planning.run_tables import run_tables
from bon.planning.sequential_test import judging_limits
from bon.planning.setup import options, prepare
from bon.running.reporting import open_run, report_run
from bon.running.runner import make_sources, run
from bon.running.start import start
from bon.running.tally import Tally
from bon.storage.store import Store

SKILLS = {"good": 0.97, "fair": 0.75, "poor": 0.35, "bad": 0.1}


@pytest.fixture
def experiment(make_experiment):
    """Four scalar rewarders of known skill, which is to say who is best."""
    made = make_experiment(questions=120, judging={"decide": "best", "looks": 4})
    head = next(one for one in made["rewarders"] if one["kind"] == "scalar")
    made["rewarders"] = [
        {**head, "name": name, "engine_args": {"accuracy": skill}} for name, skill in SKILLS.items()
    ]
    return made


def judge(experiment, base, *, stop_after=10**9, order=1):
    """Work as a dispatcher does, source by source; stops dead after so many batches."""
    setup = prepare(experiment, base)
    with Store(base / "run") as store:
        start(setup, store, quiet=True)
        tally, host = Tally(setup, store), Host(setup.specs())
        sources = make_sources(setup, store)
        sources = [s for s in sources if s.stage == "generate"] + [
            s for s in sources if s.stage != "generate"
        ][::order]

        async def work() -> int:
            batches = idle = 0
            while idle < 3 and not all(source.finished for source in sources):
                before = batches
                for source in sources:
                    tasks = source.take(7)
                    if not tasks:
                        continue
                    batches += 1
                    if batches > stop_after:
                        return batches
                    reply = await host.run(source.model, tasks)
                    source.answer(len(tasks), 1.0)
                    tally.file(source, reply)
                idle = idle + 1 if before == batches else 0  # what is there is walked over
            return batches

        asyncio.run(work())
        store.commit()
        assert stop_after < 10**9 or all(source.finished for source in sources)
        return completeness(setup, store)


def settled(base) -> Decided:
    """What a report would say of the looks, without drawing it."""
    with Store(base / "run", readonly=True) as store:
        setup = open_run(store)
        arrays = read(run_tables(setup, store))
        (found,) = decided(arrays, interim_analyses(arrays, options(setup)), 0.95)
        return found


def judged(base) -> dict[str, int]:
    with Store(base / "run", readonly=True) as store:
        setup = open_run(store)
        return {
            one.card.name: store.query(
                "SELECT COUNT(DISTINCT item) FROM judgements "
                "WHERE spec = ? AND item_kind != 'pair'",
                (one.spec,),
            )[0][0]
            for one in setup.rewarders
        }


def test_the_worse_are_judged_less_and_the_report_says_so(experiment, tmp_path):
    found = judge(experiment, tmp_path)
    assert found.complete
    asked = judged(tmp_path)
    assert asked["bad"] < asked["good"]
    report_run(tmp_path / "run", quiet=True)
    results = Results.model_validate_json((tmp_path / "run" / "results.json").read_bytes())
    (made,) = results.decided
    states = {one.rewarder: one.state for one in made.rewarders}
    assert states["good"] in ("best", "in")
    assert states["bad"] == states["poor"] == "dropped"
    assert made.over
    assert made.calls < made.calls_all
    for one in made.rewarders:
        assert one.questions == 30 * one.look
        assert one.state != "dropped" or one.difference.high < 0
    assert not results.correlations
    assert not results.decisions
    assert "r is not reported" in results.finding.caveats[0]
    assert made.sentence in results.finding.sentence
    early = next(b for b in results.best_of_n if b.rewarder == "bad" and b.headline)
    assert early.estimated.questions == asked["bad"]
    page = (tmp_path / "run" / "report.html").read_text()
    assert "Sequential decisions" in page
    assert "Accuracies are conditional on the decisions" in page
    # The first questions in the seeded order, and no others.
    with Store(tmp_path / "run", readonly=True) as store:
        setup = open_run(store)
        order, ends = judging_order(setup, store), judging_limits(setup, store)["policy"]
        for one in setup.rewarders:
            items = store.query(
                "SELECT DISTINCT item FROM judgements WHERE spec = ? AND item_kind != 'pair'",
                (one.spec,),
            )
            assert {key for (key,) in items} <= set(order[: ends[one.card.name]])


@pytest.mark.parametrize("stop_after", [25, 45])
def test_a_run_that_was_killed_settles_the_same(experiment, tmp_path, stop_after):
    (tmp_path / "whole").mkdir()
    for name in ("questions.jsonl", "pairs.jsonl"):
        (tmp_path / "whole" / name).write_text((tmp_path / name).read_text())
    judge(experiment, tmp_path / "whole")
    assert not judge(experiment, tmp_path, stop_after=stop_after).complete
    found = judge(experiment, tmp_path, order=-1)  # and in another order of rewarders
    assert found.complete
    assert settled(tmp_path) == settled(tmp_path / "whole")
    assert judged(tmp_path) == judged(tmp_path / "whole")
    asked = judged(tmp_path)
    judge(experiment, tmp_path)
    assert judged(tmp_path) == asked  # nothing is left to do


def test_judgements_that_are_there_settle_the_same(experiment, tmp_path):
    """A run that judged everything is looked at afterwards as one that was asked to decide."""
    plain = {**experiment, "judging": {}}
    judge(plain, tmp_path)
    found = judge(experiment, tmp_path)
    assert found.complete
    whole = settled(tmp_path)
    (tmp_path / "other").mkdir()
    for name in ("questions.jsonl", "pairs.jsonl"):
        (tmp_path / "other" / name).write_text((tmp_path / name).read_text())
    judge(experiment, tmp_path / "other")
    other = settled(tmp_path / "other")
    for one, two in zip(whole.rewarders, other.rewarders, strict=True):
        assert (one.state, one.look, one.difference) == (two.state, two.look, two.difference)
    assert other.calls < whole.calls


def test_beats_majority(experiment, tmp_path):
    experiment["judging"] = {"decide": "beats-majority", "looks": 4}
    assert judge(experiment, tmp_path).complete
    made = settled(tmp_path)
    states = {one.rewarder: one.state for one in made.rewarders}
    assert states["good"] == "above"
    assert states["bad"] == "below"
    assert {one.against for one in made.rewarders} == {"majority vote"}
    assert "beat majority vote on policy (good" in made.sentence


def test_a_model_that_fails_stops_the_looks_and_the_same_command_goes_on(experiment, tmp_path):
    broken = json.loads(json.dumps(experiment))
    broken["rewarders"][1]["engine_args"]["failure_rate"] = 1.0
    setup = prepare(broken, tmp_path)
    with Store(tmp_path / "run") as store:
        start(setup, store, quiet=True)
        sources = make_sources(setup, store)
        host, tally = Host(setup.specs()), Tally(setup, store)

        async def work() -> None:
            for _ in range(400):
                for source in sources:
                    if source.model == "fair" and source.stage == "judge":
                        source.finished = True  # as the dispatcher does with a failed model
                    tasks = source.take(50)
                    if tasks:
                        reply = await host.run(source.model, tasks)
                        source.answer(len(tasks), 1.0)
                        tally.file(source, reply)

        asyncio.run(work())
        assert all(source.finished for source in sources)
        assert not completeness(setup, store).complete
    made = settled(tmp_path)
    assert (made.taken, made.over) == (0, False)
    assert "the interim analyses are not complete" in made.sentence
    assert judge(experiment, tmp_path).complete


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"questions": {"subset": 0.5}}, "looks at what is known, and `questions.subset`"),
        ({"rewarders": 1}, "1 rewarders"),
    ],
)
def test_what_cannot_be_decided_is_refused(experiment, tmp_path, change, message):
    for key, value in change.items():
        if key == "rewarders":
            experiment[key] = experiment[key][:value]
        else:
            experiment[key] = {**experiment[key], **value}
    with pytest.raises(BonError, match=message):
        prepare(experiment, tmp_path)


def test_a_plan_says_that_its_calls_are_the_most(experiment, tmp_path):
    said = make_plan(prepare(experiment, tmp_path)).warnings
    assert "judging.decide makes fewer calls: those shown are for all questions" in said


def test_a_shard_cannot_decide(experiment, tmp_path):
    with pytest.raises(BonError, match="a shard holds a part of them"):
        run(prepare(experiment, tmp_path), tmp_path / "run", shard=(1, 2), quiet=True)
