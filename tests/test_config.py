import pytest

from bon.core.errors import BonError
from bon.core.validation import validate
from bon.experiment.config import Experiment, RewarderCard
from bon.experiment.overrides import apply_overrides
from bon.experiment.yamlfile import load_yaml


def experiment(**changes):
    return {"questions": {"benchmark": "mmmu_pro"}, "policies": ["x"], **changes}


def test_missing_key_says_which():
    with pytest.raises(BonError, match="'questions' is missing"):
        validate(Experiment, {"policies": ["x"]}, "e.yaml")


def test_what_is_not_judged_is_one_setting():
    judged = [
        validate(Experiment, experiment(judging=judging), "e.yaml").judging.skip
        for judging in ({}, {"skip": "unanimous"}, {"skip": "nothing"})
    ]
    assert judged == ["constant", "unanimous", "nothing"]
    with pytest.raises(BonError, match="skip: found 'all', expected one of constant, unanimous"):
        validate(Experiment, experiment(judging={"skip": "all"}), "e.yaml")


@pytest.mark.parametrize(
    ("pattern", "why"), [("Answer (", "not a regular expression"), ("Answer", "exactly one")]
)
def test_a_rule_that_does_not_compile_is_refused(pattern, why):
    card = {"name": "x", "kind": "pairwise", "verdict": {"pattern": pattern}}
    with pytest.raises(BonError, match=why):
        validate(RewarderCard, card, "card.yaml")


def test_yes_and_no_are_words():
    assert load_yaml("{yes: [Yes], no: [No], on: true}") == {
        "yes": ["Yes"],
        "no": ["No"],
        "on": True,
    }


def test_overrides_reach_into_mappings_and_lists():
    data = experiment(judging={"design": "all_pairs"})
    changed = apply_overrides(data, ["judging.design=knockout", "policies.0=y", "seed=3"])
    assert changed["judging"] == {"design": "knockout"}
    assert changed["policies"] == ["y"]
    assert changed["seed"] == 3
    assert data["policies"] == ["x"]


def test_keys_may_be_set_beside_a_card_that_is_named():
    named = {"policies": ["mini-policy-a", "mine.yaml"], "name": "x"}
    assert apply_overrides(named, ["policies.0.n=16", "policies.1.sampling.top_k=5"]) == {
        "policies": [
            {"card": "mini-policy-a", "n": 16},
            {"card": "mine.yaml", "sampling": {"top_k": 5}},
        ],
        "name": "x",
    }


@pytest.mark.parametrize("bad", ["seed", "policies.7=x", "policies.first=x", "seed.deep=1"])
def test_overrides_that_cannot_be_made_are_refused(bad):
    with pytest.raises(BonError, match="--set"):
        apply_overrides({**experiment(), "seed": 0}, [bad])
