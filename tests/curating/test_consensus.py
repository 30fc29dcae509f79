"""What people say of the labels, from their answers as they are stored."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bon.analysis.results import Options
from bon.curating.label_audit import Labelling, consensus, contradicts, label_audit
from bon.curating.labelling.annotations import Annotation
from tests.curating.labelled_items import curated, made_items, said_by

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
    item = curated(1, better=1)
    assert contradicts(item, "0") is True
    assert contradicts(item, "1") is False
    assert [contradicts(item, outcome) for outcome in ("tie", "cannot", "unresolved", "")] == [
        None
    ] * 4


def test_nobody_answered():
    items, _ = made_items(5, np.random.default_rng(0))
    stranger = Annotation("of another benchmark", "ann", "0", (0, 1))
    assert label_audit(Labelling(items, [], 2), OPTIONS) is None
    assert label_audit(Labelling(items, [stranger], 2), OPTIONS) is None


def test_a_third_who_is_asked_on_disagreement_does_not_lower_agreement():
    """Their items are those on which the others differ: to count them would be unfair."""
    rng = np.random.default_rng(2)
    items, truth = made_items(200, rng)
    rows = said_by(items, truth, ["ann", "bob"], rng, 0.15, third=True)
    two = [row for row in rows if row.annotator != "third"]
    with_third = label_audit(Labelling(items, rows, 2), OPTIONS)
    without = label_audit(Labelling(items, two, 2), OPTIONS)
    assert with_third.agreement == without.agreement
    assert len(without.unresolved) > 20
    assert with_third.unresolved == ()


def test_agreement():
    items = [curated(n) for n in range(40)]
    rows = []
    for n, item in enumerate(items):
        other = "0" if n >= 20 or n % 2 else "1"
        rows.append(Annotation(item.key, "ann", "0", (0, 1)))
        rows.append(Annotation(item.key, "bob", other, (1, 0)))
    found = label_audit(Labelling(items, rows, 2), OPTIONS)
    assert found.agreement.items == 40
    assert found.agreement.percent.value == pytest.approx(0.75)
