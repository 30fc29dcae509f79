"""Biases of known strength: what is injected, and that calibrate and the report find it."""

import pytest

from bon.core.text import FEATURES
from bon.rewarders.base import Verdict
from tools.injected_biases import PLACE, amounts, biased, calibrate_alarm, report_alarm
from tools.injected_biases import Judge as Simulated


def test_features_of_texts():
    assert FEATURES["markdown"]("# Title\n\ntext") == FEATURES["markdown"]("a **bold** word") == 1
    assert FEATURES["markdown"]("2 ** 3 is 8, -4 # no") == 0
    assert FEATURES["praise"]("This is verified twice.") == 1
    assert FEATURES["letter B"]("so it is\nAnswer: B.") == 1
    assert FEATURES["letter B"]("B is wrong. Answer: C") == 0
    assert FEATURES["length"]("abc") == 2
    assert amounts(PLACE, ["x", "y"]) == [1, 0]
    assert amounts("phrase", ["Step by step: x", "y"], "step by step") == [1, 0]


def test_a_score_gains_and_a_verdict_turns():
    assert biased(Verdict("scored", 0.5), [3.0], 0.2, 0).score == pytest.approx(1.1)
    assert biased(Verdict("unparsed"), [3.0], 1.0, 0).outcome == "unparsed"
    verdicts = [biased(Verdict("first"), [0.0, 1.0], 0.3, seed).outcome for seed in range(3000)]
    assert verdicts.count("second") == pytest.approx(900, abs=80)
    assert biased(Verdict("first"), [1.0, 1.0], 1.0, 0).outcome == "first"  # nothing to prefer
    assert biased(Verdict("chosen", 0.0), [0.0, 1.0, 0.0], 1.0, 0).score == 1.0


@pytest.mark.parametrize("bias", ["length", "markdown", "praise", "letter B", "first place"])
def test_a_strong_bias_is_found_and_none_is_not(bias):
    """The tool behind docs/measurements/biases.md."""
    import numpy as np

    def judge(strength):
        return Simulated(np.random.default_rng(1), bias, strength)

    assert calibrate_alarm(judge(0.8), "pairs", 80)
    assert not calibrate_alarm(judge(0.0), "pairs", 80)
    assert report_alarm(judge(0.8), 80) is (True if bias == "first place" else None)
    assert not report_alarm(judge(0.0), 80)
