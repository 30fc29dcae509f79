"""No yes that a few broken rewarders, one half or two bases carry; checked by enumeration."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from bon.analysis import plots
from bon.analysis.correlation.apart import far_below
from bon.analysis.correlation.coefficients import correlate
from bon.analysis.correlation.leave_out import better_half
from bon.analysis.correlation.measured import Label, Measured
from bon.analysis.correlation.pooled import pool
from bon.analysis.estimators.resampling import pearson_without
from bon.analysis.finding.decide import find, verdict
from bon.analysis.published import correlate_table
from bon.analysis.results import Estimate, Options
from tests.analysis.test_published import table

OPTIONS = Options(draws=200, permutations=500)


def alike(x, y, families=()):
    known = (tuple(Estimate(value=float(value)) for value in axis) for axis in (x, y))
    names = tuple(f"r{i}" for i in range(len(x)))
    return Measured(names, np.array(x, float), np.array(y, float), *known, families=families)


def studied(x, y, families=()):
    return correlate(alike(x, y, families), Label("p", "bench", "macro", primary=True), OPTIONS)


def seventeen() -> tuple[np.ndarray, np.ndarray]:
    """A published table's shape: r = .92 over 17 models, .66 without the two worst."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=15)
    noise = rng.normal(size=15)
    noise -= np.polyval(np.polyfit(x, noise, 1), x)
    x = (x - x.mean()) / x.std()
    y = 0.66 * x + np.sqrt(1 - 0.66**2) * noise / noise.std()
    far = 5.20
    return 0.6 + 0.04 * np.append(x, [-far, -far - 0.1]), 0.5 + 0.04 * np.append(
        y, [-far, -far + 0.1]
    )


def test_a_yes_that_the_two_worst_models_make_is_none():
    x, y = seventeen()
    assert np.corrcoef(x, y)[0, 1] == pytest.approx(0.92, abs=0.005)
    assert np.corrcoef(x[:15], y[:15])[0, 1] == pytest.approx(0.66)
    found = studied(x, y)
    assert found.pearson.jackknife.low > 0.5
    assert found.pearson.estimate.low is None
    assert found.apart.rewarders == ("r15", "r16")
    assert found.apart.others.low > 0
    assert found.carried_by is None
    assert set(found.leave_two_out.left_out) == {"r15", "r16"}
    assert found.smallest_set.left_out == ("r15", "r16")
    assert verdict(found) == "weak"
    said = find([found], [], [], [], None)
    assert any("2 of 17 rewarders carry it: without r15 and r16" in c for c in said.caveats)


def test_a_benchmark_that_predicts_still_gets_its_yes():
    rng = np.random.default_rng(1)
    x = np.linspace(0.3, 0.8, 20)
    found = studied(x, x + rng.normal(0, 0.04, 20))
    assert verdict(found) == "predicts"
    support = find([found], [], [], [], None).support
    assert any("any two between" in text for text in support)
    assert any(text.startswith("Among the 10 better rewarders, from 56") for text in support)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(6, 11), st.integers(1, 3))
def test_r_without_a_set_is_that_of_the_others(seed, r, size):
    rng = np.random.default_rng(seed)
    x, y = rng.random((2, r)) + 50
    sets = np.array(list(combinations(range(r), size)))
    for chosen, value in zip(sets, pearson_without(x, y, sets), strict=True):
        rest = np.setdiff1d(np.arange(r), chosen)
        assert value == pytest.approx(stats.pearsonr(x[rest], y[rest])[0], abs=1e-8)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000))
def test_no_smaller_set_than_the_smallest_does_it(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=10)
    y = x + rng.normal(0, 0.5, 10)
    found = studied(x, y)
    small = found.smallest_set
    if found.pearson.estimate.value < 0.5 or small is None or not small.exact:
        return
    falls = {1: 0.15, 2: 0.2, 3: 2.0}
    whole = stats.pearsonr(x, y)[0]

    def breaks(chosen) -> bool:
        rest = np.setdiff1d(np.arange(10), chosen)
        r, p = stats.pearsonr(x[rest], y[rest])
        return r < 0.5 or p > 0.05 or whole - r >= falls[len(chosen)]

    size = len(small.left_out)
    assert breaks([int(name[1:]) for name in small.left_out])
    assert not any(breaks(c) for k in range(1, size) for c in combinations(range(10), k))


def test_beyond_thirty_rewarders_the_search_is_greedy_and_says_so():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 40))
    x[:4] -= 9
    y[:4] -= 9
    found = studied(x, y)
    assert set(found.smallest_set.left_out) == {"r0", "r1", "r2", "r3"}
    assert found.smallest_set.carries
    assert not found.smallest_set.exact
    assert verdict(found) == "cannot tell"  # the other 36 have nothing in common


