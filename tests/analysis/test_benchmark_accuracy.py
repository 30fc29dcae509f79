"""Reward-benchmark accuracy: how verdicts become pairs won, and how those are counted."""

import numpy as np
import pandas as pd
import pytest
from synthetic import analyse, synthetic_tables

from bon.analysis.data import verdicts
from bon.analysis.data.arrays import read
from bon.analysis.data.tables import Tables
from bon.analysis.data.verdicts import NOT_ASKED, RIGHT, TIE, UNDECIDED, WRONG, Verdicts
from bon.analysis.estimators import pair_sets as sets
from bon.analysis.estimators.pair_results import benchmark_results
from bon.analysis.estimators.pair_sets import pair_sets
from bon.analysis.results import Options
from bon.core.errors import BonError

OPTIONS = Options(draws=200)


def one_pair(rows: list[tuple[str, str, int, str, float | None]], preferred: int = 0) -> Verdicts:
    """Verdicts on a single pair from rows (first, second, vote, outcome, score)."""
    t = synthetic_tables(num_rewarders=3, num_questions=4, num_candidates=2, num_pairs=1)
    pairs = t.pairs.assign(preferred=preferred, response_0="a", response_1="b")
    judged = pd.DataFrame(rows, columns=["first", "second", "vote", "outcome", "score"])
    judged = judged.assign(
        rewarder="rewarder-00", item_kind="pair", item=pairs["pair"].iloc[0], num_tokens=1,
        seconds=0.0, cost=0.0,
    )  # fmt: skip
    run = read(Tables(t.questions, t.candidates, pairs, judged, t.rewarders))
    return verdicts.verdicts(run.pairs["rewarder-00"], pairs["preferred"].to_numpy())


@pytest.mark.parametrize(
    ("rows", "code"),
    [
        ([("a", "b", 0, "first", None), ("b", "a", 0, "second", None)], RIGHT),
        ([("a", "b", 0, "first", None), ("b", "a", 0, "first", None)], TIE),
        ([("a", "b", 0, "second", None), ("b", "a", 0, "unparsed", None)], WRONG),
        ([("a", "b", 0, "unparsed", None), ("b", "a", 0, "error", None)], UNDECIDED),
        ([("a", "b", 0, "tie", None)], TIE),
        ([("a", None, 0, "scored", 2.0), ("b", None, 0, "scored", 1.0)], RIGHT),
        ([("a", None, 0, "scored", 2.0), ("b", None, 0, "scored", 2.0)], TIE),
        ([("a", None, 0, "scored", 2.0), ("b", None, 0, "unparsed", None)], UNDECIDED),
        ([("b", None, 0, "chosen", 0.0)], WRONG),
        ([("a", None, 0, "scored", 0.0), ("a", None, 1, "scored", 4.0),
          ("b", None, 0, "scored", 1.0), ("b", None, 1, "scored", 1.0)], RIGHT),
        ([("a", "b", 0, "first", None), ("b", "no side", 0, "first", None)], RIGHT),
    ],
)  # fmt: skip
def test_outcomes_are_explicit(rows, code):
    assert one_pair(rows).code.tolist() == [code]
    swapped = {RIGHT: WRONG, WRONG: RIGHT}.get(code, code)
    assert one_pair(rows, preferred=1).code.tolist() == [swapped]


def treated(ties, unparsed):
    return OPTIONS.model_copy(update={"ties": ties, "unparsed": unparsed})


TREATMENTS = [("half", "wrong"), ("drop", "drop"), ("wrong", "wrong"), ("half", "chance")]


def test_treatments_of_what_is_not_decided():
    codes = np.array([[RIGHT, WRONG, TIE, UNDECIDED, NOT_ASKED]]).T
    worths = [sets.worth_of(codes, treated(*kind)) for kind in TREATMENTS]
    assert [(w.num.sum(), w.den.sum()) for w in worths] == [(1.5, 4), (1, 2), (1, 4), (2, 4)]


@pytest.fixture(scope="module")
def results():
    run = read(synthetic_tables(num_rewarders=6, num_questions=5, num_pairs=240))
    pairs = pair_sets(run, OPTIONS)[0]
    said = sets.all_verdicts(run, pairs)
    said["longest"] = sets.baseline_verdicts(pairs.frame, "longest")
    said["random"] = sets.baseline_verdicts(pairs.frame, "random")
    found = benchmark_results(pairs, said, OPTIONS)
    return {r.rewarder: r for r in found}, pairs, said


def test_overall_is_over_pairs_and_macro_over_groups(results):
    found, pairs, said = results
    for name, result in found.items():
        code = said[name].code
        worth = (code == RIGHT) + 0.5 * (code == TIE)
        assert result.overall.value == pytest.approx(worth.mean())
        groups = [worth[pairs.group == g].mean() for g in range(3)]
        assert result.macro.value == pytest.approx(np.mean(groups))
        assert [s.accuracy.value for s in result.groups] == pytest.approx(groups)


