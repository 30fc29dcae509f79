"""Looks at rewarders: bounds as published, errors counted by enumeration, and no more than said."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from bon.analysis.decision.sequential_test import (
    comparisons,
    interim_ends,
    interim_test,
    obrien_fleming,
)


def world(rng, questions, accuracies, shared=1.0):
    """(Q, R) right or wrong, questions easier or harder for all alike; and the vote (Q)."""
    ease = shared * rng.normal(size=(questions, 1))
    skill = special.ndtri(np.array(accuracies)) * np.sqrt(1 + shared**2)
    values = (skill + ease + rng.normal(size=(questions, len(accuracies))) > 0).astype(float)
    return values[:, 1:], values[:, 0]


@pytest.mark.parametrize(
    ("looks", "alpha", "published"),  # Jennison and Turnbull (1999), table 2.3
    [(1, 0.05, 1.960), (2, 0.05, 1.977), (5, 0.05, 2.040), (10, 0.05, 2.087), (5, 0.1, 1.751),
     (2, 0.01, 2.580)],
)  # fmt: skip
def test_bounds_are_the_published_ones(looks, alpha, published):
    assert obrien_fleming(looks, alpha) == pytest.approx(published, abs=0.001)


def test_bounds_for_many_comparisons_are_crossed_as_often_as_asked():
    walks = np.random.default_rng(0).normal(size=(400_000, 10)).cumsum(axis=1)
    reached = np.abs(walks).max(axis=1) / np.sqrt(10)
    for alpha in (0.01, 0.001):
        crossed = (reached >= obrien_fleming(10, alpha)).mean()
        assert crossed == pytest.approx(alpha, abs=4 * np.sqrt(alpha / len(walks)))


@pytest.mark.parametrize("decide", ["best", "beats-majority"])
def test_by_enumeration_nothing_is_settled_too_often_where_all_are_alike(decide):
    """Every way in which nine questions can come out for a rewarder, the vote and another one."""
    false = total = 0
    for bits in product((0.0, 1.0), repeat=9):
        for offset in (0.0, 1.0):
            one = np.array(bits)
            other = np.full(9, offset) if decide == "beats-majority" else np.roll(one, 1)[::-1]
            values = np.stack([one, other], axis=1)
            vote = 1 - one if decide == "best" else np.array([0.5] * 9)
            found = interim_test(values, vote, interim_ends(9, 3), decide, 0.05)
            false += any(each.state != "in" for each in found.outcomes)
            total += 1
    assert false / total <= 0.05


def test_by_enumeration_of_a_symmetric_difference():
    """All 3^8 sequences of worse, alike and better, equally likely: exact, two looks."""
    false = 0
    for gaps in product((-1.0, 0.0, 1.0), repeat=8):
        values = (np.array(gaps) + 1)[:, None] / 2
        found = interim_test(values, np.full(8, 0.5), (4, 8), "beats-majority", 0.05)
        false += found.outcomes[0].state != "in"
    assert false / 3**8 <= 0.05


@pytest.mark.parametrize("decide", ["best", "beats-majority"])
@pytest.mark.parametrize("questions", [60, 300])
def test_where_all_are_alike_anything_is_settled_in_five_of_a_hundred_runs_at_most(
    decide, questions
):
    rng = np.random.default_rng(questions)
    settled = 0
    for _ in range(400):
        values, vote = world(rng, questions, [0.6] * 7)
        found = interim_test(values, vote, interim_ends(questions, 10), decide, 0.05)
        settled += any(one.state != "in" for one in found.outcomes)
    assert settled <= stats.binom.ppf(0.99, 400, 0.05)


def test_the_best_stays_and_calls_are_saved():
    rng = np.random.default_rng(1)
    kept, shares = [], []
    for _ in range(60):
        values, vote = world(rng, 1730, [0.6, 0.75, 0.72, 0.66, 0.62, 0.58, 0.54])
        ends = interim_ends(1730, 10)
        found = interim_test(values, vote, ends, "best", 0.05)
        kept.append(found.outcomes[0].state == "in")
        shares.append(np.mean([ends[one.look - 1] for one in found.outcomes]) / 1730)
    assert all(kept)
    assert np.mean(shares) < 0.6


def test_who_is_above_and_below_the_vote():
    values, vote = world(np.random.default_rng(2), 2000, [0.6, 0.75, 0.6, 0.45])
    found = interim_test(values, vote, interim_ends(2000, 10), "beats-majority", 0.05)
    assert [one.state for one in found.outcomes] == ["above", "in", "below"]
    assert found.upto == tuple(one.look for one in found.outcomes)
    assert found.over
    assert found.outcomes[1].look == 10


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 10), st.sampled_from(["best", "beats-majority"]))
def test_what_is_not_asked_for_changes_nothing(seed, upto, decide):
    """The looks depend on what they have asked for alone: rows after that may be missing."""
    rng = np.random.default_rng(seed)
    values, vote = world(rng, 200, [0.6, *rng.uniform(0.3, 0.9, 5)])
    ends = interim_ends(200, 10)
    whole = interim_test(values, vote, ends, decide, 0.05)
    asked = values.copy()
    for rewarder, last in enumerate(whole.upto):
        asked[ends[last - 1] :, rewarder] = np.nan
    assert interim_test(asked, vote, ends, decide, 0.05) == whole
    # As far as a killed run came, it says who is to be judged on, and how far.
    part = values.copy()
    part[ends[upto - 1] :] = np.nan
    found = interim_test(part, vote, ends, decide, 0.05)
    assert found.taken == min(upto, whole.taken)
    for one, final, last in zip(found.outcomes, whole.outcomes, found.upto, strict=True):
        if one.state != "in":
            assert one == final
        elif not found.over:
            assert last == found.taken + 1


def test_small_matters():
    assert interim_ends(200, 10) == tuple(range(20, 201, 20))
    assert interim_ends(3, 10) == (1, 2, 3)
    assert comparisons(14, "best") == 91
    assert comparisons(14, "beats-majority") == 14
    values = np.ones((50, 3))  # nothing varies: nothing is settled
    found = interim_test(values, np.ones(50), interim_ends(50, 5), "best", 0.05)
    assert {one.state for one in found.outcomes} == {"in"}
    unknown = interim_test(np.full((50, 3), np.nan), np.ones(50), interim_ends(50, 5), "best", 0.05)
    assert (unknown.taken, unknown.over, unknown.upto) == (0, False, (1, 1, 1))
