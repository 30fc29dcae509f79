"""Knockout and Swiss: as played in plain loops, and judged as far as they are replayed."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bon.choosing.designs import TOURNAMENTS, most_pairs, next_pairs
from bon.choosing.opinion import Candidates, item_opinion
from bon.choosing.replaying import Trial
from bon.choosing.rules import RULES
from bon.choosing.tournaments import bracket, coin, knockout, swiss
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
def test_a_clear_winner_wins_every_tournament(prefer):
    prefer[2, :], prefer[:, 2] = 1.0, 0.0
    prefer[2, 2] = 0.5
    orders = np.array(list(permutations(range(6)))[::37])[None]
    assert (knockout(prefer[None], orders).chosen[0, :, 2] == 1).all()
    found = swiss(prefer[None], orders)
    assert (found.chosen[0, :, 2] >= 0.5 - 1e-9).all()
    assert not found.missing.any()


@pytest.mark.parametrize("play", [knockout, swiss])
def test_tournaments_name_the_comparisons_of_the_next_round(play):
    prefer = np.full((1, 4, 4), np.nan)
    found = play(prefer, np.arange(4)[None, None])
    assert np.isnan(found.chosen).all()
    assert np.argwhere(found.missing[0]).tolist() == [[0, 1], [2, 3]]


def played_by_hand(design: str, keys: list[str], share: dict[tuple[str, str], float]) -> list[str]:
    """Winners of the tournament of `item`, by loops over its texts."""

    def prefers(a: str, b: str) -> float:
        return share[a, b] if (a, b) in share else 1 - share[b, a]

    order = bracket(keys, "item")
    if design == "knockout":
        while len(order) > 1:
            through = []
            for a, b in zip(order[0::2], order[1::2], strict=False):
                p = prefers(a, b)
                through.append(coin(a, b, "item") if p == 0.5 else (a if p > 0.5 else b))
            order = through + order[2 * len(through) :]
        return order
    points, met = dict.fromkeys(order, 0.0), {key: [] for key in order}
    for _ in range(max(1, (len(order) - 1).bit_length())):
        ranked = sorted(order, key=lambda key: (-points[key], order.index(key)))
        matches = []
        while len(ranked) > 1:
            first = ranked.pop(0)
            new = [other for other in ranked if other not in met[first]]
            if new:
                ranked.remove(new[0])
                matches.append((first, new[0]))
        for a, b in matches:
            points[a] += prefers(a, b)
            points[b] += 1 - prefers(a, b)
            met[a].append(b)
            met[b].append(a)
    mean = {key: points[key] / max(len(met[key]), 1) for key in order}
    rated = {
        key: mean[key] + 1e-4 * sum(mean[o] for o in met[key]) / max(len(met[key]), 1)
        for key in order
    }
    return sorted(key for key in order if rated[key] > max(rated.values()) - 1e-9)


@settings(max_examples=60)
@given(st.integers(1, 9), st.integers(0, 10_000), st.sampled_from(["knockout", "swiss"]))
def test_what_a_design_judges_is_enough_to_play_it(size, seed, design):
    """Judging asks for comparisons round by round; the choice must need no other."""
    rng = np.random.default_rng(seed)
    truth = complete(rng.choice([0.0, 0.5, 1.0], (size, size)))
    known = np.full((size, size), np.nan)
    keys = [str(key) for key in preferring(known).candidates.keys[0]]
    share = {}
    while wanted := next_pairs(design, preferring(known)):
        for a, b in wanted:
            i, j = keys.index(a), keys.index(b)
            known[i, j], known[j, i] = truth[i, j], truth[j, i]
            share[a, b] = truth[i, j]
    chosen = RULES[design].choose(preferring(known))[0]
    winners = played_by_hand(design, keys, share)
    assert sorted(keys[i] for i in np.flatnonzero(chosen)) == sorted(winners)
    assert chosen.sum() == pytest.approx(1)


@settings(max_examples=20)
@given(st.integers(1, 9), st.data())
def test_every_design_ends_whatever_the_verdicts(size, data):
    for design in ("all_pairs", "pivot", *TOURNAMENTS):
        prefer = np.full((size, size), np.nan)
        made = 0
        while pairs := next_pairs(design, preferring(prefer)):
            for a, b in pairs:
                i, j = int(a[5:]), int(b[5:])
                assert np.isnan(prefer[i, j])
                prefer[i, j] = data.draw(st.sampled_from([0.0, 0.5, 1.0]))
                prefer[j, i] = 1 - prefer[i, j]
                made += 1
        most = most_pairs(design, size)
        assert made <= most if design == "swiss" else made == most


@settings(max_examples=60)
@given(matrices(6), st.permutations(list(range(6))), st.integers(1, 6), st.data())
def test_only_who_enters_plays(prefer, order, entrants, data):
    """Seats that nobody takes change nothing, in a batch of orders with other numbers of them."""
    other = data.draw(st.integers(1, 6))
    orders, count = np.array([[order, order]]), np.array([[entrants, other]])
    for play in (knockout, swiss):
        together = play(prefer[None], orders, count)
        alone = play(prefer[None], orders[:, :1, :entrants])
        assert (together.chosen[0, 0] == alone.chosen[0, 0]).all()
        assert (together.alive[0, 0] == alone.alive[0, 0]).all()


@pytest.mark.parametrize("name", ["knockout", "swiss"])
def test_equal_texts_enter_a_replay_once(name):
    """Two texts that tie are chosen alike, however many candidates have one of them."""
    texts = ["a", "a", "a", "b"]
    said = item_opinion("preferences", [judgement("a", "b", "tie")], Candidates.of("q", texts))
    trial = Trial(said.candidates, np.array([[0.0, 0.0, 0.0, 1.0]]), 4, 2000, 0)
    found = RULES[name].replayed(said, trial)
    # Of 2: b is drawn half the time and then wins half of its matches; of 4 it is always there.
    at = [found.values[0, found.ns.index(n)] for n in (1, 2, 4)]
    assert at == pytest.approx([0.25, 0.25, 0.5], abs=0.04)