@pytest.mark.parametrize("treatment", TREATMENTS)
@pytest.mark.parametrize(
    "kinds", [(WRONG, RIGHT), (WRONG, RIGHT, TIE, UNDECIDED), (WRONG, RIGHT, NOT_ASKED)]
)
def test_draws_of_each_rewarder_are_those_it_has_alone(results, treatment, kinds):
    _, pairs, _ = results
    codes = np.random.default_rng(0).choice(kinds, (len(pairs.frame), 4))
    worth = sets.worth_of(codes, treated(*treatment))
    found = sets.axes(pairs, worth)["overall"]
    counts = pairs.draws.counts.T.astype(float)
    for r in range(4):
        alone = (counts @ worth.num[:, r]) / (counts @ worth.den[:, r])
        assert found.draws[r] == pytest.approx(alone, abs=1e-6)


@pytest.mark.parametrize("rest", [RIGHT, TIE, UNDECIDED, NOT_ASKED])
def test_decided_leaves_out_what_has_no_verdict(results, rest):
    _, pairs, _ = results
    code = np.random.default_rng(rest + 1).choice([WRONG, RIGHT, rest], len(pairs.frame))
    judge = benchmark_results(pairs, {"judge": Verdicts(code, None, {"tie": 1})}, OPTIONS)[0]
    said = (code == RIGHT) | (code == WRONG)
    assert judge.decided.value == pytest.approx((code[said] == RIGHT).mean())


def test_biases_are_seen(results):
    found, _, _ = results
    pairwise = found["rewarder-00"]
    assert pairwise.position_bias.value > 0.02  # the made-up judges favour the first shown
    assert 0.5 < pairwise.consistency.value < 1
    assert found["rewarder-01"].consistency is None
    assert found["longest"].length_bias.value == 1
    assert found["random"].macro.value == 0.5


def test_position_bias_and_consistency_by_hand():
    rows = [("a", "b", 0, "first", None), ("b", "a", 0, "first", None)]
    said = one_pair(rows)
    assert said.counts[0].tolist() == [[1, 0, 0, 0], [0, 1, 0, 0]]


def test_verdicts_each_on_its_own_are_counted_as_mmrb2_counts_them(results):
    found, _, said = results
    for name, result in found.items():
        if said[name].counts is None:
            assert result.per_judgement is None
            continue
        right, wrong, tied, _ = said[name].counts.sum(axis=(0, 1))
        assert result.per_judgement.value == pytest.approx(right / (right + wrong + tied))
        assert result.per_judgement.low < result.per_judgement.value < result.per_judgement.high


def test_acc_plus_counts_clusters_all_of_whose_pairs_are_right():
    t = synthetic_tables(num_rewarders=4, num_questions=4, num_candidates=2, num_pairs=60)
    frame = t.pairs.assign(cluster=[f"c{row // 3}" for row in range(60)])
    results = analyse(
        Tables(t.questions, t.candidates, frame, t.judgements, t.rewarders), draws=200
    )
    run = read(Tables(t.questions, t.candidates, frame, t.judgements, t.rewarders))
    (pairs,) = pair_sets(run, OPTIONS)
    said = sets.all_verdicts(run, pairs)
    for found in results.benchmarks:
        if found.rewarder not in said:
            continue
        right = said[found.rewarder].code == RIGHT
        expected = np.mean([right[at : at + 3].all() for at in range(0, 60, 3)])
        assert found.acc_plus.value == pytest.approx(expected)
        assert found.acc_plus.n == 20
        assert found.acc_plus.low <= expected <= found.acc_plus.high
    assert {b.acc_plus for b in analyse(t, draws=200).benchmarks} == {None}


def test_a_set_counts_where_the_better_response_beats_all():
    t = synthetic_tables(num_rewarders=4, num_questions=4, num_candidates=2, num_pairs=60)
    rng = np.random.default_rng(3)
    named = [f"s{row // 3}" if row < 45 else "" for row in range(59)] + ["alone"]
    weight = rng.uniform(1, 9, 60)
    frame = t.pairs.assign(set=named, weight=weight)
    tables = Tables(t.questions, t.candidates, frame, t.judgements, t.rewarders)
    (pairs,) = pair_sets(read(tables), OPTIONS)
    said = sets.all_verdicts(read(tables), pairs)
    for found in analyse(tables, draws=200).benchmarks:
        if found.rewarder not in said:
            continue
        right = said[found.rewarder].code == RIGHT
        expected = np.mean([right[at : at + 3].all() for at in range(0, 45, 3)])
        assert found.best_of_k.value == pytest.approx(expected)
        assert found.best_of_k.n == 15
        worth = np.select([right, said[found.rewarder].code == TIE], [1.0, 0.5], 0.0)
        assert found.natural.value == pytest.approx(np.average(worth, weights=weight))
        assert found.natural.low < found.natural.value < found.natural.high
    assert {(b.natural, b.best_of_k) for b in analyse(t, draws=200).benchmarks} == {(None, None)}


def test_the_natural_axis_can_be_the_headline():
    t = synthetic_tables(num_rewarders=6, num_questions=40, num_candidates=4, num_pairs=60)
    frame = t.pairs.assign(weight=np.linspace(1, 5, 60))
    tables = Tables(t.questions, t.candidates, frame, t.judgements, t.rewarders)
    results = analyse(tables, draws=200, axis="natural")
    assert results.main.axis == "natural"
    scores = {b.rewarder: b.natural.value for b in results.benchmarks}
    with_leaks = next(c for c in results.correlations if c.axis == "natural" and c.leaks == "in")
    assert all(point.x.value == scores[point.rewarder] for point in with_leaks.points)
    with pytest.raises(BonError, match="no axis 'natural'"):
        analyse(t, draws=200, axis="natural")
