"""The Rasch model: against enumeration of every pattern, and against simulations."""

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, special

from bon.analysis.auditing.rasch import abilities, elementary, sample


def simulate(rng, items, ability, spread=1.0, missing=0.0):
    difficulty = rng.normal(0, spread, items)
    p = special.expit(ability - difficulty[:, None])
    right = (rng.random(p.shape) < p).astype(float)
    right[rng.random(p.shape) < missing] = np.nan
    return right, difficulty


@given(st.lists(st.floats(0, 5), min_size=1, max_size=7))
def test_elementary_symmetric_functions(numbers):
    x = np.array(numbers)
    expected = [
        sum(np.prod([x[k] for k in chosen]) for chosen in combinations(range(len(x)), t))
        for t in range(len(x) + 1)
    ]
    assert elementary(x) == pytest.approx(expected)


def log_likelihood(theta, right):
    """Conditional on each item's total, by going through every pattern with that total."""
    found = 0.0
    for asked in np.unique(np.isfinite(right), axis=0):
        rows = right[(np.isfinite(right) == asked).all(axis=1)][:, asked]
        patterns = np.array(list(product((0, 1), repeat=asked.sum())))
        worth = patterns @ theta[asked]
        for total in range(len(theta) + 1):
            same = worth[patterns.sum(axis=1) == total]
            these = rows[rows.sum(axis=1) == total]
            if len(these):
                found += (these @ theta[asked]).sum() - len(these) * special.logsumexp(same)
    return found


@pytest.mark.parametrize("missing", [0.0, 0.15])
def test_abilities_are_those_of_the_enumerated_likelihood(missing):
    rng = np.random.default_rng(5)
    right, _ = simulate(rng, 60, np.array([-1.0, -0.3, 0.2, 0.4, 1.2]), missing=missing)
    found = abilities(right)

    def loss(free):
        return -log_likelihood(np.array([*free, -sum(free)]), right)

    best = optimize.minimize(loss, np.zeros(4), method="BFGS", options={"gtol": 1e-6})
    assert found == pytest.approx([*best.x, -sum(best.x)], abs=2e-4)
    assert found.sum() == pytest.approx(0, abs=1e-9)


def test_abilities_are_recovered():
    truth = np.linspace(-1.2, 1.2, 10)
    found = [
        abilities(simulate(np.random.default_rng(seed), 200, truth, spread=1.5)[0])
        for seed in range(60)
    ]
    assert np.mean(found, axis=0) == pytest.approx(truth, abs=0.1)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.permutations(range(8)))
def test_order_of_rewarders_and_items_does_not_matter(seed, order):
    rng = np.random.default_rng(seed)
    right, _ = simulate(rng, 80, np.linspace(-1, 1, 8))
    found = abilities(right)
    turned = abilities(rng.permutation(right)[:, list(order)])
    assert turned == pytest.approx(found[list(order)], abs=1e-7)
    turned_over = abilities(1 - right)
    assert turned_over == pytest.approx(-found, abs=1e-7)


def test_where_the_likelihood_has_no_maximum():
    rng = np.random.default_rng(1)
    right, _ = simulate(rng, 100, np.zeros(8))
    right[:, 0] = 1
    assert abilities(right) is None, "right everywhere"
    right, _ = simulate(rng, 100, np.zeros(8))
    right[:, :2] = np.maximum(right[:, :2], right[:, 2:].max(axis=1, keepdims=True))
    assert abilities(right) is None, "two are right wherever another is"
    assert abilities(np.ones((5, 8))) is None, "nothing differs"


def test_draws_keep_totals_and_follow_the_model():
    ability = np.array([-1.0, 0.0, 0.5, 1.5])
    right = np.array([[1, 0, 0, 1], [0, 0, 0, 1], [1, np.nan, 1, 0], [1, 1, 1, 1]])
    drawn = sample(ability, right, 20_000, np.random.default_rng(0))
    assert (np.nansum(drawn, axis=2) == np.nansum(right, axis=1)).all()
    assert (np.isnan(drawn) == np.isnan(right)).all()
    patterns = [p for p in product((0, 1), repeat=4) if sum(p) == 2]
    weight = np.exp(np.array(patterns) @ ability)
    for pattern, expected in zip(patterns, weight / weight.sum(), strict=True):
        seen = (drawn[:, 0] == np.array(pattern)).all(axis=1).mean()
        assert seen == pytest.approx(expected, abs=0.015)
