"""Cost of choosing by the benchmark: against plain loops, enumeration and known truth."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from synthetic import analyse, synthetic_tables

from bon.analysis.correlation.paired_accuracies import Label, Measured
from bon.analysis.decision import regret
from bon.analysis.estimators.resampling import draw, from_draws
from bon.analysis.results import Options
from tools.validity import verdict_calibration

LABEL = Label("policy", "benchmark", "macro", primary=True)


def measured(right: np.ndarray, x: np.ndarray, spread: float = 0.02, draws: int = 500) -> Measured:
    """Rewarders whose choices are `right` (Q, R), with benchmark scores of a known error."""
    q, r = right.shape
    rng = np.random.default_rng(3)
    y_draws = draw(q, draws, 0, "questions").means(right)
    x_draws = (x[:, None] + spread * rng.normal(size=(r, draws))).astype(np.float32)
    y = right.mean(axis=0)
    return Measured(
        tuple(f"r{i}" for i in range(r)), x, y,
        tuple(from_draws(x, x_draws, 100, "pairs", 0.95)),
        tuple(from_draws(y, y_draws, q, "questions", 0.95)),
        x_draws, y_draws,
    )  # fmt: skip


def choices(rates: np.ndarray, questions: int, rng: np.random.Generator) -> np.ndarray:
    """What rewarders of these accuracies chose; hard questions are hard for all of them."""
    ease = rng.uniform(-0.3, 0.3, (questions, 1))
    return (rng.random((questions, len(rates))) < rates + ease).astype(float)


@pytest.fixture(scope="module")
def one() -> Measured:
    rng = np.random.default_rng(1)
    right = choices(np.array([0.45, 0.5, 0.55, 0.6, 0.65]), 60, rng)
    return measured(right, np.array([0.5, 0.6, 0.8, 0.7, 0.55]))


def exactly(x, y, covariance, deviations):
    """Mean and covariance of the mixture of normal posteriors, by the whole joint covariance."""
    design = np.column_stack([np.ones(len(x)), x])
    weights, means, seconds = [], [], []
    for deviation in deviations:
        prior = deviation**2 * np.eye(len(x)) + 1e3 * design @ design.T  # an almost flat line
        total = prior + covariance
        weights.append(stats.multivariate_normal.logpdf(y, cov=total))
        mean = prior @ np.linalg.solve(total, y)
        means.append(mean)
        seconds.append(prior - prior @ np.linalg.solve(total, prior) + np.outer(mean, mean))
    weights = np.exp(np.array(weights) - max(weights))
    weights /= weights.sum()
    mean = np.tensordot(weights, means, 1)
    return mean, np.tensordot(weights, seconds, 1) - np.outer(mean, mean)


def test_true_accuracies_are_drawn_from_the_posterior(monkeypatch):
    rng = np.random.default_rng(2)
    x, y = rng.random(6), rng.random(6)
    half = rng.normal(size=(6, 6)) * 0.1
    draws = y[:, None] + half @ rng.normal(size=(6, 40_000))
    covariance = np.cov(draws)
    monkeypatch.setattr(regret, "DRAWS", 100_000)
    monkeypatch.setattr(regret, "DEVIATIONS", np.array([0.3, 0.8, 1.6]))
    found = regret.true_accuracies(x, y, draws, 0)
    mean, spread = exactly(x, y, covariance, y.std(ddof=1) * np.array([0.3, 0.8, 1.6]))
    assert found.mean(axis=1) == pytest.approx(mean, abs=0.003)
    assert np.cov(found) == pytest.approx(spread, abs=0.002)


def test_the_loss_is_the_mean_over_true_accuracies(one):
    made = regret.decide(LABEL, one, Options())
    true = regret.true_accuracies(one.x, one.y, one.y_draws, 0)
    for listed, own in zip(made.shortlists, ([2], [2, 3], [2, 3, 1]), strict=True):
        losses = [max(t) - max(t[own]) for t in true.T]
        assert listed.loss.value == pytest.approx(np.mean(losses))
        inside = [listed.loss.low <= v <= listed.loss.high for v in losses]
        assert np.mean(inside) == pytest.approx(0.95, abs=0.001)
        assert listed.holds_best == np.mean([v == 0 for v in losses])
        assert listed.rewarders == tuple(f"r{i}" for i in own)
        assert listed.by_chance == len(own) / 5
    assert made.picks == ("r2",)
    assert made.picked == one.y_estimates[2]
    assert made.best == (f"r{one.y.argmax()}",)
    found = [s.holds_best for s in made.shortlists]
    assert found == sorted(found)


@pytest.mark.parametrize("name", ["5, r = 0.5", "14, r = 0.9"])
def test_the_interval_covers_the_true_loss_as_often_as_it_says(name):
    """All rows: docs/measurements/validity.md; before, .998 of intervals covered it."""
    cell = next(c for c in verdict_calibration.LOSSES if c[0] == name)
    _, _, _, covers, _, loss, value, best, predicted, _ = verdict_calibration.loss_row(
        *cell, 100
    ).split("|")
    assert 0.88 <= float(covers) <= 0.99
    assert float(value) == pytest.approx(float(loss), abs=0.015)
    assert float(predicted) == pytest.approx(float(best), abs=0.1)


@pytest.mark.parametrize(
    ("rates", "own"),
    [
        (np.full(8, 0.5), [0]),
        (np.array([0.4, 0.55, 0.55, 0.55, 0.55, 0.55]), [0]),
        (np.linspace(0.4, 0.6, 8), [4, 2]),
    ],
    ids=["all alike", "below many alike", "a shortlist"],
)
def test_the_interval_covers_the_loss_of_given_rewarders(rates, own):
    rng = np.random.default_rng(5)
    true = rates.max() - rates[own].max()
    covered, values, naive = [], [], []
    for _ in range(120):
        right = choices(rates, 120, rng)
        y, draws = right.mean(axis=0), draw(120, 500, 0, "questions").means(right)
        drawn = regret.true_accuracies(rng.random(len(rates)), y, draws, 0)
        found = regret.loss_from(drawn.max(axis=0) - drawn[own].max(axis=0), 120, 0.95)
        covered.append(found.low <= true + 1e-9 <= found.high + 2e-9)
        values.append(found.value)
        naive.append(y.max() - y[own].max())
    assert np.mean(covered) >= 0.88, "of given rewarders it may be less than on average"
    assert np.mean(naive) > np.mean(values), "the highest as measured is too high"


@given(
    st.lists(st.integers(0, 3), min_size=2, max_size=7), st.integers(1, 3)
)  # few values: many ties
def test_every_shortlist_that_ties_allow_is_tried(scores, size):
    x = np.array(scores, dtype=float)
    size = min(size, len(x) - 1)
    best = sorted(x, reverse=True)[:size]
    expected = {
        own for own in combinations(range(len(x)), size) if sorted(x[list(own)])[::-1] == best
    }
    assert {tuple(sorted(own.tolist())) for own in regret.shortlists(x, size)} == expected


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 6), st.integers(4, 30))
def test_a_loss_is_never_negative_and_its_interval_holds_it(seed, rewarders, questions):
    rng = np.random.default_rng(seed)
    right = (rng.random((questions, rewarders)) < rng.random(rewarders)).astype(float)
    m = measured(right, rng.integers(0, 3, rewarders) / 3, draws=100)
    made = regret.decide(LABEL, m, Options())
    for loss in (made.blind, *(s.loss for s in made.shortlists)):
        assert 0 <= loss.low <= loss.value <= loss.high <= 1
    turned = regret.decide(LABEL, m.keep(np.arange(rewarders)[::-1]), Options())
    assert turned.shortlists[0].loss.value == pytest.approx(made.shortlists[0].loss.value)
    assert turned.blind.high == pytest.approx(made.blind.high)


def test_rewarders_that_chose_the_same_lose_nothing():
    right = np.repeat(choices(np.array([0.6]), 50, np.random.default_rng(0)), 4, axis=1)
    made = regret.decide(LABEL, measured(right, np.array([0.5, 0.6, 0.7, 0.8])), Options())
    assert made.shortlists[0].loss.high < 0.001
    assert made.blind.value < 0.001


def test_rewarders_that_tie_at_the_top_are_all_named(one):
    m = replace(one, x=np.array([0.5, 0.7, 0.8, 0.8, 0.5]))
    made = regret.decide(LABEL, m, Options())
    assert made.picks == ("r2", "r3")
    assert made.picked.value == pytest.approx(m.y[2:4].mean())
    assert made.picked.low < made.picked.value < made.picked.high


def test_without_a_choice_or_anything_to_resample_there_is_no_decision(one):
    assert regret.decide(LABEL, one.keep(np.array([0])), Options()) is None
    assert regret.decide(LABEL, replace(one, y_draws=None), Options()) is None
    unknown = replace(one, x=np.array([0.5, np.nan, np.nan, np.nan, np.nan]))
    assert regret.decide(LABEL, unknown, Options()) is None


def test_a_run_says_what_choosing_by_its_benchmark_costs():
    tables = synthetic_tables(5, 60, 4, 60, policies=("a", "b"))
    results = analyse(tables, draws=200)
    assert [d.policy for d in results.decisions] == ["a", "b"]
    for d in results.decisions:
        c = next(c for c in results.correlations if c.primary and c.policy == d.policy)
        top = max(c.points, key=lambda p: p.x.value)
        assert d.picks == (top.rewarder,)
        assert d.picked == top.y
        assert "the choice loses" in d.sentence
        assert "and a random rewarder" in d.sentence
