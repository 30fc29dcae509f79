"""Coefficients against scipy, intervals against formulas."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from bon.analysis.estimators import resampling

settings.register_profile("patient", deadline=None)
settings.load_profile("patient")

VALUES = arrays(float, 7, elements=st.sampled_from([0.0, 0.1, 0.3, 0.35, 0.8]))


@settings(max_examples=80)
@given(
    arrays(
        float,
        st.tuples(st.integers(1, 3), st.integers(1, 6)),
        elements=st.sampled_from([0.0, -1.0, 0.3, np.inf, np.nan]),
    )
)
def test_ranks_are_scipys(x):
    assert np.array_equal(resampling.ranks(x), stats.rankdata(x, axis=-1), equal_nan=True)
    assert np.array_equal(resampling.ranks(x[0]), stats.rankdata(x[0]), equal_nan=True)


@settings(max_examples=80)
@given(VALUES, VALUES)
def test_coefficients_are_scipys(x, y):
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        assert np.isnan(resampling.pearson_rows(x, y))
        return
    assert resampling.pearson_rows(x, y) == pytest.approx(stats.pearsonr(x, y)[0], abs=1e-12)
    assert resampling.spearman_rows(x, y) == pytest.approx(stats.spearmanr(x, y)[0], abs=1e-12)


def test_wilson_and_fisher():
    found = resampling.wilson(8, 10, 0.95)
    scipys = stats.binomtest(8, 10).proportion_ci(method="wilson")
    assert (found.low, found.high) == pytest.approx((scipys.low, scipys.high))
    x, y = np.arange(8.0), np.array([1, 0, 3, 2, 5, 4, 7, 9.0])
    scipys = stats.pearsonr(x, y).confidence_interval()
    r = float(resampling.pearson_rows(x, y))
    fisher = resampling.fisher(r, 8, 0.95)
    assert (fisher.low, fisher.high) == pytest.approx((scipys.low, scipys.high))
    assert resampling.fisher(0.5, 3, 0.95).low is None


def test_the_jackknife_by_a_plain_loop():
    rng = np.random.default_rng(1)
    x = rng.random(9)
    y = x + rng.normal(0, 0.3, 9)
    z = np.arctanh(stats.pearsonr(x, y)[0])
    without = [np.arctanh(stats.pearsonr(np.delete(x, i), np.delete(y, i))[0]) for i in range(9)]
    error = np.sqrt(8 / 9 * sum((w - np.mean(without)) ** 2 for w in without))
    assert resampling.jackknife(x, y, np.arange(9)) == pytest.approx((z, error))


def test_holm_by_hand():
    assert resampling.holm([0.01, None, 0.04, 0.03]) == pytest.approx([0.03, None, 0.06, 0.06])


def test_draws_are_bootstrap_means_and_the_same_for_every_column():
    draws = resampling.draw(500, 2000, 0, "questions")
    assert (draws.counts.sum(axis=0) == 500).all()
    values = np.random.default_rng(0).random((500, 2))
    means = draws.means(values)
    assert means.std(axis=1) == pytest.approx(values.std(axis=0) / np.sqrt(500), rel=0.06)
    b = 7
    by_hand = np.repeat(values[:, 1], draws.counts[:, b].astype(int)).mean()
    assert means[1, b] == pytest.approx(by_hand, abs=1e-5)
    again = resampling.draw(500, 2000, 0, "questions")
    assert (again.counts == draws.counts).all()
    assert (resampling.draw(500, 2000, 0, "pairs").counts != draws.counts).any()


def test_clusters_are_drawn_whole_and_within_strata():
    clusters = np.array([0, 0, 1, 2, 3, 4])
    strata = np.array([0, 0, 0, 1, 1, 1])
    draws = resampling.draw_clusters(clusters, strata, 500, 0, "x")
    assert (draws.counts[0] == draws.counts[1]).all()
    assert (draws.counts[3:].sum(axis=0) == 3).all()


def test_a_proportion_that_never_moves_still_has_an_interval():
    found = resampling.from_draws(np.array([1.0]), np.ones((1, 50)), 20, "questions", 0.95)[0]
    assert found.method == "wilson"
    assert found.low is not None
    assert found.low < 0.9


@pytest.mark.parametrize("n", [20, 50])
def test_few_questions_have_the_width_of_students_t(n):
    """Percentiles alone are √((n − 1)/n) · z/t too narrow: .92 of .95 at n = 20."""
    values = np.random.default_rng(n).normal(size=n)
    draws = resampling.draw(n, 200_000, 0, "questions").means(values[:, None])
    found = resampling.from_draws(values.mean(keepdims=True), draws, n, "x", 0.95, False)[0]
    student = stats.t(n - 1, values.mean(), stats.sem(values)).interval(0.95)
    assert (found.low, found.high) == pytest.approx(student, abs=0.04)
    narrow = np.quantile(draws, [0.025, 0.975])
    assert found.low < narrow[0] < narrow[1] < found.high


def test_few_clusters_of_many_pairs_are_few():
    draws = np.random.default_rng(0).normal(0.5, 0.1, (1, 2000))
    whole, apart = (
        resampling.from_draws(np.array([0.5]), draws, 200, "pairs", 0.95, units=units)[0]
        for units in (None, 20)
    )
    assert apart.low < whole.low < whole.high < apart.high
    assert apart.n == whole.n == 200


def test_many_questions_keep_their_percentiles():
    draws = np.random.default_rng(0).random((1, 400))
    for n in (None, 100, 1730):
        assert resampling.quantiles(draws, 0.95, n)[0] == pytest.approx(np.quantile(draws, 0.025))


@settings(max_examples=80)
@given(
    arrays(
        st.sampled_from([np.float32, np.float64]),
        st.tuples(st.integers(1, 3), st.integers(1, 60)),
        elements=st.floats(-3, 3, width=32),
    ),
    st.sampled_from([0.5, 0.9, 0.95]),
)
def test_percentiles_are_numpys_to_the_last_bit(draws, level):
    before = draws.copy()
    found = resampling.quantiles(draws, level)
    expected = np.quantile(draws, [(1 - level) / 2, 1 - (1 - level) / 2], axis=-1)
    assert np.array_equal(np.stack(found), expected)
    assert np.array_equal(draws, before)


def test_some_of_the_things_keep_their_draws():
    draws = resampling.draw(30, 50, 0, "questions")
    inside = np.arange(30) % 3 == 0
    assert np.array_equal(draws.of(inside).counts, draws.counts[inside])
    assert draws.of(np.arange(30)) is draws


def test_r_among_some_of_the_points():
    rng = np.random.default_rng(0)
    x, y, keep = rng.random(9), rng.random(9), rng.random((5, 9)) < 0.7
    keep[0] = np.arange(9) == 3
    found = resampling.pearson_among(x, y, keep)
    assert np.isnan(found[0])
    each = [float(resampling.pearson_rows(x[some], y[some])) for some in keep[1:]]
    assert found[1:] == pytest.approx(each, abs=1e-12)


def test_no_interval_where_half_of_the_draws_are_nothing():
    draws = np.array([[np.nan] * 6 + [0.1] * 4, [np.nan] * 4 + [0.1] * 6])
    low, _ = resampling.quantiles(draws, 0.95)
    assert np.isnan(low[0])
    assert low[1] == pytest.approx(0.1)


@pytest.mark.parametrize("gained", [0, 1, 4])
def test_rare_gains_have_the_bounds_of_clopper_and_pearson(gained):
    """30 questions, a whole gain on few of them: the bootstrap alone knows of no others."""
    values = np.zeros((30, 1))
    values[:gained] = 1
    draws = resampling.draw(30, 4000, 0, "questions").means(values)
    (gain,) = resampling.from_draws(
        values.mean(axis=0), draws, 30, "q", 0.95, proportion=False, differing=np.array([gained])
    )
    exact = stats.beta.ppf(0.975, gained + 1, 30 - gained)
    assert gain.high == pytest.approx(exact, abs=0.015)
    assert gain.low < stats.beta.ppf(0.025, gained, 31 - gained) if gained else gain.low < 0
