"""What rewarders say of items: against definitions, enumeration and simulations."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from bon.analysis.auditing import item_scores
from bon.analysis.estimators.resampling import draw


def simulate(seed, items=150, rewarders=12, apart=1.0, wrong=0, spread=1.0):
    """Credits of 0 and 1 by Rasch's model; the labels of the first `wrong` items are turned."""
    rng = np.random.default_rng(seed)
    ability = np.linspace(-apart, apart, rewarders)
    p = special.expit(ability + 0.5 - rng.normal(0, spread, (items, 1)))
    right = rng.random(p.shape) < p
    right[:wrong] = ~right[:wrong]
    return right.astype(float)


def test_discrimination_is_the_correlation_with_the_rest():
    credit = simulate(1, items=30)
    credit[3, 2] = credit[7, :4] = np.nan
    found = item_scores.discrimination(credit)
    for i in (0, 3, 7, 20):
        known = np.isfinite(credit[i])
        rest = np.nanmean(np.delete(credit, i, axis=0), axis=0)
        x = credit[i][known]
        if np.ptp(x) == 0:
            assert np.isnan(found[i])
            continue
        expected = stats.pointbiserialr(x, rest[known])
        assert found[i] == pytest.approx(expected.statistic)


def test_no_discrimination_where_nothing_can_be_said():
    same = np.ones((5, 6))
    assert np.isnan(item_scores.discrimination(same)).all()
    assert np.isnan(item_scores.discrimination(simulate(1, rewarders=3))).all()
    assert np.isnan(item_scores.share_right(np.full((2, 3), np.nan))).all()


@pytest.mark.parametrize("rewarders", [10, 14])
def test_planted_mislabels_are_negative(rewarders):
    """With rewarders that differ and know something, most planted mislabels stand out."""
    caught, ordinary, precision = [], [], []
    for seed in range(20):
        found = item_scores.discrimination(
            simulate(seed, items=200, rewarders=rewarders, apart=2.0, wrong=10)
        )
        negative = found < 0
        caught.append(negative[:10][np.isfinite(found[:10])].mean())
        ordinary.append(negative[10:][np.isfinite(found[10:])].mean())
        precision.append((np.argsort(np.where(np.isfinite(found), found, 1))[:10] < 10).mean())
    assert np.mean(caught) > 0.9
    assert np.mean(ordinary) < 0.15
    assert np.mean(precision) > 0.5


def test_how_many_are_negative_by_chance():
    """The expected number with right labels holds; strongly negative mislabels exceed it."""
    inside, above = [], []
    for seed in range(12):
        for wrong in (0, 15):
            credit = simulate(seed, apart=2.0, wrong=wrong)
            found = item_scores.negatives(credit, credit, 0)
            assert found[0].items == (item_scores.discrimination(credit) < 0).sum()
            if wrong:
                above.append(found[1].items > found[1].by_chance.high)
            else:
                inside += [f.by_chance.low <= f.items <= f.by_chance.high for f in found]
    assert np.mean(inside) >= 0.85
    assert np.mean(above) >= 0.9


def test_patterns_are_drawn_as_often_as_their_odds_say():
    odds = np.array([0.2, 0.7, 1.5, 4.0])
    right = np.array([[1, 1, 0, 0], [0, np.nan, 1, 0]])
    drawn = item_scores.sample(odds, right, 20_000, np.random.default_rng(0))
    assert (np.nansum(drawn, axis=2) == [2, 1]).all()
    assert np.isnan(drawn[:, 1, 1]).all()
    worth = {pair: odds[list(pair)].prod() for pair in combinations(range(4), 2)}
    for pair, value in worth.items():
        share = drawn[:, 0, list(pair)].all(axis=1).mean()
        assert share == pytest.approx(value / sum(worth.values()), abs=0.015)
    rest = [0, 2, 3]
    assert drawn[:, 1, rest].mean(axis=0) == pytest.approx(odds[rest] / odds[rest].sum(), abs=0.015)


