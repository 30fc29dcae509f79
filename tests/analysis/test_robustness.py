"""No yes that a few broken rewarders, one half or two bases carry; checked by enumeration."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from bon.analysis import plots
from bon.analysis.correlation.coefficients import correlate
from bon.analysis.correlation.paired_accuracies import Label, Measured
from bon.analysis.correlation.pooled import pool
from bon.analysis.correlation.power import outcomes, simulate
from bon.analysis.correlation.robustness import better_half, groups
from bon.analysis.finding.verdict import find, verdict
from bon.analysis.published import correlate_table
from bon.analysis.results import Estimate, Options
from bon.analysis.results.phrasing import coefficient
from tests.analysis.test_published import table
from tools.validity import mixtures

OPTIONS = Options(draws=200, permutations=500)
LABEL = Label("p", "bench", "macro", primary=True)


def alike(x, y, families=()):
    known = (tuple(Estimate(value=float(value)) for value in axis) for axis in (x, y))
    names = tuple(f"r{i}" for i in range(len(x)))
    families = families or names  # a base model of its own each
    return Measured(names, np.array(x, float), np.array(y, float), *known, families=families)


def studied(x, y, families=()):
    return correlate(alike(x, y, families), LABEL, OPTIONS)


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
    assert found.groups.groups[0] == ("r15", "r16")
    assert verdict(found) == "weak"
    said = find([found], [], [], [], None)
    assert any(" separate groups: r15 and r16; " in c for c in said.caveats)


def test_a_benchmark_that_predicts_still_gets_its_yes():
    rng = np.random.default_rng(1)
    x = np.linspace(0.3, 0.8, 20)
    found = studied(x, x + rng.normal(0, 0.04, 20))
    assert verdict(found) == "predicts"
    support = find([found], [], [], [], None).support
    assert any(text.startswith("Leaving out any one rewarder leaves r") for text in support)
    assert any(text.startswith("Among the top 10 rewarders, r is") for text in support)


def bic_of_line(x, y):
    """BIC of a bivariate normal with a free correlation, by scipy's density."""
    points = np.stack([x, y])
    density = stats.multivariate_normal(points.mean(axis=1), np.cov(points, bias=True))
    return 5 * np.log(len(x)) - 2 * density.logpdf(points.T).sum()


def bic_of_groups(x, y, codes):
    """BIC of a mean and a share per group, one variance per axis and no correlation."""
    members = [codes == code for code in range(codes.max() + 1)]
    count, size = len(members), len(x)
    log_likelihood = sum(own.sum() * np.log(own.sum() / size) for own in members)
    for v in (x, y):
        means = np.select(members, [v[own].mean() for own in members])
        log_likelihood += stats.norm.logpdf(v, means, np.sqrt(((v - means) ** 2).mean())).sum()
    return (2 * count + count - 1 + 2) * np.log(size) - 2 * log_likelihood


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("seed", range(6))
def test_groups_and_line_are_compared_by_their_likelihoods(seed, sign):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(2, 11)) + rng.choice([0.0, 2.0, 6.0], 11)
    y = sign * y
    found = groups(alike(x, y))
    order = np.argsort(stats.zscore(x) + np.sign(np.corrcoef(x, y)[0, 1]) * stats.zscore(y))
    rivals = []
    for count in (2, 3, 4):
        squares = []
        for inner in combinations(range(1, 11), count - 1):
            codes = np.empty(11, dtype=int)
            codes[order] = np.searchsorted(inner, np.arange(11), side="right")
            cost = sum(
                ((v[codes == c] - v[codes == c].mean()) ** 2).sum()
                for v in (stats.zscore(x), stats.zscore(y))
                for c in range(count)
            )
            squares.append((cost, codes))
        codes = min(squares, key=lambda pair: pair[0])[1]
        rivals.append((bic_of_groups(x, y, codes) - bic_of_line(x, y), codes))
    difference, codes = min(rivals, key=lambda pair: pair[0])
    assert found.bic_difference == pytest.approx(difference)
    members = {tuple(f"r{i}" for i in np.flatnonzero(codes == c)) for c in set(codes)}
    assert set(found.groups) == members


