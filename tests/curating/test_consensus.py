"""What people say of the labels, from their answers as they are stored."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bon.analysis.results import Options
from bon.curating.label_audit import Labelling, consensus, contradicts, label_audit
from bon.curating.labelling.annotations import Annotation, add, current
from tests.curating.simulated_labels import made_item, made_items, said_by

OPTIONS = Options(draws=200)


@pytest.mark.parametrize(
    ("choices", "outcome"),
    [
        ([], ""),
        (["0"], "0"),
        (["0", "0"], "0"),
        (["0", "1"], "unresolved"),
        (["0", "1", "1"], "1"),
        (["0", "1", "tie"], "unresolved"),
        (["0", "cannot"], "0"),
        (["0", "1", "cannot"], "unresolved"),
        (["cannot", "cannot"], "cannot"),
        (["tie", "tie", "2"], "tie"),
    ],
)
def test_consensus(choices, outcome):
    assert consensus(choices) == outcome


@given(st.lists(st.sampled_from(["0", "1", "2", "tie", "cannot"]), max_size=7), st.randoms())
def test_consensus_does_not_depend_on_who_came_first(choices, random):
    mixed = random.sample(choices, len(choices))
    assert consensus(mixed) == consensus(choices)
    if consensus(choices) in {"0", "1", "2", "tie"}:
        assert consensus([*choices, consensus(choices)]) == consensus(choices)


def test_what_contradicts_a_label():
    item = made_item(1, better=1)
    assert contradicts(item, "0") is True
    assert contradicts(item, "1") is False
    assert [contradicts(item, outcome) for outcome in ("tie", "cannot", "unresolved", "")] == [
        None
    ] * 4


def test_nobody_answered():
    items, _ = made_items(5, np.random.default_rng(0))
    stranger = Annotation("of another benchmark", "ann", "0", (0, 1))
    assert label_audit(Labelling(items, [], {}, 2), OPTIONS) is None
    assert label_audit(Labelling(items, [stranger], {}, 2), OPTIONS) is None


def test_planted_errors_are_found_in_stored_answers(tmp_path):
    rng = np.random.default_rng(7)
    planted = set(range(0, 300, 15))
    items, truth = made_items(300, rng, planted)
    path = tmp_path / "annotations.sqlite"
    add(path, *said_by(items, truth, ["ann", "bob"], rng, 0.08, third=True))
    found = label_audit(Labelling(items, current(path), {}, 2), OPTIONS)
    assert found.error.low <= 20 / 300 <= found.error.high
    assert found.ceiling.value == pytest.approx(1 - found.error.value)
    assert found.answered == found.decided == 300
    assert found.unresolved == (), "a third has settled every disagreement"
    keys = {items[n].key for n in planted}
    assert len(keys & set(found.contradicted)) >= 18
    by_name = {one.annotator: one for one in found.annotators}
    assert by_name.keys() == {"ann", "bob", "third"}
    ann = by_name["ann"]
    assert (ann.answers, ann.seconds) == (300, 12)
    assert ann.against_label.low <= 0.08 + 20 / 300 <= ann.against_label.high + 0.02


def test_a_third_who_is_asked_on_disagreement_does_not_lower_agreement():
    """Their items are those on which the others differ: to count them would be unfair."""
    rng = np.random.default_rng(2)
    items, truth = made_items(200, rng)
    rows = said_by(items, truth, ["ann", "bob"], rng, 0.15, third=True)
    two = [row for row in rows if row.annotator != "third"]
    with_third = label_audit(Labelling(items, rows, {}, 2), OPTIONS)
    without = label_audit(Labelling(items, two, {}, 2), OPTIONS)
    assert with_third.agreement == without.agreement
    assert len(without.unresolved) > 20
    assert with_third.unresolved == ()


def test_agreement():
    items = [made_item(n) for n in range(40)]
    rows = []
    for n, item in enumerate(items):
        other = "0" if n >= 20 or n % 2 else "1"
        rows.append(Annotation(item.key, "ann", "0", (0, 1)))
        rows.append(Annotation(item.key, "bob", other, (1, 0)))
    found = label_audit(Labelling(items, rows, {}, 2), OPTIONS)
    assert found.agreement.items == 40
    assert found.agreement.percent.value == pytest.approx(0.75)


def test_who_went_over_to_the_draft():
    items = [made_item(n) for n in range(4)]
    drafts = {item.key: "1" for item in items}
    rows = [
        Annotation(items[0].key, "ann", "1", (0, 1), first="0"),  # went over
        Annotation(items[1].key, "ann", "0", (0, 1), first="0"),  # was asked, and stayed
        Annotation(items[2].key, "ann", "0", (0, 1)),  # stayed
        Annotation(items[3].key, "ann", "1", (0, 1)),  # had said so
    ]
    found = label_audit(Labelling(items, rows, drafts, 2), OPTIONS)
    assert found.changed_after_draft.value == pytest.approx(1 / 3)
