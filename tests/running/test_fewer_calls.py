"""Fewer calls, the same accuracies: what is not asked could not have changed them."""

from pathlib import Path

import pytest

from bon.analysis.artifacts import frames
from bon.analysis.report import write_report
from bon.analysis.results import Options, Results
from bon.analysis.run import analyse
from bon.planning.plan import make_plan
from bon.running.reporting import open_run
from bon.running.status import run_status
from bon.storage.store import Store
from bon.work.run_tables import run_tables
from bon.work.setup import prepare

from .conftest import change

QUICK = Options(draws=200, subsets=16)
EVERY = {"skip": "unanimous"}


def judged(directory: Path) -> set[tuple[str, ...]]:
    """Every judgement of the run by its key."""
    with Store(directory, readonly=True) as store:
        return set(store.query("SELECT key FROM judgements"))


def analysed(directory: Path) -> Results:
    with Store(directory, readonly=True) as store:
        return analyse(run_tables(open_run(store), store), QUICK)


def accuracies(found: Results) -> dict[tuple[str, str, int], float]:
    """The whole curve of every rewarder and rule.

    A weighted vote is left out: its unit is the spread of the scores that there are.
    """
    rows = [b for b in found.best_of_n if b.rule != "weighted_vote"]
    return {(b.rewarder, b.rule, p.n): p.accuracy.value for b in rows for p in b.curve}


def test_constant_questions_need_no_judge(make_experiment, go):
    experiment = make_experiment(questions=30)
    experiment["policies"][0]["engine_args"]["unparsed_rate"] = 0.2
    every = go({**experiment, "judging": EVERY}, out="every")
    fewer = go(experiment, out="fewer")
    assert judged(fewer) < judged(every)
    assert accuracies(analysed(fewer)) == pytest.approx(accuracies(analysed(every)))
    for directory in (every, fewer):
        assert run_status(directory)["complete"]
        plan = make_plan(prepare(experiment, directory.parent), directory)
        assert plan.totals()["calls"] == 0


def test_a_run_goes_on_with_what_earlier_settings_judged(make_experiment, go):
    experiment = make_experiment(questions=30)
    directory = go({**experiment, "judging": EVERY})
    before, wanted = judged(directory), run_status(directory)["models"]
    go(experiment)
    assert judged(directory) == before
    after = run_status(directory)
    assert after["complete"]
    assert [m["wanted"] for m in wanted] == [120, 36, 36, 36]
    assert [m["wanted"] for m in after["models"]] == [120, 35, 35, 35]  # as today's settings ask


RACE = {"design": "race", "complete": 0.2}


def harder(experiment):
    """More candidates and a judge that is often wrong: a race has something to do."""
    experiment["policies"][0] |= {"n": 7}
    experiment["policies"][0]["engine_args"] |= {"accuracy": 0.4, "unparsed_rate": 0.1}
    experiment["rewarders"] = experiment["rewarders"][:1]
    experiment["rewarders"][0]["engine_args"] |= {"accuracy": 0.7}
    return experiment


def test_what_stops_early_is_as_accurate(make_experiment, go):
    experiment = harder(make_experiment(questions=30))
    every = go({**experiment, "judging": {"design": "all_pairs"}}, out="every")
    raced = {**experiment, "judging": RACE}
    fewer = go(raced, out="fewer")
    assert judged(fewer) < judged(every)
    wanted, found = accuracies(analysed(every)), accuracies(analysed(fewer))
    headline = "judge", "round_robin", 7
    assert found[headline] == pytest.approx(wanted[headline], abs=1e-12)
    assert run_status(fewer)["complete"]
    plan = make_plan(prepare(raced, fewer.parent), fewer)
    assert plan.totals()["calls"] == 0
    support = {r.rule: r for r in analysed(fewer).rules}
    (row,) = (b for b in analysed(fewer).best_of_n if b.rule == "round_robin")
    assert [p.n for p in row.curve] == [1, 7]
    for name in ("copeland", "knockout", "weighted_vote"):
        assert not support[name].supported
        assert "a race skips comparisons" in support[name].reason