@pytest.mark.parametrize(("rewarders", "broken"), [(8, 1), (14, 3), (14, 5), (24, 6), (24, 12)])
@pytest.mark.parametrize("side", [-1, 1])
def test_r_that_says_how_many_are_broken_has_no_interval(rewarders, broken, side):
    rng = np.random.default_rng(rewarders + broken)
    x, y = rng.normal(size=(2, rewarders))
    x[:broken] += 20 * side
    y[:broken] += 20 * side
    found = studied(x, y)
    assert tuple(f"r{i}" for i in range(broken)) in found.groups.groups
    for one in (found.pearson, found.spearman, found.kendall):
        assert (one.estimate.low, one.p_value) == (None, None)
    assert verdict(found) == "cannot tell"
    assert pool([found, found.model_copy(update={"policy": "q"})], 0.95).pearson.low is None


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(5, 30), st.floats(0.1, 50), st.floats(-5, 5))
def test_groups_do_not_depend_on_units_or_order(seed, r, scale, shift):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(2, r))
    x[:2] -= rng.uniform(0, 8)
    y[:2] -= rng.uniform(0, 8)
    found = groups(alike(x, y))
    order = rng.permutation(r)
    other = groups(alike(scale * x[order] + shift, y[order]))
    assert other.bic_difference == pytest.approx(found.bic_difference)
    renamed = {frozenset(f"r{order[int(n[1:])]}" for n in group) for group in other.groups}
    assert renamed == {frozenset(group) for group in found.groups}


def test_groups_of_unrelated_rewarders_are_no_yes():
    yes = {}
    for mixture in (*mixtures.NAMED[3:], mixtures.POWER[10]):
        rng = np.random.default_rng(0)
        studies = [mixture.study(rng) for _ in range(16)]
        found = [correlate(m, LABEL, Options(draws=100, permutations=100)) for m in studies]
        yes[mixture.name] = [verdict(c) for c in found].count("predicts")
    assert yes.pop("independent, r = .9") > 4
    assert max(yes.values()) <= 1
    assert sum(yes.values()) <= 2


def test_two_outliers_of_a_published_table_are_no_yes():
    scores = [[0.75, 0.61], [0.76, 0.60], [0.74, 0.60], [0.50, 0.45], [0.30, 0.30]]
    frame = pd.DataFrame(scores, columns=["macro", "best_of_n"]).assign(rewarder=list("abcde"))
    finding = correlate_table(frame, options=OPTIONS).finding
    assert finding.verdict != "predicts"
    assert any("d; the other 3" in caveat for caveat in finding.caveats)
    assert any("A yes needs at least 8 rewarders" in caveat for caveat in finding.caveats)


def test_few_clean_rewarders_are_taken_for_groups():
    rng = np.random.default_rng(0)
    for r, most in ((8, 0.3), (14, 0.08), (24, 0.03)):
        studies = rng.multivariate_normal([0, 0], [[1, 0.8], [0.8, 1]], (100, r))
        flagged = [groups(alike(*s.T)).withholds for s in studies]
        assert np.mean(flagged) < most


def test_the_better_half_agrees_with_scipy():
    rng = np.random.default_rng(2)
    x = rng.normal(size=4000)
    y = 0.8 * x + 0.6 * rng.normal(size=4000)
    half = better_half(alike(x, y), studied(x[:9], y[:9]).pearson, 0.95)
    whole = stats.pearsonr(x[:9], y[:9])[0]
    narrow = whole * x[x >= np.median(x)].std() / x.std()
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
    assert found.pearson.estimate.low is None
    assert verdict(found) == "weak"
    finding = find([found], [], [], [], None)
    assert "over 20 rewarders from 2 base models, too few for an interval)" in finding.sentence
    assert "(." not in finding.sentence
    change = finding.would_change[0]
    assert "from at least 5 known base models" in change
    assert "strong evidence for one line" in change
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
    assert read.method == "jackknife over families"
    assert read.low == pytest.approx(np.tanh(middle - half))
    assert read.low < found.pearson.jackknife.low
    p = 2 * stats.t.sf(middle / (half / stats.t.ppf(0.975, 5)), 5)
    assert found.pearson.p_value == pytest.approx(p)
    assert found.pearson.p_method == "jackknife over families"
    assert found.pearson.p_value > found.pearson.p_parametric
    inner = [v - np.bincount(base, weights=v)[base] / 4 for v in (x, y)]
    assert found.families.within.value == pytest.approx(stats.pearsonr(*inner)[0])
    outer = stats.pearsonr(*(np.bincount(base, weights=v) / 4 for v in (x, y)))[0]
    assert found.families.sentence.startswith(
        "24 rewarders from 6 base models: within families r is"
    )
    assert f"between family means {coefficient(outer)}" in found.families.sentence


