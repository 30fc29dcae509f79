"""Reward-benchmark accuracy: how verdicts become pairs won, and how those are counted."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, special
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


def test_treatments_of_what_is_not_decided():
    codes = np.array([[RIGHT, WRONG, TIE, UNDECIDED, NOT_ASKED]]).T
    share = {}
    for treatment in ("headline", "drop", "wrong", "chance"):
        w = sets.worth_of(codes, treatment, OPTIONS)
        share[treatment] = (w.num.sum(), w.den.sum())
    assert share == {"headline": (1.5, 4), "drop": (1, 2), "wrong": (1, 4), "chance": (2, 4)}


def test_official_scoring_needs_more_than_half_of_all_votes():
    counts = np.zeros((3, 2, 4), dtype=int)
    counts[0, 0] = [3, 1, 0, 1]
    counts[1, 0] = [2, 1, 0, 2]
    counts[2, 1] = [0, 3, 0, 2]
    assert verdicts.official_code(counts).tolist() == [RIGHT, UNDECIDED, WRONG]


def test_accuracy_by_votes_is_the_mean_over_all_choices_of_votes():
    counts = np.array([[[3, 1, 1, 0], [0, 0, 0, 0]], [[2, 2, 0, 1], [1, 2, 0, 2]]])
    said = Verdicts(verdicts.code_of(counts.sum(axis=1)), counts, None, {})
    kinds = [np.repeat([1, -1, 0, 9], counts[p, o]) for p in range(2) for o in range(2)]
    for k in (1, 2, 3, 5):
        found = verdicts.code_chances(said, np.zeros(2, dtype=int), k, 0)
        for p in range(2):
            expected = np.zeros(4)
            choices = [
                list(combinations(v.tolist(), min(k, len(v)))) for v in kinds[2 * p : 2 * p + 2]
            ]
            for a in choices[0]:
                for b in choices[1]:
                    votes = [v for v in a + b if v != 9]
                    net = sum(votes)
                    code = (
                        UNDECIDED if not votes else RIGHT if net > 0 else WRONG if net < 0 else TIE
                    )
                    expected[code] += 1 / len(choices[0]) / len(choices[1])
            assert found[p] == pytest.approx(expected, abs=1e-12)


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
        assert result.overall_from_groups == pytest.approx(result.overall.value)
        assert result.overall_agrees


@pytest.mark.parametrize("treatment", ["headline", "drop", "wrong", "chance"])
@pytest.mark.parametrize(
    "kinds", [(WRONG, RIGHT), (WRONG, RIGHT, TIE, UNDECIDED), (WRONG, RIGHT, NOT_ASKED)]
)
def test_draws_of_each_rewarder_are_those_it_has_alone(results, treatment, kinds):
    _, pairs, _ = results
    codes = np.random.default_rng(0).choice(kinds, (len(pairs.frame), 4))
    worth = sets.worth_of(codes, treatment, OPTIONS)
    found = sets.axes(pairs, worth)["overall"]
    counts = pairs.draws.counts.astype(float)
    for r in range(4):
        alone = (counts @ worth.num[:, r]) / (counts @ worth.den[:, r])
        assert found.draws[r] == pytest.approx(alone, abs=1e-6)


@pytest.mark.parametrize("rest", [RIGHT, TIE, UNDECIDED, NOT_ASKED])
def test_every_treatment_counts_as_it_says(results, rest):
    """Also where it changes only what a pair counts, or only what it counts for, or nothing."""
    _, pairs, _ = results
    code = np.random.default_rng(rest + 1).choice([WRONG, RIGHT, rest], len(pairs.frame))
    judge = benchmark_results(pairs, {"judge": Verdicts(code, None, None, {"tie": 1})}, OPTIONS)[0]
    for treatment in ("drop", "wrong", "chance"):
        told = next(s for s in judge.sensitivity if s.treatment == treatment)
        worth = sets.worth_of(code[:, None], treatment, OPTIONS)
        groups = [pairs.group == g for g in range(len(pairs.groups))]
        expected = np.mean([worth.num[g].sum() / worth.den[g].sum() for g in groups])
        assert told.macro.value == pytest.approx(expected)


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


def test_votes_curve_ends_at_the_headline(results):
    found, _, _ = results
    assert found["rewarder-00"].votes[-1].macro.value == pytest.approx(
        found["rewarder-00"].macro.value
    )


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


def test_length_controlled_accuracy_is_logistic_regression(results):
    found, pairs, said = results
    gap = sets.length_gap(pairs.frame)
    x, code = np.tanh(gap / gap.std()), said["rewarder-01"].code
    y = (code == RIGHT) + 0.5 * (code == TIE)

    def loss(beta):
        return -(y * (z := beta[0] + beta[1] * x) - np.logaddexp(0, z)).sum()

    best = optimize.minimize(loss, [0, 0], method="Nelder-Mead", options={"xatol": 1e-9})
    controlled = found["rewarder-01"].length_controlled
    assert controlled.value == pytest.approx(special.expit(best.x[0]), abs=1e-5)
    assert found["longest"].length_controlled is None  # separated
    low, high = special.logit([controlled.low, controlled.high])
    p = special.expit(best.x[0] + best.x[1] * x)
    design = np.stack([np.ones_like(x), x], axis=1)
    model = np.linalg.inv((design.T * (p * (1 - p))) @ design)[0, 0] ** 0.5
    assert (high - low) / (2 * 1.959964) == pytest.approx(model, rel=0.1)


def test_length_control_undoes_a_preference_for_length(results):
    _, pairs, _ = results
    rng = np.random.default_rng(3)
    gap = sets.length_gap(pairs.frame)
    chance = special.expit(0.8 + 2 * np.tanh(gap / gap.std()))
    codes = np.where(rng.random((len(gap), 400)) < chance[:, None], RIGHT, WRONG)
    judges = {str(j): Verdicts(code, None, None, {}) for j, code in enumerate(codes.T)}
    controlled = [b.length_controlled for b in benchmark_results(pairs, judges, OPTIONS)]
    covered = np.mean([e.low < special.expit(0.8) < e.high for e in controlled])
    assert 0.92 <= covered <= 0.98
