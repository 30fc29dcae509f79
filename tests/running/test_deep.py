"""`judging.deep`: more candidates on a share of the questions, and how far n may go."""

import numpy as np
import pytest

from bon.analysis.estimators.depth import peak_of
from bon.analysis.estimators.resampling import draw
from bon.core.errors import BonError
from bon.planning.plan import make_plan
from bon.running.reporting import open_run, read_results, report_run
from bon.storage.store import Store
from bon.work.completeness import completeness
from bon.work.judging_scope import drawn
from bon.work.setup import prepare

DEEP = {"deep": {"n": 12, "share": 0.5}}


def counts(directory):
    """Candidates and judgements by model and question."""
    with Store(directory, readonly=True) as store:
        rows = store.query(
            "SELECT policy, question, COUNT(*) FROM candidates GROUP BY 1, 2 UNION ALL "
            "SELECT rewarder, item, COUNT(DISTINCT first) FROM judgements "
            "WHERE item_kind = 'question' GROUP BY 1, 2"
        )
    return {(model, item): count for model, item, count in rows}


def test_a_share_of_the_questions_gets_more_candidates(make_experiment, go):
    experiment = make_experiment(questions=24)
    shallow = go(experiment, out="shallow")
    before = counts(shallow)
    report_run(shallow, quiet=True)
    directory = go({**experiment, "judging": DEEP}, out="shallow")
    after = counts(directory)
    policy, n = experiment["policies"][0]["name"], experiment["policies"][0]["n"]
    deep = {q for model, q in after if model == policy and drawn(q, 0.5)}
    assert 0 < len(deep) < 24
    for (model, item), count in after.items():
        if model == policy:
            assert count == (12 if item in deep else n)
        elif model == "judge":  # compares pairs, and stays at n
            assert count == before[model, item]
        else:
            assert item in deep or count == before[model, item]
    with Store(directory, readonly=True) as store:
        setup = open_run(store)
        assert completeness(setup, store).complete
    again = prepare({**experiment, "judging": DEEP}, directory.parent)
    assert make_plan(again, directory).totals()["calls"] == 0
    results = read_results(shallow)
    page = report_run(directory, quiet=True)
    found = read_results(directory)
    for b, c in zip(results.best_of_n, found.best_of_n, strict=True):
        if b.rule != "weighted_vote":  # its unit is the spread of all scores that there are
            assert b.accuracy == c.accuracy
    curves = {c.rewarder: c for c in found.depth}
    assert set(curves) == {"critic", "head", "majority"}
    for c in curves.values():
        assert [p.n for p in c.points] == [1, 2, 4, 8, 12]
        assert c.num_questions == len(deep)
    assert "How far n may go" in page.read_text("utf-8")
    assert (directory / "tables" / "depth_points.csv").is_file()


def test_a_plan_counts_them(make_experiment, tmp_path):
    experiment = make_experiment(questions=24)
    plans = [
        make_plan(prepare({**experiment, "judging": judging}, tmp_path)) for judging in ({}, DEEP)
    ]
    works = [{w.name: w.on_questions for w in plan.work} for plan in plans]
    n = experiment["policies"][0]["n"]
    more = {name: works[1][name] - count for name, count in works[0].items() if name != "judge"}
    assert set(more.values()) == {12 * (12 - n)}
    assert works[0]["judge"] == works[1]["judge"]


def test_a_rewarder_of_pairs_cannot_go_deep(make_experiment, tmp_path):
    judging = {"deep": {"n": 12, "rewarders": ["judge"]}}
    with pytest.raises(BonError, match=r"judging\.deep.*'judge' is no rewarder.*critic, head"):
        prepare({**make_experiment(), "judging": judging}, tmp_path)


def test_beyond_the_limit_accuracy_falls_in_95_of_100_fresh_pools():
    """Questions whose highest-scored candidates are wrong from n = 8 on; the truth is known."""
    rng = np.random.default_rng(3)
    ns = np.array([1, 2, 4, 8, 16, 32, 64])

    def population(rise, size):
        shift = rng.normal(scale=0.08, size=(size, 1))
        means = np.array([0.48, 0.52, 0.55, 0.56, 0.55, 0.53, 0.51]) if not rise else (
            np.array([0.48, 0.50, 0.52, 0.54, 0.55, 0.56, 0.565])
        )  # fmt: skip
        chance = np.clip(means + shift, 0, 1)
        noise = rng.random((size, 1)) * 0.5 + rng.random((size, len(ns))) * 0.5
        return (noise < chance).astype(float)

    for rise, true in ((False, 8), (True, 64)):
        held = 0
        for k in range(200):
            values = population(rise, 120)
            drawn = draw(len(values), 300, k, "questions").means(values).astype(float)
            _, most = peak_of(ns, values.mean(axis=0), drawn, 0.95, len(values))
            held += (most or 64) >= true
        assert held >= 190, rise
