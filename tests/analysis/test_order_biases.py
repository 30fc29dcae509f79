"""What judges did as they were asked: which order decides, and on which questions that is known."""

from dataclasses import replace

import numpy as np
import pytest
from synthetic import synthetic_tables

from bon.analysis.data.arrays import Judged, read
from bon.analysis.estimators import resampling
from bon.analysis.estimators.order_biases import order_biases, variance_components
from bon.analysis.finding.study_description import judging
from bon.choosing.opinion import OUTCOMES


def test_by_hand_and_what_was_not_decided_is_no_verdict():
    rows = [
        (0, 0, 1, "first"), (0, 1, 0, "second"),  # the same winner in both orders
        (0, 0, 2, "first"), (0, 2, 0, "unparsed"),  # one order says nothing
        (1, 3, 4, "first"), (1, 4, 3, "first"),  # whoever was shown first
        (1, 3, -1, "scored"),
    ]  # fmt: skip
    item, first, second = (np.array([row[k] for row in rows]) for k in range(3))
    outcome = np.array([OUTCOMES.index(row[3]) for row in rows], dtype=np.int8)
    none = np.zeros(len(rows))
    judged = Judged(item, first, second, none.astype(int), outcome, none, none.astype(int))
    found = order_biases(judged, resampling.draw(2, 100, 0, "questions"), 0.95)
    assert found.consistency.value == pytest.approx(1 / 2)
    assert found.position.value == pytest.approx(3 / 5)


def test_of_a_race_only_questions_judged_in_full_count():
    tables = synthetic_tables(3, 30, 4, 20)
    whole = list(tables.questions["question"][::3])
    race = replace(tables, meta={**tables.meta, "judging": {"design": "race", "in_full": whole}})
    rows = tables.judgements
    alone = rows[(rows["item_kind"] == "pair") | rows["item"].isin(whole)]
    draws = resampling.draw(30, 100, 0, "questions")
    found, expected = (
        judging(read(each), draws, 0.95) for each in (race, replace(tables, judgements=alone))
    )
    for one, other in zip(found, expected, strict=True):
        assert one.rated_questions == other.rated_questions > 0
        assert one.consistency_candidates == other.consistency_candidates
        assert one.position_bias_candidates == other.position_bias_candidates


def brute_force(value, question, pair, order):
    """Mean products of verdicts by what they share, innermost first; np.nan where none do."""
    products = {level: [] for level in range(5)}
    for i, a in enumerate(value):
        for j, b in enumerate(value):
            level = 0 if question[i] != question[j] else 1 if pair[i] != pair[j] else 2
            level = 4 if i == j else 3 if level == 2 and order[i] == order[j] else level
            products[level].append(a * b)
    return [np.mean(products[level]) for level in range(5)]


def test_components_of_variance_are_those_of_enumeration():
    rng = np.random.default_rng(0)
    pair = np.sort(rng.integers(0, 12, 60))
    question, order = pair // 3, 2 * pair + rng.integers(0, 2, 60)
    value = rng.integers(0, 3, 60) / 2
    shared = brute_force(value, question, pair, order)
    shared[2] = (shared[2] + shared[3]) / 2  # either order
    draws = resampling.draw(4, 50, 0, "questions")
    found = variance_components(value, (question, pair, order), draws, 0.95)
    assert found.total.value == pytest.approx(shared[4] - shared[0])
    parts = (found.question, found.candidates, found.order, found.vote)
    assert [p.value for p in parts] == pytest.approx(np.diff(shared) / (shared[4] - shared[0]))


def test_components_of_variance_find_known_ones():
    """400 questions x 4 pairs x 2 orders x 3 votes with variances of 4, 3, 2 and 1.

    Half of what the two orders of a pair add is common to both of them.
    """
    rng = np.random.default_rng(1)
    order = np.repeat(np.arange(400 * 4 * 2), 3)
    pair, question = order // 2, order // 8
    value = rng.normal(size=len(order)) + 2**0.5 * rng.normal(size=3200)[order]
    value += 3**0.5 * rng.normal(size=1600)[pair] + 2 * rng.normal(size=400)[question]
    draws = resampling.draw(400, 300, 0, "questions")
    found = variance_components(value, (question, pair, order), draws, 0.95)
    for part, share in zip(("question", "candidates", "order", "vote"), (4, 4, 1, 1), strict=True):
        assert getattr(found, part).low < share / 10 < getattr(found, part).high
    single = variance_components(value[::3], (question[::3], pair[::3], order[::3]), draws, 0.95)
    assert (single.vote.value, single.order.low < 0.15 < single.order.high) == (0, True)


def test_a_run_has_them_for_rewarders_that_compare():
    tables = synthetic_tables(3, 30, 4, 20)
    found = judging(read(tables), resampling.draw(30, 100, 0, "questions"), 0.95)
    kinds = dict(zip(tables.rewarders["rewarder"], tables.rewarders["kind"], strict=True))
    assert {j.rewarder for j in found if j.variance} == {
        name for name, kind in kinds.items() if kind == "pairwise"
    }


def test_a_judge_that_takes_the_first_varies_with_the_order_alone():
    order = np.arange(80)
    value = np.tile([1.0, 0.0], 40)
    draws = resampling.draw(10, 50, 0, "questions")
    found = variance_components(value, (order // 8, order // 2, order), draws, 0.95)
    parts = (found.question, found.candidates, found.order, found.vote)
    assert [part.value for part in parts] == pytest.approx([0, 0, 1, 0], abs=1e-12)
