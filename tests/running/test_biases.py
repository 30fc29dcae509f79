"""Biases of known strength: what is injected, and that stress and calibrate find it."""

import pytest

from bon.analysis.calibration.calibrate import calibrate
from bon.analysis.results import Options
from bon.core.text import BIASES, FEATURES, PLACE
from bon.rewarders.base import Verdict
from bon.rewarders.biases import amounts, biased
from bon.running.labelled_votes import votes_of
from bon.storage.store import Store
from tools.injected_biases import Judge as Simulated
from tools.injected_biases import calibrate_alarm, stress_alarm


def test_features_of_texts():
    assert FEATURES["markdown"]("# Title\n\ntext") == FEATURES["markdown"]("a **bold** word") == 1
    assert FEATURES["markdown"]("2 ** 3 is 8, -4 # no") == 0
    assert FEATURES["praise"]("This is verified twice.") == 1
    assert FEATURES["letter B"]("so it is\nAnswer: B.") == 1
    assert FEATURES["letter B"]("B is wrong. Answer: C") == 0
    assert FEATURES["length"]("abc") == 2
    assert amounts(PLACE, ["x", "y"]) == [1, 0]
    assert amounts("phrase", ["Step by step: x", "y"], "step by step") == [1, 0]
    assert len(BIASES) == 9


def test_a_score_gains_and_a_verdict_turns():
    assert biased(Verdict("scored", 0.5), [3.0], 0.2, 0).score == pytest.approx(1.1)
    assert biased(Verdict("unparsed"), [3.0], 1.0, 0).outcome == "unparsed"
    verdicts = [biased(Verdict("first"), [0.0, 1.0], 0.3, seed).outcome for seed in range(3000)]
    assert verdicts.count("second") == pytest.approx(900, abs=80)
    assert biased(Verdict("first"), [1.0, 1.0], 1.0, 0).outcome == "first"  # nothing to prefer
    assert biased(Verdict("chosen", 0.0), [0.0, 1.0, 0.0], 1.0, 0).score == 1.0


def test_a_biased_card_of_a_run_is_found_by_calibrate(make_experiment, go):
    experiment = make_experiment(questions=60, judging={"skip": "nothing"})
    critic, head = experiment["rewarders"][1:3]
    experiment["rewarders"] += [
        {**head, "name": "loves-a", "options": {"bias": "letter A", "strength": 5}},
        {**critic, "name": "likes-nothing", "options": {"bias": "phrase", "phrase": "qqq"}},
    ]
    directory = go(experiment)
    with Store(directory, readonly=True) as store:
        rows = store.query(
            "SELECT a.score - b.score, a.first FROM judgements a JOIN judgements b ON a.item = "
            "b.item AND a.first = b.first AND a.second IS NULL "
            "WHERE a.rewarder = 'loves-a' AND b.rewarder = 'head'"
        )
        texts = dict(store.query("SELECT text_key, text FROM candidates"))
    known = [(gap, FEATURES["letter A"](texts[key])) for gap, key in rows if key in texts]
    assert {feature for _, feature in known} == {0.0, 1.0}
    assert [gap for gap, _ in known] == pytest.approx([5 * feature for _, feature in known])
    found = calibrate(votes_of(directory, {}), Options(draws=200), labels="the answer key")
    by = {r.rewarder: {b.feature: b.bias for b in r.biases} for r in found.rewarders
          if r.kind == "answers"}  # fmt: skip
    assert by["loves-a"]["letter A"].low > 0.3
    assert by["head"]["letter A"].low < 0.1


@pytest.mark.parametrize("bias", ["length", "markdown", "praise", "letter B", "first place"])
def test_a_strong_bias_is_found_and_none_is_not(bias):
    """The tool behind docs/measurements/biases.md."""
    import numpy as np

    def judge(strength):
        return Simulated(np.random.default_rng(1), bias, strength)

    assert calibrate_alarm(judge(0.8), "pairs", 80)
    assert not calibrate_alarm(judge(0.0), "pairs", 80)
    assert stress_alarm(judge(0.8), 80) is (None if bias in ("letter B", "first place") else True)
    assert not stress_alarm(judge(0.0), 80)
