"""The score that suffices: against scipy and search."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import optimize, stats
from synthetic import analyse, synthetic_tables

from bon.analysis.correlation.line import structural
from bon.analysis.correlation.paired_accuracies import Label, Measured
from bon.analysis.decision.threshold import lowest, threshold
from bon.analysis.results import Estimate, Options

LABEL = Label("policy", "benchmark", "macro", primary=True)


def lower_limit(x: np.ndarray, y: np.ndarray, at: np.ndarray, level: float) -> np.ndarray:
    """Student's lower prediction limit, as textbooks write it."""
    line = stats.linregress(x, y)
    left = y - line.intercept - line.slope * x
    s = np.sqrt((left**2).sum() / (len(x) - 2))
    t = stats.t.ppf((1 + level) / 2, len(x) - 2)
    spread = np.sqrt(1 + 1 / len(x) + (at - x.mean()) ** 2 / ((x - x.mean()) ** 2).sum())
    return np.asarray(line.intercept + line.slope * at - t * s * spread)


@settings(max_examples=100, deadline=None)
@given(
    st.integers(0, 10_000),
    st.integers(5, 12),
    st.floats(-0.5, 1.2),
    st.floats(0, 0.1),
    st.floats(0.1, 0.9),
)
def test_the_threshold_is_where_the_limit_reaches_the_base(seed, r, slope, noise, base):
    rng = np.random.default_rng(seed)
    x = rng.uniform(0.3, 0.9, r)
    y = 0.4 + slope * (x - 0.6) + noise * rng.normal(size=r)
    assume(noise == 0 or noise > 1e-6)
    score = float(lowest(x, y, np.array(base), 0.95))
    grid = np.linspace(0, 1, 401)
    clear = lower_limit(x, y, grid, 0.95) - base
    if stats.linregress(x, y).slope <= 0:
        assert np.isnan(score)
    elif np.isnan(score):
        assert clear.max() < 1e-6
    else:
        assert score == pytest.approx(0) or lower_limit(x, y, score, 0.95) == pytest.approx(
            base, abs=1e-7
        )
        assert (clear[grid < score - 1e-6] < 1e-6).all()


def test_the_root_is_the_one_that_a_search_finds():
    x = np.array([0.5, 0.55, 0.6, 0.7, 0.8, 0.9])
    y = np.array([0.50, 0.52, 0.51, 0.58, 0.60, 0.66])
    found = optimize.brentq(lambda at: lower_limit(x, y, at, 0.9) - 0.55, 0.5, 1)
    assert float(lowest(x, y, np.array(0.55), 0.9)) == pytest.approx(found)


def measured(x: np.ndarray, y: np.ndarray, noise: float, draws: int = 400) -> Measured:
    rng = np.random.default_rng(0)
    blurred = [
        (v[:, None] + noise * rng.normal(size=(len(v), draws))).astype(np.float32) for v in (x, y)
    ]
    unknown = tuple(Estimate(value=0.5) for _ in x)
    names = tuple(map(str, range(len(x))))
    return Measured(names, x, y, unknown, unknown, *blurred)


def test_the_interval_of_the_threshold_grows_with_noise_and_holds_it():
    rng = np.random.default_rng(2)
    x = np.linspace(0.5, 0.9, 12)
    m = measured(x, 0.2 + 0.5 * x + 0.01 * rng.normal(size=12), 0.002)
    base = np.full(400, 0.5)
    narrow, wide = (
        threshold(LABEL, one, "majority", 0.5, base, Options())
        for one in (m, replace(m, y_draws=measured(m.x, m.y, 0.05).y_draws))
    )
    assert narrow.score.low < narrow.score.value < narrow.score.high
    assert wide.score.high - wide.score.low > narrow.score.high - narrow.score.low
    assert "No rewarder of this run scores as much" not in narrow.sentence
    line = np.polyfit(m.x, m.y, 1)
    crossing = 100 * (0.5 - line[1]) / line[0]
    assert f"the line itself reaches it at {crossing:.1f}%" in narrow.sentence
    assert crossing < 100 * narrow.score.value
    above = int((x >= narrow.score.value).sum())
    assert f"of the {above} rewarders of this run above it do" in narrow.sentence
    assert (
        "prediction interval of a new rewarder lies above majority vote (50.0%)" in narrow.sentence
    )


def test_the_true_score_that_suffices_is_net_of_noise():
    """The limit of the line of true accuracies crosses the base there; noise only moves it."""
    rng = np.random.default_rng(3)
    true = np.linspace(0.4, 0.9, 14)
    x, y = true + 0.05 * rng.normal(size=14), 0.2 + 0.5 * true + 0.02 * rng.normal(size=14)
    m = measured(x, y, 0.05)
    sufficient = threshold(LABEL, m, "majority", 0.5, np.full(400, 0.5), Options())
    line = structural(x, y, *m.error_variances)
    at = sufficient.true_score.value
    half = stats.t.ppf(0.975, 12) * np.sqrt(
        line.scatter + line.height_error + (at - line.centre) ** 2 * line.slope_error
    )
    assert line.height + line.slope * (at - line.centre) - half == pytest.approx(0.5)
    assert sufficient.true_score.low <= at <= sufficient.true_score.high
    assert (
        threshold(LABEL, m.at(x), "majority", 0.5, np.full(400, 0.5), Options()).true_score is None
    )


def test_too_few_bases_give_no_interval():
    x = np.linspace(0.5, 0.9, 12)
    m = measured(x, 0.2 + 0.5 * x + 0.01 * np.sin(np.arange(12)), 0.002)
    base = np.full(400, 0.5)
    two, six = (
        threshold(
            LABEL,
            replace(m, families=tuple(f"base-{i % bases}" for i in range(12))),
            "majority",
            0.5,
            base,
            Options(),
        )
        for bases in (2, 6)
    )
    assert two.score.value == six.score.value
    assert two.score.low is None
    assert two.score.high is None
    assert "from 2 base models" in two.sentence
    assert six.score.low < six.score.value < six.score.high


def test_where_no_score_suffices_it_is_said():
    x = np.linspace(0.5, 0.9, 8)
    falling = measured(x, 0.6 - 0.2 * x, 0.01)
    made = threshold(LABEL, falling, "pass@1", 0.4, np.full(400, 0.4), Options())
    assert made.score.value is None
    assert made.sentence.startswith("At no score on benchmark does the 95% prediction interval")
    few = falling.keep(np.arange(4))
    assert threshold(LABEL, few, "pass@1", 0.4, np.full(400, 0.4), Options()) is None


def test_a_run_has_a_threshold_over_either_base():
    results = analyse(synthetic_tables(6, 60, 4, 60), draws=200)
    assert [t.over for t in results.thresholds] == ["pass@1", "majority"]
