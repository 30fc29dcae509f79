"""Means over all questions from a random sample of judged ones: unbiased, and intervals hold."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bon.analysis.estimators.replay import Drawn
from bon.analysis.estimators.resampling import draw, from_draws

QUESTIONS = 300


def world(seed):
    """Pass rates of questions, a third of them constant, and whether a judge's choice is right."""
    rng = np.random.default_rng(seed)
    rate = rng.integers(0, 9, QUESTIONS) / 8
    rate[: QUESTIONS // 3] = np.round(rate[: QUESTIONS // 3])
    vote = (rng.random(QUESTIONS) < rate**2 / (rate**2 + (1 - rate) ** 2)).astype(float)
    right = (rng.random(QUESTIONS) < 0.15 + 0.7 * rate).astype(float)
    sure = (rate == 0) | (rate == 1)
    return np.where(sure, rate, right), sure, np.stack([rate, vote], axis=1)


def sampled(values, sure, known, drawn, covariates=True):
    columns = known if covariates else known[:, :0]
    sample = Drawn(drawn, sure, columns)
    hidden = np.where(sure | drawn, values, np.nan)[:, None]
    return sample.spread(hidden)[:, 0]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_a_sample_of_all_questions_is_their_mean(seed, covariates):
    values, sure, known = world(seed)
    z = sampled(values, sure, known, np.ones(QUESTIONS, dtype=bool), covariates)
    assert z.mean() == pytest.approx(values.mean(), abs=1e-12)
    assert np.isfinite(z).all()


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.15, 0.9))
def test_unsure_questions_only_matter_when_drawn(seed, share):
    values, sure, known = world(seed)
    drawn = np.random.default_rng(seed).random(QUESTIONS) < share
    z = sampled(values, sure, known, drawn)
    assert (z[sure] == values[sure]).all()
    other = np.where(sure | drawn, values, 1 - values)
    assert (z == sampled(other, sure, known, drawn)).all()


@pytest.mark.parametrize("covariates", [True, False])
def test_unbiased_with_intervals_that_cover(covariates):
    """400 samples of a third of 300 questions; the interval is for this mean and its population."""
    truth, found, covered = [], [], []
    draws = draw(QUESTIONS, 300, 0, "questions")
    for seed in range(400):
        values, sure, known = world(seed)
        drawn = np.random.default_rng([seed, 1]).random(QUESTIONS) < 1 / 3
        z = sampled(values, sure, known, drawn, covariates)
        (one,) = from_draws(np.array([z.mean()]), draws.means(z[:, None]), 100, "questions", 0.95)
        truth.append(values.mean())
        found.append(z.mean())
        covered.append(one.low <= truth[-1] <= one.high)
    error = np.array(found) - np.array(truth)
    assert abs(error.mean()) < 3 * error.std() / np.sqrt(len(error))
    assert np.mean(covered) > 0.94  # of the mean of these questions; their own luck comes on top


def test_few_questions_are_not_enough():
    _, sure, known = world(0)
    drawn = np.zeros(QUESTIONS, dtype=bool)
    drawn[np.flatnonzero(~sure)[:9]] = True
    assert not Drawn(drawn, sure, known).enough
    drawn[np.flatnonzero(~sure)[9]] = True
    assert Drawn(drawn, sure, known).enough