def test_a_race_estimates_the_rest_from_what_it_judged_in_full(make_experiment, go):
    experiment = harder(make_experiment(questions=60))
    every = go(experiment, out="every")
    race = {"design": "race", "complete": 0.4}
    fewer = go({**experiment, "judging": race}, out="fewer")
    whole, found = analysed(every), analysed(fewer)
    wanted = {(b.rule, p.n): p.accuracy for b in whole.best_of_n for p in b.curve}
    rules = [b for b in found.best_of_n if b.rewarder == "judge"]
    assert {b.rule for b in rules} >= {"round_robin", "copeland", "knockout", "weighted_vote"}
    for b in rules:
        assert b.headline == (b.rule == "round_robin")
        assert (b.estimated is None) == b.headline
        for point in b.curve:
            full = wanted[b.rule, point.n]
            exact = point.n == 1 or (b.headline and point.n == 7)
            assert (point.estimated is None) == exact
            if exact:
                assert point.accuracy == full
            else:
                assert point.accuracy.n == point.estimated < 60
                assert point.accuracy.low <= full.value <= point.accuracy.high
    reasons = {r.reason for r in found.rules if r.rewarder == "judge" and r.rule == "copeland"}
    assert all("drawn at random" in reason for reason in reasons)
    (calls,) = found.judging
    (all_calls,) = whole.judging
    assert 0 < calls.rated_questions < all_calls.rated_questions
    assert abs(calls.consistency_candidates.value - all_calls.consistency_candidates.value) < 0.1
    table = frames(found)["best_of_n_curve"].query("rewarder == 'judge'")
    assert (table["estimated"].notna() == ~table["n"].isin([1, 7]))[table["headline"]].all()
    page = write_report(found, None, fewer / "report.html").read_text(encoding="utf-8")
    assert "Estimated from a random sample of the questions" in page
    assert "judged in full: a race mostly compares" in page


def test_a_subset_of_the_questions_is_judged_for_all(make_experiment, go):
    experiment = make_experiment(questions=70)
    some = {**experiment, "questions": {**experiment["questions"], "subset": 0.6}}
    directory = go(some)
    fewer = judged(directory)
    assert run_status(directory)["complete"]
    assert make_plan(prepare(some, directory.parent), directory).totals()["calls"] == 0
    found = analysed(directory)
    page = write_report(found, None, directory / "report.html").read_text(encoding="utf-8")
    assert "judged questions</small>" in page
    assert "a race compares" not in page
    go(experiment)
    assert fewer < judged(directory)
    whole = analysed(directory)
    wanted = {(b.rewarder, b.rule): b for b in whole.best_of_n}
    for b in found.best_of_n:
        full = wanted[b.rewarder, b.rule]
        assert (b.estimated is None) == (b.rule in ("baseline", "majority"))
        assert full.estimated is None
        if b.rule == "baseline":
            assert b.accuracy == full.accuracy
            continue
        assert b.accuracy.n == b.estimated < 70
        assert b.accuracy.low <= full.accuracy.value <= b.accuracy.high
        assert b.curve[0].accuracy == full.curve[0].accuracy


def test_a_raced_subset_says_what_each_n_rests_on(make_experiment, go):
    experiment = harder(make_experiment(questions=60))
    race = {"design": "race", "complete": 0.4}
    questions = {**experiment["questions"], "subset": 0.7}
    found = analysed(go({**experiment, "questions": questions, "judging": race}))
    (raced,) = [b for b in found.best_of_n if b.rule == "round_robin"]
    fewer, more = raced.curve[1].estimated, raced.estimated
    assert fewer < more
    (reason,) = {r.reason for r in found.rules if r.rule == "round_robin"}
    assert reason.startswith(f"estimated at n = 2 to 6 from {fewer} and at n = 7 from {more} of ")


def test_a_race_that_was_killed_goes_on_as_if_it_had_not_been(make_experiment, go):
    experiment = {**harder(make_experiment(questions=20)), "judging": RACE}
    whole = judged(go(experiment))
    directory = go(experiment, out="killed")
    change(directory, "DELETE FROM judgements WHERE item < '8'")  # what was in flight: whole items
    assert not run_status(directory)["complete"]
    go(experiment, out="killed")
    assert judged(directory) == whole
    wanted = accuracies(analysed(directory))
    change(directory, "DELETE FROM judgements WHERE key < '5'")  # any rows at all
    assert not run_status(directory)["complete"]
    go(experiment, out="killed")
    assert run_status(directory)["complete"]
    assert accuracies(analysed(directory))["judge", "round_robin", 7] == pytest.approx(
        wanted["judge", "round_robin", 7], abs=1e-12
    )


def test_a_race_goes_on_as_all_pairs_and_back(make_experiment, go):
    experiment = harder(make_experiment(questions=20))
    directory = go({**experiment, "judging": RACE})
    raced = judged(directory)
    go(experiment)
    assert raced < judged(directory)
    assert "copeland" in {r.rule for r in analysed(directory).rules if r.supported}
    go({**experiment, "judging": RACE})
    assert run_status(directory)["complete"]
