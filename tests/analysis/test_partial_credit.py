"""Credit between 0 and 1 runs through estimates, oracle, intervals and the report."""

from itertools import combinations

import numpy as np
import pytest

from bon.analysis.data.arrays import read
from bon.analysis.report.browser_data import _state
from bon.analysis.report.page import write_report
from bon.analysis.results import Options
from bon.analysis.run import analyse
from bon.choosing import subsets
from tests.analysis.synthetic import synthetic_tables


def _partial(seed=0, **settings):
    """A run in which a right answer has a credit of .1 to 1 and a wrong one 0 to .4."""
    tables = synthetic_tables(seed=seed, num_questions=80, num_candidates=5, **settings)
    rng, right = np.random.default_rng(seed), tables.candidates["correct"].to_numpy(dtype=bool)
    credit = np.where(right, rng.uniform(0.1, 1, len(right)), rng.uniform(0, 0.4, len(right)))
    alike = (
        tables.candidates.assign(right=right).groupby("question")["right"].transform("nunique") == 1
    )
    credit[alike] = right[alike]  # these were not judged
    read_ones = tables.candidates["outcome"] == "parsed"
    tables.candidates["correct"] = np.round(credit, 2) * read_ones
    return tables


def test_the_oracle_takes_the_highest_credit():
    credit = np.random.default_rng(3).uniform(0, 1, (7, 5))
    for n in range(1, 6):
        expected = [
            np.mean([max(row[list(c)]) for c in combinations(range(5), n)]) for row in credit
        ]
        assert subsets.pass_at_n(credit)[:, n - 1] == pytest.approx(expected)


def test_accuracies_are_means_of_the_credit():
    tables = _partial()
    results = analyse(tables, Options(draws=200))
    (policy,) = results.policies
    credit = tables.candidates["correct"].to_numpy().reshape(80, 5)
    assert policy.pass_at_1.value == pytest.approx(credit.mean())
    assert policy.oracle.value == pytest.approx(credit.max(axis=1).mean())
    (first,) = (b for b in results.best_of_n if b.rewarder == "first")
    assert first.accuracy.value == pytest.approx(credit[:, 0].mean())
    assert policy.correct_per_question == tuple(
        np.bincount((credit >= 0.5).sum(axis=1), minlength=6)
    )
    rows = [b for b in results.best_of_n if b.headline and b.rule != "baseline"]
    assert len(rows) == 12
    best = max(row.accuracy.value for row in rows)
    assert policy.pass_at_1.value < best < policy.oracle.value


def test_intervals_cover_the_mean_credit():
    """Over 200 draws of the questions, 95% intervals of pass@1 hold the truth about as often."""
    population = _partial(seed=5).candidates["correct"].to_numpy().reshape(80, 5)
    truth, rng, covered = population.mean(), np.random.default_rng(0), 0
    from bon.analysis.estimators.resampling import draw, from_draws

    for repeat in range(200):
        values = population[rng.integers(0, 80, 60)].mean(axis=1)[:, None]
        draws = draw(60, 400, repeat, "questions").means(values)
        (estimate,) = from_draws(values.mean(axis=0), draws, 60, "questions", 0.95)
        covered += estimate.low <= truth <= estimate.high
    assert covered >= 180


def test_right_and_wrong_are_split_at_one_half():
    run = read(_partial())
    (pool,) = run.pools.values()
    assert ((pool.correct >= 0.5) == pool.right).all()
    assert 0 < pool.right.mean() < (pool.correct > 0).mean()
    assert pool.constant.sum() < 40


def test_the_report_shows_partial_credit(tmp_path):
    results = analyse(_partial(), Options(draws=200))
    page = write_report(results, None, tmp_path / "report.html")
    assert "<table" in page.read_text()
    assert [_state(x) for x in ([], [1.0], [0.4], [0.0, 0.0], [1.0, 0.0])] == list("-rmwm")
