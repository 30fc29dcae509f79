"""What judges did as they were asked: which order decides, and on which questions that is known."""

from dataclasses import replace

import numpy as np
import pytest
from synthetic import synthetic_tables

from bon.analysis.data.arrays import Judged, read
from bon.analysis.estimators import resampling
from bon.analysis.estimators.order_biases import order_biases
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