def test_the_plot_says_what_holds_in_the_better_half(tmp_path):
    x = np.linspace(40, 70, 8)
    frame = table(judge=list("abcdefgh"), macro=x, best_of_n=x / 2, family=["f", "g"] * 4)
    figure = plots.correlation(correlate_table(frame, options=OPTIONS))
    texts = [t.get_text() for t in figure.axes[0].texts]
    assert any("8 rewarders from 2 base models\ntop half: r = 1.00" in t for t in texts)


def rising(seed: int = 1, noise: float = 0.04) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = np.linspace(0.3, 0.8, 20)
    return x, x + rng.normal(0, noise, 20)


@pytest.mark.parametrize(
    ("sign", "start"), [(1, "Yes: bench predicts"), (-1, "No: rewarders that")]
)
def test_the_verdict_names_the_direction(sign, start):
    x, y = rising()
    finding = find([studied(x, sign * y)], [], [], [], None)
    assert finding.sentence.startswith(start)
    by_ranks = [text for text in finding.support if text.startswith("By ranks")]
    assert len(by_ranks) == 1
    top = [text for text in finding.support if text.startswith("Among the top")]
    assert len(top) == (sign == 1)


def test_a_top_half_below_what_range_restriction_predicts_is_a_caveat():
    c = studied(*rising())
    half = c.better_half.model_copy(update={"expected": 0.999})
    finding = find([c.model_copy(update={"better_half": half})], [], [], [], None)
    assert not any("Among the top 10" in text for text in finding.support)
    assert any("range restriction alone predicts .999" in text for text in finding.caveats)


def test_ranks_against_the_verdict_are_a_caveat():
    x, y = rising()
    reverse = studied(x, -y)
    c = studied(x, y).model_copy(update={"spearman": reverse.spearman, "kendall": reverse.kendall})
    finding = find([c], [], [], [], None)
    assert finding.caveats[0].startswith("By ranks: Spearman −")
    assert not any(text.startswith("By ranks") for text in finding.support)


@pytest.mark.parametrize(("sign", "moves"), [(1, "falls"), (-1, "rises")])
def test_r_without_one_rewarder_falls_or_rises(sign, moves):
    rng = np.random.default_rng(0)
    x, y = np.append(rng.normal(size=9), 12.0), np.append(rng.normal(size=9), 12.0)
    found = studied(x, sign * y)
    assert found.carried_by == "r9"
    r, p = stats.pearsonr(x[:9], sign * y[:9])
    assert found.influence_sentence.startswith(f"Without r9, r {moves} to ")
    assert found.leave_one_out[9].pearson == pytest.approx(r)
    assert found.leave_one_out[9].p_value == pytest.approx(p)


def test_unknown_base_models_rule_out_a_yes_and_guesses_are_named(tmp_path):
    x, y = rising()
    frame = pd.DataFrame({"macro": x, "best_of_n": y})
    sizes = [f"{size}B" for size in range(20)]

    def finding(names, **more):
        return correlate_table(frame.assign(rewarder=names, **more), options=OPTIONS).finding

    unknown = finding([f"m{i}" for i in range(20)])
    assert unknown.verdict == "weak"
    assert "The base model of m0, m1, m2 and 17 more is unknown" in unknown.caveats[0]
    stated = finding([f"m{i}" for i in range(20)], family=[f"base-{i}" for i in range(20)])
    assert stated.verdict == "predicts"
    guessed = finding([f"Qwen2.5-VL-{size}" for size in sizes])
    assert "from 1 base model, too few" in guessed.sentence
    assert any("guessed from names: Qwen2.5-VL-0B (qwen2.5-vl?)" in c for c in guessed.caveats)


@pytest.mark.parametrize("rewarders", [7, 9, 16])
def test_a_plan_simulates_what_a_report_on_each_study_says(rewarders):
    x, y = simulate(0.95, rewarders, 0.1, 0.1, studies=25)
    planned = outcomes(x, y, OPTIONS.level)
    for i, (a, b) in enumerate(zip(x, y, strict=True)):
        c = studied(a, b)
        low = np.nan if c.pearson.estimate.low is None else c.pearson.estimate.low
        if not planned.low[i] <= 0:  # a lower bound below zero shows nothing, withheld or not
            assert planned.low[i] == pytest.approx(low, nan_ok=True)
        assert planned.yes[i] == (verdict(c) == "predicts")
    assert planned.yes.any() == (rewarders > 8)
