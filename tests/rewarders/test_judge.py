import asyncio
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bon.choosing.opinion import Candidates, item_opinion, shown_of
from bon.choosing.tournaments import bracket
from bon.engines import build
from bon.experiment.config import RewarderCard
from bon.experiment.prompts import Prompt
from bon.rewarders.base import Item, Rewarder, Verdict
from bon.rewarders.item_judging import Protocol, is_complete, judge_item, missing_calls

KEYS = ["a", "b", "c", "d", "e"]


class ByLetter(Rewarder):
    """Prefers the response that comes first in the alphabet; records what it is asked."""

    arity = "two"

    def __init__(self, card: RewarderCard) -> None:
        super().__init__(card, Prompt("", ""), build("echo", {}))
        self.asked: list[tuple[str, ...]] = []

    async def judge(self, item, shown, seeds):
        self.asked.append(shown)
        return [Verdict("first" if shown[0] < shown[1] else "second") for _ in seeds]


class Broken(ByLetter):
    async def judge(self, item, shown, seeds):
        if "c" in shown:
            raise RuntimeError("no memory\nfor c")
        return await super().judge(item, shown, seeds)


def card(**changes):
    return RewarderCard(name="r", kind="pairwise", **changes)


def item(keys=KEYS):
    return Item("question", "item", "Which?", (), {key: key.upper() for key in keys})


def judge(rewarder, protocol, known=(), keys=KEYS):
    return asyncio.run(judge_item(rewarder, item(keys), protocol, list(known)))


def test_all_pairs_in_both_orders_is_every_ordered_pair_once():
    rewarder = ByLetter(card())
    rows = judge(rewarder, Protocol("s", 1, "all_pairs"))
    assert sorted(map(shown_of, rows)) == sorted(
        pair for a, b in combinations(KEYS, 2) for pair in ((a, b), (b, a))
    )
    assert len({row.key for row in rows}) == len(rows) == 20
    prefer = item_opinion("preferences", rows, Candidates.of("item", KEYS)).prefer
    assert all(prefer[0, i, j] == 1 for i, j in combinations(range(5), 2))


def test_one_order_is_chosen_by_the_item_and_not_always_the_same():
    rows = judge(ByLetter(card(orders="random")), Protocol("s", 1, "all_pairs"))
    assert len(rows) == 10
    assert {row.first < row.second for row in rows} == {True, False}


@pytest.mark.parametrize("design", ["all_pairs", "knockout"])
def test_what_is_known_is_never_asked_again(design):
    protocol = Protocol("s", 2, design)
    rows = judge(ByLetter(card()), protocol)
    again = ByLetter(card())
    assert judge(again, protocol, rows) == []
    assert again.asked == []
    for cut in range(0, len(rows), 3):
        rest = judge(ByLetter(card()), protocol, rows[:cut])
        assert {row.key for row in rest} == {row.key for row in rows[cut:]}


def test_knockout_costs_one_match_less_than_there_are_responses():
    rows = judge(ByLetter(card()), Protocol("s", 1, "knockout"))
    assert len(rows) == 2 * (len(KEYS) - 1)
    assert "a" in shown_of(rows[-1])


def test_more_votes_ask_only_for_the_new_ones():
    rows = judge(ByLetter(card()), Protocol("s", 1, "all_pairs"))
    more = judge(ByLetter(card()), Protocol("s", 3, "all_pairs"), rows)
    assert {row.vote for row in more} == {1, 2}
    assert len(more) == 2 * len(rows)


def test_a_call_that_raises_is_filed_as_an_error_and_the_others_go_on():
    rows = judge(Broken(card()), Protocol("s", 1, "all_pairs", retries=0))
    errors = [row for row in rows if row.outcome == "error"]
    assert len(errors) == 8
    assert all("c" in shown_of(row) for row in errors)
    assert errors[0].error == "RuntimeError: no memory for c"
    said = item_opinion("preferences", rows, Candidates.of("item", KEYS))
    assert said.games[0, 0].tolist() == [0, 2, 0, 2, 2]
    assert said.complete.all()


def test_listwise_windows_end_with_one_winner():
    listwise = RewarderCard(name="r", kind="listwise", window=2, score={"pattern": r"(\d+)"})
    protocol = Protocol("s", 1, "all_pairs")
    calls = missing_calls(listwise, "many", KEYS, "item", protocol, [])
    order = bracket(KEYS, "item")
    assert [call.shown for call in calls] == [tuple(order[:2]), tuple(order[2:4])]


@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from(["pairwise", "scalar"]),
    order=st.sampled_from(["both", "random"]),
    design=st.sampled_from(["all_pairs", "knockout", "race"]),
    votes=st.integers(1, 2),
    lost=st.sets(st.integers(0, 23), max_size=2),
)
def test_an_item_that_has_all_has_nothing_missing(kind, order, design, votes, lost):
    keys, protocol = KEYS[:4], Protocol("s", votes, design)
    made = RewarderCard(name="r", kind=kind, orders=order)
    rewarder = ByLetter(made)
    rewarder.arity = "two" if kind == "pairwise" else "one"
    rows = judge(rewarder, protocol, keys=keys)
    rows = [row for place, row in enumerate(rows) if place not in lost]
    shown = {(row.first, row.second, row.vote) for row in rows}
    full = is_complete(made, keys, "item", votes, shown)
    open_ = missing_calls(made, rewarder.arity, keys, "item", protocol, rows)
    if full or design == "all_pairs" or kind == "scalar":
        assert full == (not open_)
