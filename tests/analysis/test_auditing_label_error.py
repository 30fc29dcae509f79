"""Label error and annotators' error: closed forms, and coverage where the truth is known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from bon.analysis.auditing.label_error import (
    annotator_error,
    ceiling,
    corrected_error,
    label_error,
    predicted_error,
    weighted_error,
)

SEEDS = 400


def covered(make, truth):
    """The share of simulated audits whose interval holds the truth."""
    found = [make(np.random.default_rng(seed)) for seed in range(SEEDS)]
    return np.mean([e.low <= truth <= e.high for e in found])


def labelled(rng, items, label_wrong, annotator_wrong, annotators=2):
    """(contradicts (I, A)): each answer against a label, both wrong independently at their rate."""
    label = rng.random(items) < label_wrong
    answers = rng.random((items, annotators)) < annotator_wrong
    return (answers != label[:, None]).astype(float)


def test_the_interval_is_wilsons():
    known = stats.binomtest(4, 120).proportion_ci(method="wilson")
    found = label_error(np.repeat([1.0, 0.0], [4, 116]), 0.95)
    assert (found.low, found.high) == pytest.approx((known.low, known.high))
    assert found.n == 120
    assert label_error(np.array([]), 0.95).value is None


@pytest.mark.parametrize("rate", [0.03, 0.1, 0.2])
def test_a_planted_annotator_error_is_found(rate):
    """Nominal coverage from disagreement alone, whatever share of the labels is wrong."""

    def audit(rng):
        against = labelled(rng, 150, 0.07, rate)
        return annotator_error((against[:, 0] != against[:, 1]).astype(float), 0.95)

    assert 0.92 <= covered(audit, rate) <= 0.99


@pytest.mark.parametrize(("label", "annotator"), [(0.05, 0.1), (0.0, 0.05), (0.1, 0.25)])
def test_a_planted_label_error_is_found_through_annotators_who_err(label, annotator):
    def audit(rng):
        against = labelled(rng, 300, label, annotator)
        agreed = against[:, 0] == against[:, 1]
        own = annotator_error((~agreed).astype(float), 0.95)
        return corrected_error(against[agreed, 0], own, 0.95)

    assert covered(audit, label) >= 0.93


def test_the_correction_undoes_what_agreed_mistakes_add():
    rng = np.random.default_rng(0)
    against = labelled(rng, 200_000, 0.04, 0.3)
    agreed = against[:, 0] == against[:, 1]
    own = annotator_error((~agreed).astype(float), 0.95)
    plain = label_error(against[agreed, 0], 0.95)
    assert plain.low > 0.15, "people who err on 30% agree on much that is wrong"
    assert corrected_error(against[agreed, 0], own, 0.95).value == pytest.approx(0.04, abs=0.01)
    hopeless = annotator_error(np.repeat([1.0, 0.0], [50, 50]), 0.95)
    assert hopeless.value == 0.5
    assert corrected_error(against[agreed, 0], hopeless, 0.95).value is None


def test_weighing_recovers_the_error_of_the_pool():
    """Items drawn by how hard they look: plain error is that of the sample, weighed of the pool."""
    rate, plain_hits, hits, runs = 0.0, 0, 0, 300
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        hard = rng.random(4000) < 0.25
        probability = np.where(hard, 0.12, 0.03)
        wrong = rng.random(4000) < np.where(hard, 0.3, 0.05)
        taken = rng.random(4000) < probability
        rate = 0.25 * 0.3 + 0.75 * 0.05
        found = weighted_error(wrong[taken].astype(float), probability[taken], 0.95)
        plain = label_error(wrong[taken].astype(float), 0.95)
        hits += found.low <= rate <= found.high
        plain_hits += plain.low <= rate <= plain.high
    assert 0.92 <= hits / runs <= 0.995
    assert plain_hits / runs < 0.6
    equal = weighted_error(np.repeat([1.0, 0.0], [4, 116]), np.full(120, 0.2), 0.95)
    assert equal.low == pytest.approx(label_error(np.repeat([1.0, 0.0], [4, 116]), 0.95).low)


@pytest.mark.parametrize("draft_error", [0.1, 0.4])
def test_drafts_on_all_items_and_people_on_some(draft_error):
    widths = {}
    for name, quality in (("drafts", draft_error), ("noise", 0.5)):
        found = []
        for seed in range(SEEDS):
            rng = np.random.default_rng(seed)
            wrong = rng.random(800) < 0.08
            drafts = np.where(rng.random(800) < quality, ~wrong, wrong).astype(float)
            people = np.where(rng.permutation(800) < 100, wrong, np.nan)
            found.append(predicted_error(drafts, people, 0.95))
        assert np.mean([e.low <= 0.08 <= e.high for e in found]) >= 0.92
        widths[name] = np.mean([e.high - e.low for e in found])
    assert widths["drafts"] < widths["noise"]


def test_drafts_without_people_say_nothing():
    people = np.full(50, np.nan)
    assert predicted_error(np.zeros(50), people, 0.95).value is None
    people[:40] = 0
    sure = predicted_error(np.zeros(50), people, 0.95)
    assert sure.value == 0
    assert sure.high > 0.01, "40 checks without a difference are no proof"


@given(st.floats(0, 1), st.floats(0, 0.5))
def test_the_ceiling(accuracy, error):
    shown = accuracy * (1 - error) + (1 - accuracy) * error
    assert min(accuracy, 1 - error, 0.5) - 1e-9 <= shown
    assert shown <= max(1 - error, 0.5) + 1e-9


def test_the_ceiling_has_the_bounds_of_the_error():
    error = label_error(np.repeat([1.0, 0.0], [5, 95]), 0.95)
    found = ceiling(error)
    assert found.value == pytest.approx(0.95)
    assert (found.low, found.high) == pytest.approx((1 - error.high, 1 - error.low))
