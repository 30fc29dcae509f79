"""A policy's results do not depend on which other policies the run has, nor on an earlier n."""

import pytest

from bon.analysis.data.arrays import read
from bon.analysis.estimators.depth import depth
from bon.analysis.estimators.picks import choices
from bon.analysis.results import Options
from bon.analysis.run import analyse
from bon.exports.preferences import ranking, with_texts
from bon.running.reporting import open_run, question_views
from bon.storage.store import Store
from bon.work.run_tables import deep_tables, run_tables

QUICK = Options(draws=100, subsets=16)
LISTER = {
    "name": "lister", "kind": "listwise", "engine": "echo", "placement": {"group": "all"},
    "window": 3, "votes": 2, "sampling": {"temperature": 1.0},
    "prompt": {"text": "{{ prompt }} {{ responses }}"}, "score": {"pattern": r"Best: (\d+)"},
    "engine_args": {"accuracy": 0.6, "unparsed_rate": 0.1, "reply": "Best: {choice}"},
}  # fmt: skip
DESIGNS = ["all_pairs", "race", "knockout"]


@pytest.fixture
def study(make_experiment):
    """A rewarder of every kind on 24 questions, whose candidates are letters: policies overlap."""

    def make(*policies, **judging):
        experiment = make_experiment(questions=24, pairs=3)
        (policy,) = experiment["policies"]
        experiment["policies"] = [
            {**policy, "name": name, "n": n, "engine_args": {"accuracy": accuracy}}
            for name, n, accuracy in policies
        ]
        experiment["rewarders"][0]["engine_args"]["accuracy"] = 0.65
        experiment["rewarders"].append(LISTER)
        return {**experiment, "judging": {"skip": "nothing", **judging}}

    return make


A, B, FEWER = ("policy-a", 9, 0.3), ("policy-b", 7, 0.45), ("policy-b", 4, 0.45)


def found(directory, policy="policy-b"):
    """All that a run says of a policy: results, choices, views, exported scores, and how deep."""
    with Store(directory, readonly=True) as store:
        setup = open_run(store)
        run = read(run_tables(setup, store))
        results = analyse(run, QUICK)
        picked = choices(run, results)
        deep = deep_tables(setup, store)
        curves = [] if deep is None else depth(read(deep), QUICK)
        views = list(question_views(setup, store, run, {}))
        (loaded,) = (p for p in setup.policies if p.card.name == policy)
        scores = {
            rewarder: [
                ranking(setup, store, rewarder)(q, with_texts(store, loaded, q))
                for q in store.questions()
            ]
            for rewarder in run.rewarders
        }
    return {
        "results": [b for b in results.best_of_n if b.policy == policy],
        "support": [s for s in results.rules if s.policy == policy],
        "choices": picked[picked["policy"] == policy].to_dict("records"),
        "depth": [c for c in curves if c.policy == policy],
        "views": {v.key: [c for c in v.choices if c.policy == policy] for v in views},
        "scores": scores,
    }


def texts_of(directory, policy):
    with Store(directory, readonly=True) as store:
        return set(
            store.query("SELECT question, text_key FROM candidates WHERE policy = ?", (policy,))
        )


@pytest.mark.parametrize(
    ("design", "deep"),
    [*((design, {}) for design in DESIGNS), ("all_pairs", {"deep": {"n": 12, "share": 0.5}})],
)
def test_a_policy_beside_another_is_as_alone(study, go, design, deep):
    alone = go(study(B, design=design, **deep), out="alone")
    both = go(study(A, B, design=design, **deep), out="both")
    shared = texts_of(both, "policy-a") & texts_of(both, "policy-b")
    assert 24 < len(shared) < len(texts_of(both, "policy-a"))
    expected, results = found(alone), found(both)
    if design == "race":  # which comparisons a race makes depends on those it finds; its value not
        for run in (expected, results):
            rows = [b for b in run["results"] if b.rewarder != "judge"]
            raced = [b.accuracy for b in run["results"] if b.rule == "round_robin"]
            assert raced
            run.clear()
            run.update(rows=rows, raced=raced)
    assert results == expected


def test_what_another_policy_had_judged_changes_no_accuracy(study, go):
    skipped = {"skip": "constant"}
    alone, both = go(study(B, **skipped), out="alone"), go(study(A, B, **skipped), out="both")
    expected, results = (
        # The unit of a weighted vote is the spread of the scores that there are.
        [(b.rewarder, b.rule, b.accuracy) for b in run["results"] if b.rule != "weighted_vote"]
        for run in map(found, (alone, both))
    )
    assert results == expected


@pytest.mark.parametrize("design", ["all_pairs", "knockout"])
def test_fewer_candidates_later_are_as_fewer_from_the_start(study, go, design):
    alone = go(study(FEWER, design=design), out="alone")
    go(study(B, design=design), out="run")
    assert found(go(study(FEWER, design=design), out="run")) == found(alone)


def test_a_design_counts_its_own_comparisons_of_those_that_exist(study, go):
    alone = go(study(B, design="knockout"), out="alone")
    go(study(B), out="run")
    assert found(go(study(B, design="knockout"), out="run")) == found(alone)
