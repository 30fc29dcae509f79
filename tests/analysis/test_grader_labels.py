"""Accuracies under a grader that errs, corrected by labels of a random share of the answers."""

import numpy as np
import pytest

from bon.analysis.calibration.grader_labels import check_grader
from bon.analysis.data.arrays import read
from bon.analysis.estimators.picks import as_picks, choices
from bon.analysis.results import Options
from bon.analysis.run import analyse
from bon.core.errors import BonError
from tests.analysis.synthetic import synthetic_tables
from tools.validity.grader_labels import covered

OPTIONS = Options(draws=300)
MISSED = 0.2


@pytest.fixture(scope="module")
def graded():
    """A run whose grader finds a fifth of the right answers wrong; its picks, and the truth."""
    tables = synthetic_tables(num_rewarders=3, num_questions=150, num_candidates=4, num_pairs=40)
    truth = tables.candidates["correct"].to_numpy(dtype=bool)
    missed = np.random.default_rng(0).random(len(truth)) < MISSED
    run, results = read(tables), analyse(tables, OPTIONS)
    picks = as_picks(choices(run, results))
    frame = tables.candidates
    items = (frame["question"] + "/" + frame["text_key"]).to_list()
    tables.candidates["correct"] = truth & ~missed
    true = {b.rewarder: b.accuracy.value for b in results.best_of_n if b.headline}
    return (
        read(tables).pools,
        picks,
        dict(zip(items, truth.astype(float).tolist(), strict=True)),
        true,
    )


def test_with_all_labels_the_accuracies_are_the_true_ones(graded):
    pools, picks, labels, true = graded
    check = check_grader(pools, picks, labels, {}, OPTIONS)
    assert check.share_labelled == 1
    assert check.right_as_right.value == pytest.approx(1 - MISSED, abs=0.06)
    assert check.wrong_as_wrong.value == 1
    rows = {row.rewarder: row for row in check.accuracies}
    assert rows["pass@1"].corrected.value == pytest.approx(true["random"])
    assert rows["pass@1"].graded.value < true["random"] - 0.05
    for name in ("rewarder-00", "rewarder-01", "rewarder-02"):
        assert rows[name].corrected.value == pytest.approx(true[name], abs=0.02)


def test_a_few_labels_correct_with_a_wider_interval(graded):
    pools, picks, labels, true = graded
    chosen = np.random.default_rng(4).random(len(labels)) < 0.3
    few = {k: v for (k, v), keep in zip(labels.items(), chosen, strict=True) if keep}
    check = check_grader(pools, picks, few, dict.fromkeys(labels, 0.3), OPTIONS)
    row = next(row for row in check.accuracies if row.rewarder == "pass@1")
    assert row.corrected.low < true["random"] < row.corrected.high
    assert row.corrected.high - row.corrected.low > row.graded.high - row.graded.low


def test_labels_of_other_answers_are_refused(graded):
    pools, picks, _, _ = graded
    with pytest.raises(BonError, match="no label is about an answer of this run"):
        check_grader(pools, picks, {"q/other": 1.0}, {}, OPTIONS)


def test_the_corrected_intervals_cover_the_truth_and_the_graders_do_not():
    found = covered(0.05, biased=True, studies=60)
    assert found["graded"] < 0.7
    assert found["corrected"] > 0.85
