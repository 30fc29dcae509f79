"""A race ends early with what all pairs would have shown, whatever the verdicts are."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bon.choosing.designs import Design, next_pairs
from bon.choosing.opinion import Candidates, Opinion, item_opinion
from bon.choosing.race import PAIRS, EarlyStopping, bounds, contenders
from bon.choosing.replaying import Trial
from bon.choosing.rules import RULES
from tests.choosing.opinions import judgement

settings.register_profile("patient", deadline=None)
settings.load_profile("patient")

VERDICTS = ["first", "second", "tie", "unparsed", "error"]


@st.composite
def worlds(draw):
    """Candidates with copies, their classes by text, and a verdict for every showing and vote."""
    size, kinds = draw(st.integers(1, 8)), draw(st.integers(1, 3))
    texts = [f"t{draw(st.integers(0, size - 1))}" for _ in range(size)]
    classes = {key: draw(st.integers(0, kinds - 1)) for key in sorted(set(texts))}
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    weights = np.array([draw(st.sampled_from([0, 1, 5])) + 0.01 for _ in VERDICTS])
    votes = draw(st.integers(1, 3))
    verdicts = {
        (a, b): rng.choice(VERDICTS, votes, p=weights / weights.sum()).tolist()
        for a in classes
        for b in classes
        if a != b
    }
    return texts, classes, verdicts


def rows_of(pairs, verdicts):
    return [
        judgement(x, y, said, vote=vote)
        for a, b in pairs
        for x, y in ((a, b), (b, a))
        for vote, said in enumerate(verdicts[x, y])
    ]


def raced(design: Design, world) -> tuple[Opinion, Opinion, np.ndarray, int]:
    """What a design made known, what all pairs do, a gold by class, and the pairs it compared."""
    texts, classes, verdicts = world
    stakes = EarlyStopping({key: texts.count(key) for key in classes}, classes)
    about, distinct = Candidates.of("q", texts), Candidates.of("q", sorted(classes))
    asked: list[tuple[str, str]] = []
    while wanted := next_pairs(
        design, item_opinion("preferences", rows_of(asked, verdicts), distinct), stakes
    ):
        assert not {frozenset(pair) for pair in wanted} & {frozenset(pair) for pair in asked}
        assert design != "race" or len(wanted) <= PAIRS
        asked += wanted
    every = [(a, b) for a in classes for b in classes if a < b]
    gold = np.array([[float(classes[key]) for key in texts]])
    known, full = (
        item_opinion("preferences", rows_of(part, verdicts), about) for part in (asked, every)
    )
    return known, full, gold, len(asked)


@settings(max_examples=120)
@given(worlds())
def test_a_race_is_worth_what_round_robin_is(world):
    known, full, gold, asked = raced("race", world)
    rule = RULES["round_robin"]
    chosen, wanted = rule.certain(known, gold)[0], rule.choose(full)[0]
    for code in range(3):
        own = gold[0] == code
        assert chosen @ own == pytest.approx(wanted @ own, abs=1e-12)
    if len(set(world[1].values())) == 1:
        assert asked == 0


@settings(max_examples=80)
@given(worlds())
def test_a_knockout_that_stops_is_worth_what_it_is_when_played_on(world):
    known, full, gold, asked = raced("knockout", world)
    rule = RULES["knockout"]
    chosen, wanted = rule.certain(known, gold)[0], rule.choose(full)[0]
    for code in range(3):
        own = gold[0] == code
        assert chosen @ own == pytest.approx(wanted @ own, abs=1e-12)
    assert asked <= len(set(world[0])) - 1


@settings(max_examples=50)
@given(worlds())
def test_replayed_at_full_size_only(world):
    known, full, gold, _ = raced("race", world)
    size = known.candidates.size
    trial = Trial(known.candidates, gold, size, 16, 0)
    found, wanted = (RULES["round_robin"].replayed(said, trial) for said in (known, full))
    assert found is not None
    assert wanted is not None
    at = found.ns.index(size), wanted.ns.index(size)
    assert found.values[:, at[0]] == pytest.approx(wanted.values[:, at[1]], abs=1e-12)
    if not (known.complete | trial.constant).all():
        assert set(found.ns) == {1, size}
        assert RULES["copeland"].replayed(known, trial) is None


@settings(max_examples=50)
@given(worlds(), st.data())
def test_bounds_hold_whatever_is_still_unknown(world, data):
    """Any part of the verdicts: the points of all of them are inside, the best contend."""
    texts, classes, verdicts = world
    every = [(a, b) for a in classes for b in classes if a < b]
    some = [pair for pair in every if data.draw(st.booleans())]
    about = Candidates.of("q", texts)
    known, full = (
        item_opinion("preferences", rows_of(part, verdicts), about).prefer for part in (some, every)
    )
    (low, high), (points, _) = bounds(known), bounds(full)
    assert (low <= points + 1e-9).all()
    assert (points <= high + 1e-9).all()
    assert contenders(low, high)[points >= points.max() - 1e-9].all()


def test_a_tie_that_all_verdicts_make_is_asked_to_its_end():
    """Nobody can be ruled out by a judge that follows the position."""
    classes = {f"t{k}": k % 2 for k in range(5)}
    verdicts = {(a, b): ["first"] for a in classes for b in classes if a != b}
    *_, asked = raced("race", (list(classes), classes, verdicts))
    assert asked == 10
