"""Tails that begin alike are read in two steps: nothing is lost, and less is read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch")

from bon.engines.shared_prefix import Tails, shared_tails

TOKENS = st.lists(st.integers(0, 2), min_size=1, max_size=12).map(tuple)


def read(steps: tuple[Tails, ...]) -> int:
    """Tokens that go through the model, padding among them."""
    return sum(len(step.ids) * max(map(len, step.ids)) for step in steps)


@given(st.lists(st.tuples(st.integers(0, 3), TOKENS), min_size=1, max_size=24))
def test_two_steps_say_what_one_says(rows: list[tuple[int, tuple[int, ...]]]) -> None:
    whole = Tails(*zip(*rows, strict=True))  # type: ignore[arg-type]
    steps = shared_tails(whole)
    assert len(steps) <= 2
    assert all(steps[-1].ids), "the last token of a prompt is of its last step"
    for place, row in enumerate(rows):
        last = steps[-1]
        of, ids = last.of[place], last.ids[place]
        if len(steps) == 2:
            of, ids = steps[0].of[of], steps[0].ids[of] + ids
        assert (of, ids) == row
    assert read(steps) <= read((whole,))


def test_pairs_in_every_order_share_their_first_answer() -> None:
    answers = [(n,) * 9 for n in range(5)]
    pairs = [(*a, 7, *b, 8) for a in answers for b in answers if a != b]
    first, last = shared_tails(Tails((0,) * len(pairs), tuple(pairs)))
    assert (len(first.ids), len(last.ids)) == (5, 20)
    assert {len(ids) for ids in first.ids} == {len(ids) for ids in last.ids} == {10}


def test_tails_that_have_nothing_in_common_are_read_at_once() -> None:
    whole = Tails((0, 0, 1), ((1, 2), (2, 2), (1, 2)))
    assert shared_tails(whole) == (whole,)


def test_a_tail_that_stands_alone_makes_no_step_longer():
    """Else all would be padded to it, and reading in two steps would not pay."""
    answers = [(n,) * 9 for n in range(5)]
    pairs = [(*a, 7, *b, 8) for a in answers for b in answers if a != b]
    alone = (9,) * 20
    first, last = shared_tails(Tails((0,) * 21, (*pairs, alone)))
    assert max(map(len, first.ids)) == max(map(len, last.ids)) == 10
    assert first.ids[last.of[20]] + last.ids[20] == alone
