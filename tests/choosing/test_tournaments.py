"""Knockout: as played in plain loops, and judged as far as it is replayed."""

from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bon.choosing.designs import Design, most_pairs, next_pairs
from bon.choosing.rules import RULES
from bon.choosing.tournaments import bracket, coin, knockout
from tests.choosing.opinions import complete, matrices, preferring

settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


@given(st.integers(1, 7).flatmap(matrices))
def test_knockout_is_a_bracket(prefer):
    alive = list(range(len(prefer)))
    while len(alive) > 1:
        through = [
            a if prefer[a, b] >= 0.5 else b for a, b in zip(alive[0::2], alive[1::2], strict=False)
        ]
        alive = through + ([alive[-1]] if len(alive) % 2 else [])
    found = knockout(prefer)
    assert found.winner == alive[0]
    assert found.alive == alive
    assert not found.missing


def test_a_knockout_names_the_comparisons_of_the_next_round():
    prefer = np.full((5, 5), np.nan)
    prefer[0, 1] = 1.0
    found = knockout(prefer)
    assert found.winner is None
    assert found.missing == [(2, 3)]
    assert found.alive == [0, 2, 3, 4]


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
