"""Selection rules against plain loops, and the ways in which they must not depend on things."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bon.choosing.opinion import Candidates, Opinion, item_opinion, no_opinion
from bon.choosing.replaying import Trial
from bon.choosing.rules import RULES, Rule, pick, rules_for
from bon.choosing.tallies import tied_best, vote_weights
from bon.choosing.tournaments import bracket
from tests.choosing.opinions import complete, judgement, matrices, preferring, scoring

settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


def best_of(values: list[float]) -> list[float]:
    """Uniform over the largest, by a plain loop."""
    top = [i for i, v in enumerate(values) if abs(v - max(values)) < 1e-9]
    return [1 / len(top) if i in top else 0.0 for i in range(len(values))]


# ------------------------------------------------------------------ scores and votes


def test_ties_are_shared_and_missing_scores_never_win():
    scores = np.array([[1.0, 3.0, 3.0, np.nan], [np.nan] * 4, [np.nan, -5.0, np.nan, np.nan]])
    assert tied_best(scores).tolist() == [[0, 0.5, 0.5, 0], [0.25] * 4, [0, 1, 0, 0]]


def test_a_subset_is_chosen_from_only():
    allowed = np.array([False, True, True])
    assert tied_best(np.array([5.0, 1.0, 2.0]), allowed).tolist() == [0, 0, 1]


@given(
    arrays(np.int64, 6, elements=st.integers(-1, 3)),
    arrays(float, 6, elements=st.sampled_from([0.0, 1.0, 2.0, np.nan])),
)
def test_weighted_vote_is_a_count_of_weights(answers, scores):
    totals: dict[int, float] = {}
    for a, s in zip(answers.tolist(), scores.tolist(), strict=True):
        if a >= 0:
            totals[a] = totals.get(a, 0.0) + (0.0 if np.isnan(s) else np.exp(s / 0.5))
    expected = np.zeros(6)
    if totals:
        leaders = [a for a, t in totals.items() if t > max(totals.values()) * (1 - 1e-9) - 1e-12]
        for leader in leaders:
            gave = [i for i in range(6) if answers[i] == leader]
            expected[gave] = 1 / len(leaders) / len(gave)
    else:
        expected[:] = 1 / 6
    said = replace(scoring(scores, answers), scale=0.5)
    assert RULES["weighted_vote"].choose(said)[0] == pytest.approx(expected)


def test_majority_needs_no_rewarder():
    about = Candidates.of("q", list("abcd"), ["B", "A", None, "B"])
    assert RULES["majority"].choose(no_opinion(about)).tolist() == [[0.5, 0, 0, 0.5]]


def test_vote_weights_rise_with_the_score_and_do_not_see_the_question():
    scores = np.array([[1.0, 2.0, np.nan], [101.0, 102.0, np.nan]])
    weights = vote_weights(scores, 1.0)
    assert (weights[:, 0] < weights[:, 1]).all()
    assert weights[:, 2].tolist() == [0, 0]
    assert weights[0] == pytest.approx(weights[1])


# ------------------------------------------------------------------ opinions


def test_preferences_average_votes_and_tell_missing_from_undecided():
    rows = [
        judgement("a", "b", "first"),
        judgement("b", "a", "first"),  # the other order disagrees: a tie
        judgement("a", "c", "first"),
        judgement("c", "a", "second"),
        judgement("b", "c", "unparsed"),
        judgement("c", "b", "error"),
        judgement("a", "x", "first"),  # not a candidate here
    ]
    found = item_opinion("preferences", rows, Candidates.of("q", list("abcda")))
    assert found.prefer is not None
    assert found.games is not None
    assert found.prefer[0, 0].tolist()[:3] == [0.5, 0.5, 1.0]
    assert found.prefer[0, 2, 0] == 0.0
    assert found.prefer[0, 1, 2] == 0.5
    assert np.isnan(found.prefer[0, 0, 3])
    assert found.games[0, 0, :3].tolist() == [0, 2, 2]
    assert found.games[0, 4].tolist() == found.games[0, 0].tolist()  # the same text
    assert found.undecided == pytest.approx(1 / 5)
    assert found.num_judged == 5
    assert not found.complete[0]
    assert found.candidate_scores()[0].tolist()[:3] == [0.75, 0.5, 0.0]
    assert np.isnan(found.candidate_scores()[0, 3])


def test_scores_are_means_and_choices_are_counted():
    rows = [judgement("a", None, "scored", 1.0), judgement("a", None, "scored", 2.0)]
    rows += [judgement("a", None, "unparsed"), judgement("b", None, "unparsed")]
    found = item_opinion("scores", rows, Candidates.of("q", list("aba")))
    assert found.scores is not None
    assert found.scores[0].tolist()[::2] == [1.5, 1.5]
    assert np.isnan(found.scores[0, 1])
    assert found.complete.all()
    assert found.undecided == pytest.approx(1 / 3)
    rows = [judgement("b", None, "chosen", 1.0, ("a", "b")), judgement("a", None, "unparsed")]
    chosen = item_opinion("choices", rows, Candidates.of("q", list("abc")))
    assert chosen.scores is not None
    assert chosen.scores[0].tolist() == [0, 1, 0]


# ------------------------------------------------------------------ preferences


@given(matrices(5))
def test_round_robin_and_copeland_are_sums_over_opponents(prefer):
    for rule, worth in (
        ("round_robin", lambda v: v),
        ("copeland", lambda v: (np.sign(v - 0.5) + 1) / 2),
    ):
        points = [sum(worth(prefer[i, j]) for j in range(5) if j != i) for i in range(5)]
        assert RULES[rule].choose(preferring(prefer))[0] == pytest.approx(best_of(points))


@pytest.mark.parametrize("rule", ["round_robin", "copeland", "weighted_vote"])
def test_a_missing_comparison_is_never_imputed(rule):
    prefer = complete(np.ones((4, 4)))
    prefer[1, 2] = prefer[2, 1] = np.nan
    said = preferring(prefer, [0, 1, 2, 3])
    assert np.isnan(RULES[rule].choose(said)).all()
    assert RULES[rule].choose(said.select_candidates(np.array([0, 1, 3]))).tolist() == [[1, 0, 0]]


# ------------------------------------------------------------------ the table


def test_the_first_rule_of_a_kind_is_its_own():
    kinds = ("scores", "preferences", "choices")
    first = [rules_for(kind)[0].name for kind in kinds]
    assert first == ["best_score", "round_robin", "listwise"]
    assert [rule.name for kind in kinds for rule in [min(rules_for(kind), key=_rank)]] == first


def _rank(rule: Rule) -> int:
    return rule.rank


CHOSEN = {  # of two candidates that agree and a better one that stands alone
    "best_score": [0, 0, 1],
    "listwise": [0, 0, 1],
    "round_robin": [0, 0, 1],
    "copeland": [0, 0, 1],
    "knockout": [0, 0, 1],
    "weighted_vote": [0, 0, 1],
    "majority": [0.5, 0.5, 0],
}


@pytest.mark.parametrize("name", RULES)
def test_every_rule_chooses(name):
    rule, answers = RULES[name], [0, 0, 1]
    for kind in rule.kinds:
        if kind == "preferences":
            said = preferring(np.array([[0.5, 0.5, 0], [0.5, 0.5, 0], [1, 1, 0.5]]), answers)
        else:
            said = replace(scoring(np.array([0.0, 0, 1]), answers), kind=kind, scale=1)
        assert rule.choose(said)[0] == pytest.approx(CHOSEN[name]), kind


@pytest.mark.parametrize("name", RULES)
@settings(max_examples=20)
@given(seed=st.integers(0, 10**6))
def test_the_shares_of_every_rule_add_up_and_move_with_the_candidates(name, seed):
    rng, rule = np.random.default_rng(seed), RULES[name]
    answers, order = rng.integers(-1, 3, 5), rng.permutation(5)
    for kind in rule.kinds:
        if kind == "preferences":
            said = preferring(complete(rng.choice([0.0, 0.5, 1.0], (5, 5))), answers)
        else:
            said = replace(scoring(rng.choice([0.0, 1.0, np.nan], 5), answers), kind=kind, scale=1)
        shares = rule.choose(said)
        assert (shares >= 0).all()
        assert shares.sum() == pytest.approx(1)
        assert rule.choose(said.select_candidates(order)) == pytest.approx(shares[:, order])


def test_a_rule_is_one_entry(monkeypatch):
    """A rule that has only `choose` is replayed at every n, by choosing."""

    def worst(said: Opinion) -> np.ndarray:
        assert said.scores is not None
        return tied_best(-said.scores)

    said = scoring(np.array([3.0, 1.0, 2.0]))
    trial = Trial(said.candidates, np.array([[0.0, 1.0, 0.0]]), 3, 8, 0)
    made = Rule("worst_score", ("scores",), "lowest score", worst).replayed(said, trial)
    assert made is not None
    assert made.ns == (1, 2, 3)
    assert made.values.tolist() == [[pytest.approx(1 / 3), pytest.approx(2 / 3), 1.0]]


# ------------------------------------------------------------------ seeds


def test_choices_belong_to_the_item():
    shares = np.array([0.5, 0.5, 0.0])
    assert pick(shares, "run", "q1") == pick(shares, "run", "q1")
    picks = [pick(shares, "run", f"q{i}") for i in range(400)]
    assert set(picks) == {0, 1}
    assert 150 < picks.count(0) < 250
    assert bracket(["b", "a", "c", "a"], "q") == bracket(["c", "b", "a"], "q")
