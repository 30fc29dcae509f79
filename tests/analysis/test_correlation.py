"""Correlations: coefficients, intervals, lines, what-if, plans, and bad input."""

import numpy as np
import pytest
from scipy import stats

from bon.analysis.correlation import coefficients as correlation
from bon.analysis.correlation import paired_accuracies as measuring
from bon.analysis.correlation import power
from bon.analysis.correlation.coefficients import correlate
from bon.analysis.correlation.paired_accuracies import Label, Measured
from bon.analysis.estimators import resampling
from bon.analysis.estimators.resampling import draw, number
from bon.analysis.results import Estimate, Options
from bon.analysis.verdict.verdict import Axes, judge

OPTIONS = Options(draws=300)


def measured(x, y, **more) -> Measured:
    known = (tuple(Estimate(value=number(value)) for value in axis) for axis in (x, y))
    names = tuple(f"r{i}" for i in range(len(x)))
    return Measured(names, np.asarray(x, float), np.asarray(y, float), *known, **more)


def label(policy: str = "p", axis: str = "macro") -> Label:
    return Label(policy, "bench", axis, primary=True)


def test_fit_is_least_squares_with_students_intervals():
    rng = np.random.default_rng(1)
    x = rng.random(12)
    y = 0.4 * x + rng.normal(0, 0.05, 12)
    found = correlation.fit(measured(x, y), 0.95)
    line = stats.linregress(x, y)
    assert found.slope.value == pytest.approx(line.slope)
    half = stats.t.ppf(0.975, 10) * line.stderr
    assert found.slope.high == pytest.approx(line.slope + half)
    assert all(b.low < b.y < b.high for b in found.band)


def test_too_few_and_identical_rewarders_give_no_number():
    two = correlate(measured([0.1, 0.2], [0.3, 0.4]), label(), OPTIONS)
    assert two.pearson.estimate.value is None
    assert "too few" in two.pearson.read
    assert two.fit is None
    flat = correlate(measured([0.5] * 5, [0.1, 0.2, 0.3, 0.4, 0.5]), label(), OPTIONS)
    assert flat.spearman.estimate.value is None
    assert "does not vary" in flat.sentence
    missing = correlate(measured([0.1, np.nan, 0.3, 0.5], [0.1, 0.2, 0.2, 0.4]), label(), OPTIONS)
    assert missing.num_rewarders == 3


def test_difference_errors_are_those_of_paired_differences():
    draws = np.random.default_rng(0).normal(size=(3, 5000))
    draws[1] = draws[0] + 0.1 * draws[1]
    found = measuring.difference_errors(draws)
    assert found[0, 1] == pytest.approx((draws[0] - draws[1]).std(ddof=1))
    assert found[0, 1] < found[0, 2]


def test_errors_of_means_are_what_very_many_draws_come_to():
    rng = np.random.default_rng(3)
    for size in (40, 300):
        values = (rng.random((size, 4)) < 0.6) + 0.3 * rng.random((size, 1))
        drawn = draw(size, 60_000, 0, "questions").means(values)
        exact = measuring.errors_of_means(values)
        off = ~np.eye(4, dtype=bool)
        close = pytest.approx(exact[off] * np.sqrt(1 - 1 / size), rel=0.015)
        assert measuring.difference_errors(drawn)[off] == close
        for a, b in ((0, 1), (2, 3)):
            assert exact[a, b] == pytest.approx(stats.sem(values[:, a] - values[:, b]))


def test_the_interval_to_read_changes_with_the_number_of_rewarders():
    rng = np.random.default_rng(2)
    for r, method in ((4, "fisher"), (7, "fisher"), (8, "jackknife"), (30, "jackknife")):
        x = rng.random(r)
        found = correlate(measured(x, x + rng.normal(0, 0.2, r)), label(), OPTIONS)
        assert found.pearson.estimate.method == method
        assert found.spearman.estimate.method in ("fisher", "none")


def test_one_far_point_widens_the_interval_to_read():
    rng = np.random.default_rng(3)
    x = np.append(rng.normal(0, 0.02, 11), 1.0)
    y = np.append(rng.normal(0, 0.02, 11), 1.0)
    found = correlate(measured(x, y), label(), OPTIONS).pearson
    assert resampling.fisher(found.estimate.value, 12, 0.95).low > 0.9
    assert found.estimate.low < 0.5


def study_of(n, bases, r, error, seed=0):
    """A verdict on n rewarders of some base models, measured with this error."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    y = r * x + np.sqrt(1 - r * r) * rng.normal(size=n)
    errors = np.eye(n) * error**2
    x, y = (values + error * rng.normal(size=n) for values in (x, y))
    names = tuple(f"m{i}" for i in range(n))
    labels = tuple(f"b{i % bases}" for i in range(n))
    return judge(Axes(names, x, y, errors, errors, labels))


def test_a_plan_says_what_the_verdict_says_of_such_studies():
    """Its rates are those of the words of studies drawn in another way."""
    n, r, studies = 14, 0.9, 60
    design = power.Design(n, n, 500, 600, (0.05, 0.05))
    row = power.outlook(design, np.full(power.STUDIES, r))
    words = [study_of(n, n, r, np.sqrt(0.05), seed).word for seed in range(studies)]
    shares = [np.mean([w in of for w in words]) for of in (("yes",), ("yes", "probably"))]
    assert row.yes == pytest.approx(shares[0], abs=0.25)
    assert row.probably == pytest.approx(shares[1], abs=0.25)
    assert row.no == 0
    nothing = power.outlook(design, np.zeros(power.STUDIES))
    assert nothing.probably <= 0.05
    assert nothing.no > 0.3


def test_what_is_not_known_of_r_stays_unknown_and_what_helps_most_is_named():
    found = power.needed(study_of(14, 8, 0.9, 0.2), 100, 150)
    now, *larger = found.rows
    assert (now.num_rewarders, now.num_bases, now.num_questions) == (14, 8, 100)
    assert 0 < now.yes <= now.probably < 1
    assert max(row.probably for row in larger) > now.probably
    assert found.best in found.sentence
    assert f"Yes in {100 * now.yes:.0f}%" in found.sentence


def test_before_a_run_both_answers_have_a_rate():
    good, none = power.planned(14, 8, 500, 600)
    assert "true r = .9" in good
    assert "true r = 0" in none
    assert power.planned(4, 4, 500, 600) == power.planned(14, 8, 0, 600) == ()
