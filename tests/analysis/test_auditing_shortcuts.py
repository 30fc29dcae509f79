"""Shortcuts: the AUC and the logistic against brute force; planted and absent shortcuts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from bon.analysis.auditing.shortcuts import (
    FEATURES,
    PENALTY,
    Formed,
    area,
    form_auc,
    form_of,
    weights,
)
from bon.analysis.estimators.resampling import draw, draw_clusters


def formed(seed, pairs=200, planted=0.0, features=6, per_question=1):
    rng = np.random.default_rng(seed)
    difference = rng.normal(size=(pairs, features))
    difference[:, 0] += planted
    return Formed(difference, np.arange(pairs) // per_question)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 3)), min_size=1, max_size=12))
def test_area_is_that_of_every_two_pairs(drawn):
    scores, counts = np.array([*drawn, (1, 1)], dtype=float).T
    repeated = np.repeat(scores, counts.astype(int))
    expected = stats.mannwhitneyu(repeated, -repeated).statistic / len(repeated) ** 2
    assert area(scores, counts) == pytest.approx(expected)
    assert area(-scores, counts) == pytest.approx(1 - expected)


def test_weights_are_those_of_the_penalised_logistic():
    pairs = formed(0, pairs=80, planted=0.7, features=3)
    counts = np.random.default_rng(1).integers(0, 3, (2, 80)).astype(float)
    unit = np.sqrt((pairs.difference**2).mean(axis=0))
    z = pairs.difference / unit
    for row, found in zip(counts, weights(pairs.difference, counts), strict=True):

        def loss(w, row=row):
            return row @ np.logaddexp(0, -z @ w) + PENALTY / 2 * w @ w

        best = optimize.minimize(loss, np.zeros(3), method="BFGS", options={"gtol": 1e-8})
        assert found * unit == pytest.approx(best.x, abs=1e-6)
    constant = np.column_stack([pairs.difference, np.zeros(80)])
    assert (weights(constant, counts)[:, -1] == 0).all(), "a feature in which no pair differs"
    always = weights(np.ones((50, 1)), np.ones((1, 50)))
    assert np.isfinite(always).all(), "separable: the penalty keeps it finite"


def test_a_planted_shortcut_is_found_and_none_invented():
    """The best AUC of one normal feature, d from zero, is Φ(d√2); learned from few, less."""
    for planted, expected in ((0.0, 0.5), (0.5, 0.75)):
        found = []
        for seed in range(8):
            pairs = formed(seed, pairs=150, planted=planted, features=3)
            found.append(form_auc(pairs, draw(150, 100, seed, "pairs"), seed, 0.95))
        assert np.mean([one.value for one in found]) == pytest.approx(expected, abs=0.05)
        assert sum(one.low <= expected <= one.high for one in found) >= 7


def test_pairs_of_one_question_are_held_out_together():
    """Pairs of a question share their form: learned from one of them, the rest are given away."""
    one = np.random.default_rng(0).normal(size=(40, 12))
    pairs = Formed(np.repeat(one, 5, axis=0), np.repeat(np.arange(40), 5))
    clusters = draw_clusters(pairs.question, np.zeros(200, dtype=int), 50, 0, "questions")
    honest = form_auc(pairs, clusters, 0, 0.95)
    assert honest.low < 0.5 < honest.high
    assert honest.n == 40
    apart = form_auc(Formed(pairs.difference, np.arange(200)), clusters, 0, 0.95)
    assert apart.value > honest.value + 0.2
    few = formed(0, pairs=19)
    assert form_auc(few, draw(19, 100, 0, "pairs"), 0, 0.95).value is None


def test_the_form_of_a_response():
    plain = dict(zip(FEATURES, form_of("Three cats"), strict=True))
    assert plain == pytest.approx(
        {
            "log length": np.log(11),
            "markdown": 0,
            "answer line": 0,
            "boxed": 0,
            "lines": 0,
            "digits": 0,
        }
    )
    rich = dict(zip(FEATURES, form_of("# Steps\n- **one**: 12\nAnswer: \\boxed{3}"), strict=True))
    assert rich["answer line"] == rich["boxed"] == 1
    assert rich["markdown"] > np.log(4)
    assert rich["digits"] == pytest.approx(np.log(4))
    assert form_of("")[0] == 0