@pytest.mark.parametrize(("rewarders", "broken"), [(8, 1), (14, 1), (14, 3), (14, 5), (24, 6)])
def test_r_that_says_how_many_are_broken_has_no_interval(rewarders, broken):
    rng = np.random.default_rng(rewarders + broken)
    x, y = rng.normal(size=(2, rewarders))
    x[:broken] = y[:broken] = -7.0
    found = studied(x, y)
    assert found.apart.rewarders == tuple(f"r{i}" for i in range(broken))
    rest = stats.pearsonr(x[broken:], y[broken:])
    assert found.apart.others.value == pytest.approx(rest[0])
    for one in (found.pearson, found.spearman, found.kendall):
        assert one.estimate.low is None
    assert verdict(found) == "cannot tell"
    said = find([found], [], [], [], None)
    assert any("so r says how many such rewarders there are" in c for c in said.caveats)
    assert pool([found, found.model_copy(update={"policy": "q"})], 0.95).pearson.low is None


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(8, 30), st.floats(0.1, 50), st.floats(-5, 5))
def test_who_stands_far_below_does_not_depend_on_units_or_order(seed, r, scale, shift):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(2, r))
    x[:2] -= rng.uniform(0, 8)
    y[:2] -= rng.uniform(0, 8)
    found = far_below(x, y)
    assert len(found) <= 0.4 * r
    order = rng.permutation(r)
    assert set(order[far_below(scale * x[order] + shift, y[order])]) == set(found)
    if len(found):  # nobody between them and the others
        height = stats.zscore(x) + stats.zscore(y)
        rest = np.setdiff1d(np.arange(r), found)
        assert height[rest].min() - height[found].max() == pytest.approx(
            np.diff(np.sort(height))[len(found) - 1]
        )


def test_few_clean_rewarders_stand_far_below():
    rng = np.random.default_rng(0)
    for r, most in ((8, 0.13), (14, 0.1), (24, 0.04)):
        studies = rng.normal(size=(600, 2, r))
        assert np.mean([len(far_below(x, y)) > 0 for x, y in studies]) < most


def test_the_better_half_is_that_of_scipy_and_its_expectation_the_textbooks():
    rng = np.random.default_rng(2)
    x = rng.normal(size=4000)
    y = 0.8 * x + 0.6 * rng.normal(size=4000)
    half = better_half(alike(x, y), studied(x[:9], y[:9]).pearson, 0.95)
    whole = stats.pearsonr(x[:9], y[:9])[0]
    narrow = whole * x[x >= half.edge].std() / x.std()
    inside = x >= np.sort(x)[2000]
    assert half.num_rewarders == inside.sum() == 2000
    assert half.pearson.value == pytest.approx(stats.pearsonr(x[inside], y[inside])[0])
    assert half.expected == pytest.approx(narrow / np.hypot(narrow, np.sqrt(1 - whole**2)))
    assert studied(x[:7], y[:7]).better_half is None


def test_a_yes_that_holds_for_the_weak_half_only_is_none():
    rng = np.random.default_rng(3)
    x = np.concatenate([np.linspace(0.2, 0.6, 10), 0.6 + 0.02 * rng.random(10)])
    y = np.concatenate([np.linspace(0.2, 0.6, 10), 0.6 + 0.02 * rng.random(10)])
    found = studied(x, y)
    assert found.pearson.estimate.low > 0.9
    assert not found.better_half.holds
    assert verdict(found) == "weak"


def test_two_bases_give_no_interval_and_no_yes():
    rng = np.random.default_rng(1)
    x = np.linspace(0.3, 0.8, 20)
    y = x + rng.normal(0, 0.02, 20)
    found = studied(x, y, ("a", "b") * 10)
    assert found.families.num_families == 2
    assert found.families.interval.low is None
    assert verdict(found) == "weak"
    finding = find([found], [], [], [], None)
    assert "over 20 rewarders from 2 bases, too few for an interval)" in finding.sentence
    assert "(." not in finding.sentence
    change = finding.would_change[0]
    assert "of 5 bases or more" in change
    assert "kept r high whichever few of them, or whichever base, is left out" in change
    alone = studied(x, y, tuple("abcdefghijklmnopqrst"))
    assert alone.families is None
    assert verdict(alone) == "predicts"
    unknown = studied(x, y, ("",) * 20)
    assert unknown.families is None


def test_six_bases_widen_the_interval_by_leaving_each_out():
    rng = np.random.default_rng(5)
    base = np.arange(24) % 6
    shared, own = rng.normal(size=6), rng.normal(size=24)
    x = 0.9 * shared[base] + 0.3 * own
    y = x + 0.6 * rng.normal(size=6)[base] + 0.2 * rng.normal(size=24)
    found = studied(x, y, tuple(f"base-{b}" for b in base))
    r = [stats.pearsonr(x[base != b], y[base != b])[0] for b in range(6)]
    z = np.arctanh(r)
    half = stats.t.ppf(0.975, 5) * np.sqrt(5 / 6 * ((z - z.mean()) ** 2).sum())
    middle = np.arctanh(stats.pearsonr(x, y)[0])
    read = found.pearson.estimate
    assert read.method == "jackknife over bases"
    assert read.low == pytest.approx(np.tanh(middle - half))
    assert read.low < found.pearson.jackknife.low
    p = 2 * stats.t.sf(middle / (half / stats.t.ppf(0.975, 5)), 5)
    assert found.pearson.p_value == pytest.approx(p)
    assert found.pearson.p_method == "jackknife over bases"
    assert found.pearson.p_value > found.pearson.p_parametric
    inner = [v - np.bincount(base, weights=v)[base] / 4 for v in (x, y)]
    assert found.families.within.value == pytest.approx(stats.pearsonr(*inner)[0])
    outer = [np.bincount(base, weights=v) / 4 for v in (x, y)]
    assert found.families.between.value == pytest.approx(stats.pearsonr(*outer)[0])
    assert found.families.sentence.startswith("24 rewarders from 6 bases: within bases r is")


def test_the_plot_says_what_holds_in_the_better_half(tmp_path):
    x = np.linspace(40, 70, 8)
    frame = table(judge=list("abcdefgh"), macro=x, best_of_n=x / 2, family=["f", "g"] * 4)
    figure = plots.correlation(correlate_table(frame, options=OPTIONS))
    texts = [t.get_text() for t in figure.axes[0].texts]
    assert any("8 rewarders from 2 bases\nbetter half: r = 1.00" in t for t in texts)
