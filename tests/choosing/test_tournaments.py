"""Knockout: as played in plain loops, and judged as far as they are replayed."""

from itertools import permutations
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bon.choosing.designs import Design, most_pairs, next_pairs
from bon.choosing.opinion import Candidates, item_opinion
from bon.choosing.replaying import Trial
from bon.choosing.rules import RULES
from bon.choosing.tournaments import bracket, coin, knockout
from tests.choosing.opinions import complete, judgement, matrices, preferring

settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


@given(matrices(7), st.permutations(list(range(7))), st.integers(1, 7))
def test_knockout_is_a_bracket(prefer, order, size):
    alive = list(order[:size])
    while len(alive) > 1:
        through = [
            a if prefer[a, b] >= 0.5 else b for a, b in zip(alive[0::2], alive[1::2], strict=False)
        ]
        alive = through + ([alive[-1]] if len(alive) % 2 else [])
    found = knockout(prefer[None], np.array(order[:size])[None, None])
    assert found.chosen[0, 0].argmax() == alive[0]
    assert found.chosen.sum() == 1
    assert not found.missing.any()


@given(matrices(6))
def test_a_clear_winner_wins_every_knockout(prefer):
    prefer[2, :], prefer[:, 2] = 1.0, 0.0
    prefer[2, 2] = 0.5
    orders = np.array(list(permutations(range(6)))[::37])[None]
    assert (knockout(prefer[None], orders).chosen[0, :, 2] == 1).all()


def test_a_knockout_names_the_comparisons_of_the_next_round():
    prefer = np.full((1, 4, 4), np.nan)
    found = knockout(prefer, np.arange(4)[None, None])
    assert np.isnan(found.chosen).all()
    assert np.argwhere(found.missing[0]).tolist() == [[0, 1], [2, 3]]


def played_by_hand(keys: list[str], share: dict[tuple[str, str], float]) -> list[str]:
    """Winner of the knockout of `item`, by loops over its texts."""

    def prefers(a: str, b: str) -> float:
        return share[a, b] if (a, b) in share else 1 - share[b, a]

    order = bracket(keys, "item")
    while len(order) > 1:
        through = []
        for a, b in zip(order[0::2], order[1::2], strict=False):
            p = prefers(a, b)
            through.append(coin(a, b, "item") if p == 0.5 else (a if p > 0.5 else b))
        order = through + order[2 * len(through) :]
    return order


@settings(max_examples=60)
@given(st.integers(1, 9), st.integers(0, 10_000))
def test_what_a_knockout_judges_is_enough_to_play_it(size, seed):
    """Judging asks for comparisons round by round; the choice must need no other."""
    rng = np.random.default_rng(seed)
    truth = complete(rng.choice([0.0, 0.5, 1.0], (size, size)))
    known = np.full((size, size), np.nan)
    keys = [str(key) for key in preferring(known).candidates.keys[0]]
    share = {}
    while wanted := next_pairs("knockout", preferring(known)):
        for a, b in wanted:
            i, j = keys.index(a), keys.index(b)
            known[i, j], known[j, i] = truth[i, j], truth[j, i]
            share[a, b] = truth[i, j]
    chosen = RULES["knockout"].choose(preferring(known))[0]
    winners = played_by_hand(keys, share)
    assert sorted(keys[i] for i in np.flatnonzero(chosen)) == sorted(winners)
    assert chosen.sum() == pytest.approx(1)


@settings(max_examples=20)
@given(st.integers(1, 9), st.data())
def test_every_design_ends_whatever_the_verdicts(size, data):
    for design in get_args(Design):
        prefer = np.full((size, size), np.nan)
        made = 0
        while pairs := next_pairs(design, preferring(prefer)):
            for a, b in pairs:
                i, j = int(a[5:]), int(b[5:])
                assert np.isnan(prefer[i, j])
                prefer[i, j] = data.draw(st.sampled_from([0.0, 0.5, 1.0]))
                prefer[j, i] = 1 - prefer[i, j]
                made += 1
        assert made == most_pairs(design, size)


@settings(max_examples=60)
@given(matrices(6), st.permutations(list(range(6))), st.integers(1, 6), st.data())
def test_only_who_enters_plays(prefer, order, entrants, data):
    """Seats that nobody takes change nothing, in a batch of orders with other numbers of them."""
    other = data.draw(st.integers(1, 6))
    orders, count = np.array([[order, order]]), np.array([[entrants, other]])
    together = knockout(prefer[None], orders, count)
    alone = knockout(prefer[None], orders[:, :1, :entrants])
    assert (together.chosen[0, 0] == alone.chosen[0, 0]).all()
    assert (together.alive[0, 0] == alone.alive[0, 0]).all()


def test_equal_texts_enter_a_replay_once():
    """Two texts that tie are chosen alike, however many candidates have one of them."""
    texts = ["a", "a", "a", "b"]
    said = item_opinion("preferences", [judgement("a", "b", "tie")], Candidates.of("q", texts))
    trial = Trial(said.candidates, np.array([[0.0, 0.0, 0.0, 1.0]]), 4, 2000, 0)
    found = RULES["knockout"].replayed(said, trial)
    # Of 2: b is drawn half the time and then wins half of its matches; of 4 it is always there.
    at = [found.values[0, found.ns.index(n)] for n in (1, 2, 4)]
    assert at == pytest.approx([0.25, 0.25, 0.5], abs=0.04)
