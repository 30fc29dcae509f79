"""Who is asked what: nobody twice, everything often enough, and in the end everything."""

from collections import Counter, defaultdict

from hypothesis import given, settings
from hypothesis import strategies as st

from bon.curating.labelling.annotation_queue import (
    LEASE_SECONDS,
    QueueState,
    next_item,
    remaining_items,
    required_answers,
    shown_order,
)
from bon.curating.recipe import Annotating
from tests.curating.labelled_items import curated

ITEMS = [curated(number) for number in range(8)]
KEYS = [item.key for item in ITEMS]
PEOPLE = ("ann", "bob", "cem", "dai")


class Room:
    """People who open items and answer them, or do not, while time goes by."""

    def __init__(self, annotating):
        self.annotating = annotating
        self.choices = defaultdict(dict)
        self.leases = {}
        self.now = 0.0
        self.given = Counter()

    def state(self):
        live = {name: item for name, (item, until) in self.leases.items() if until > self.now}
        return QueueState(self.choices, live)

    def open(self, person):
        key = next_item(KEYS, self.annotating, 0, self.state(), person)
        if key is not None:
            assert person not in self.choices[key], "given twice"
            if self.held(person) != key:
                assert key in remaining_items(KEYS, self.annotating, self.state(), person)
            self.leases[person] = key, self.now + LEASE_SECONDS
        return key

    def held(self, person):
        return self.state().leased.get(person)

    def answer(self, person, choice):
        if person in self.leases:
            self.choices[self.leases.pop(person)[0]][person] = choice


steps = st.lists(
    st.tuples(
        st.sampled_from(PEOPLE),
        st.sampled_from(("open", "answer", "leave")),
        st.sampled_from(("0", "1", "tie", "cannot")),
    ),
    max_size=120,
)
recipes = st.builds(Annotating, annotators_per_item=st.integers(1, 3))


@settings(max_examples=60)
@given(recipes, steps)
def test_nobody_is_given_an_item_twice_and_all_is_answered_in_the_end(annotating, steps):
    room = Room(annotating)
    for person, what, choice in steps:
        if what == "open":
            first = room.open(person)
            assert room.open(person) == first, "a page that is loaded again shows the same item"
        elif what == "answer":
            room.answer(person, choice)
        else:
            room.now += LEASE_SECONDS / 2
    room.now += LEASE_SECONDS  # whoever left does not keep anything from the others
    for person in PEOPLE:
        while room.open(person) is not None:
            room.answer(person, "0")
    for key in KEYS:
        said = room.choices[key]
        assert len(said) >= min(len(PEOPLE), required_answers(annotating, said.values()))


@given(st.integers(1, 3), st.permutations(PEOPLE))
def test_people_at_once_give_no_more_answers_than_wanted(wanted, people):
    room = Room(Annotating(annotators_per_item=wanted))
    while any([room.open(person) for person in people]):
        for person in people:
            room.answer(person, "1")
    assert all(len(room.choices[key]) == wanted for key in KEYS)


def test_a_disagreement_goes_to_one_more_person():
    two = Annotating(annotators_per_item=2)
    assert [required_answers(two, said) for said in ([], ["0"], ["0", "0"])] == [2, 2, 2]
    assert required_answers(two, ["0", "1"]) == 3
    assert required_answers(two, ["0", "cannot"]) == 3
    assert required_answers(two, ["0", "1", "1"]) == 2
    assert required_answers(two, ["0", "1", "tie"]) == 3, "and then to nobody else"
    assert required_answers(Annotating(annotators_per_item=1), ["0"]) == 1


def test_sides_are_even():
    firsts = Counter(shown_order(f"item {number}", "ann", 4)[0] for number in range(2000))
    assert all(400 < firsts[place] < 600 for place in range(4))
