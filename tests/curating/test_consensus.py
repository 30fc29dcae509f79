"""What people say of the labels, from their answers as they are stored."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bon.curating.label_audit import Labelling, consensus, contradicts
from bon.curating.labelling.annotations import Annotation
from tests.curating.labelled_items import curated


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


def test_answers_about_other_items_are_none():
    stranger = Annotation("of another benchmark", "ann", "0", (0, 1))
    assert Labelling([curated(0)], [stranger]).outcomes == {}
