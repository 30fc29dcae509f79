"""Cost of choosing by the benchmark: against plain loops, enumeration and known truth."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import analyse, synthetic_tables

from bon.analysis.correlation.paired_accuracies import Label, Measured
from bon.analysis.decision import regret
from bon.analysis.estimators.resampling import draw, from_draws
from bon.analysis.results import Options

LABEL = Label("policy", "benchmark", "macro", primary=True)


def measured(right: np.ndarray, x: np.ndarray, spread: float = 0.02, draws: int = 500) -> Measured:
    """Rewarders whose choices are `right` (Q, R), with benchmark scores of a known error."""
    q, r = right.shape
    rng = np.random.default_rng(3)
    half = np.argsort(rng.random((40, q)), axis=1) < q // 2
    halves = np.stack([(right.T @ s.T) / s.sum(axis=1) for s in (half, ~half)])
    y_draws = draw(q, draws, 0, "questions").means(right)
    x_draws = (x[:, None] + spread * rng.normal(size=(r, draws))).astype(np.float32)
    y = right.mean(axis=0)
    return Measured(
        tuple(f"r{i}" for i in range(r)), x, y,
        tuple(from_draws(x, x_draws, 100, "pairs", 0.95)),
        tuple(from_draws(y, y_draws, q, "questions", 0.95)),
        x_draws, y_draws, halves,
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


def test_the_loss_is_cross_fitted_as_a_plain_loop_would(one):
    made = regret.decide(LABEL, one, Options())
    halves = one.y_halves
    for listed, own in zip(made.shortlists, ([2], [2, 3], [2, 3, 1]), strict=True):
        lost = []
        for s in range(halves.shape[2]):
            for a, b in ((0, 1), (1, 0)):
                found, tested = halves[a, :, s], halves[b, :, s]
                every = tested[found == found.max()].mean()
                mine = tested[own][found[own] == found[own].max()].mean()
                lost.append(every - mine)
        assert listed.loss.value == pytest.approx(max(np.mean(lost), 0))
        assert listed.rewarders == tuple(f"r{i}" for i in own)
        assert listed.by_chance == len(own) / 5
    assert made.picks == ("r2",)
    assert made.picked == one.y_estimates[2]
    assert made.available == pytest.approx(made.picked.value + made.shortlists[0].loss.value)
    assert made.best == (f"r{one.y.argmax()}",)
    assert one.y.max() >= made.available, "the highest of several is too high"


def test_how_often_the_best_is_on_the_list_is_counted(one):
    made = regret.decide(LABEL, one, Options())
    for listed in made.shortlists:
        hits = 0.0
        for x, y in zip(one.x_draws.T.astype(float), one.y_draws.T.astype(float), strict=True):
            best = np.flatnonzero(y == y.max())
            first = np.argsort(-x)[: listed.size]  # these scores do not tie
            hits += np.isin(best, first).mean()
        assert listed.holds_best == pytest.approx(hits / one.x_draws.shape[1], abs=0.03)
    found = [s.holds_best for s in made.shortlists]
    assert found == sorted(found)


@pytest.mark.parametrize(
    ("rates", "own"),
    [
        (np.full(8, 0.5), [0]),
        (np.array([0.4, 0.55, 0.55, 0.55, 0.55, 0.55]), [0]),
        (np.linspace(0.4, 0.6, 8), [4, 2]),
    ],
    ids=["all alike", "below many alike", "a shortlist"],
)
def test_the_interval_covers_the_true_loss(rates, own):
    rng = np.random.default_rng(5)
    true = rates.max() - rates[own].max()
    covered, values, naive = [], [], []
    for _ in range(120):
        m = measured(choices(rates, 120, rng), np.linspace(0, 1, len(rates)))
        low, high = regret._bounds(m.y, m.y_draws, np.eye(len(rates))[own], 0.95)
        covered.append(low <= true + 1e-9 <= high + 2e-9)
        values.append(regret._gain_over(m.y_halves, m.y_halves[:, own]))
        naive.append(m.y.max() - m.y[own].max())
    assert np.mean(covered) >= 0.92, "95 in 100, less three standard errors"
    assert np.mean(values) <= true + 3 * np.std(values) / np.sqrt(len(values))
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
    everyone = np.eye(rewarders)
    assert regret._gain_over(m.y_halves, m.y_halves) == 0
    assert regret._bounds(m.y, m.y_draws, everyone, 0.95) == (0, 0)
    turned = regret.decide(LABEL, m.keep(np.arange(rewarders)[::-1]), Options())
    assert turned.shortlists[0].loss.value == pytest.approx(made.shortlists[0].loss.value)
    assert turned.blind.high == pytest.approx(made.blind.high)


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
        assert "The choice loses" in d.sentence
        assert "a random rewarder loses" in d.sentence