def test_flips():
    said = {
        ("same", "r"): {"0-1": 1, "1-0": 1},
        ("turned", "r"): {"0-1": 1, "1-0": 0},
        ("half a tie", "r"): {"0-1": 0.5, "1-0": 1},
        ("one order", "r"): {"0-1": 1},
        ("unread", "r"): {"0-1": 1, "1-0": np.nan},
        ("scores", "r"): {"": 1},
        ("one of three", "r"): {"0-1": 1, "1-0": 0, "0-2": 0, "2-0": 0, "0-3": 1, "3-0": 1},
        ("same", "s"): {"0-1": 1, "1-0": 0},
    }
    rows = [(*key, order, credit) for key, by in said.items() for order, credit in by.items()]
    frame = pd.DataFrame(rows, columns=["item", "rewarder", "order", "credit"])
    found = item_scores.flips(frame)
    assert found["r"].dropna().to_dict() == pytest.approx(
        {"same": 0, "turned": 1, "half a tie": 0, "one of three": 1 / 3}
    )
    assert found["s"].dropna().to_dict() == {"same": 1}
    assert item_scores.flips(frame[:0]).empty


def test_reliability_is_kuder_and_richardsons():
    credit = simulate(3, items=40)
    p = credit.mean(axis=1)
    total = credit.sum(axis=0)
    expected = 40 / 39 * (1 - (p * (1 - p)).sum() / total.var())
    found = item_scores.reliability(credit, 0.95)
    assert found.value == pytest.approx(expected)
    assert found.low < found.value < found.high


def test_feldts_interval_covers():
    """Parallel items with normal parts: then alpha is the reliability, and Feldt's is exact."""
    truth, hits = 50 * 0.1 / (50 * 0.1 + 1), []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        x = rng.normal(0, 0.1**0.5, 10) + rng.normal(0, 1, (50, 10))
        found = item_scores.reliability(x, 0.95)
        hits.append(found.low <= truth <= found.high)
    assert 0.92 <= np.mean(hits) <= 0.98


def test_no_reliability_of_rewarders_that_do_not_differ():
    same = np.tile(np.array([[1.0], [0.0], [1.0], [0.0]]), (1, 5))
    assert item_scores.reliability(same, 0.95).value is None


def test_who_is_distinguished_and_with_how_many_items():
    rng = np.random.default_rng(0)
    credit = (rng.random((400, 4)) < np.array([0.3, 0.6, 0.62, 0.9])).astype(float)
    draws = draw(400, 1000, 0, "items")
    assert item_scores.distinguished(credit, draws, 0.95) == pytest.approx(5 / 6)
    assert item_scores.distinguished(credit, draws, 0.95, 400) == pytest.approx(5 / 6)
    assert item_scores.distinguished(credit, draws, 0.95, 12) < 5 / 6
    assert item_scores.distinguished(credit, draws, 0.95, 1_000_000) == 1


def test_items_needed_are_those_of_the_paired_comparison():
    assert [item_scores.items_needed(d, 0.3, 0.95) for d in (0.1, 0.05, 0.03)] == [228, 935, 2609]
    needed = item_scores.items_needed(0.1, 0.3, 0.95)
    rng, found = np.random.default_rng(0), 0
    for _ in range(1000):
        difference = rng.choice([1, 0, -1], needed, p=[0.2, 0.7, 0.1])
        found += abs(difference.mean()) > 1.96 * difference.std(ddof=1) / np.sqrt(needed)
    assert found / 1000 == pytest.approx(0.8, abs=0.04)


@settings(max_examples=40)
@given(st.floats(0.02, 1), st.integers(10, 5000))
def test_the_smallest_difference_is_what_the_items_are_enough_for(q, items):
    d = item_scores.smallest_difference(items, q, 0.95)
    assert abs(item_scores.items_needed(d, q, 0.95) - items) <= 1


def test_discordance():
    credit = np.array([[1, 0, 1], [1, 1, 0], [0, 0, np.nan], [1, 1, 1]], dtype=float)
    assert item_scores.discordance(credit) == pytest.approx(np.mean([1 / 4, 1 / 3, 2 / 3]))
    assert item_scores.discordance(np.ones((3, 1))) is None
    assert [one.difference for one in item_scores.needed(0.005, 0.95)] == [0.05, 0.03, 0.02, 0.01]
