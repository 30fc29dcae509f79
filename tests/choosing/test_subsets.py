"""Accuracy at n against enumeration of every subset."""

from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bon.choosing import subsets
from bon.choosing.tallies import tied_best, weighted_vote, win_rate

settings.register_profile("patient", deadline=None)
settings.load_profile("patient")

M = 6
NS = tuple(range(1, M + 1))
SCORES = arrays(float, (2, M), elements=st.sampled_from([0.0, 1.0, 2.0, np.nan]))
GOLD = arrays(float, (2, M), elements=st.sampled_from([0.0, 1.0]))
ANSWERS = arrays(np.int64, (2, M), elements=st.integers(-1, 2))


def over_subsets(rule, gold: np.ndarray) -> np.ndarray:
    """(Q, N): the mean over subsets of gold under choice probabilities rule(columns) (Q, n)."""
    found = []
    for n in range(1, gold.shape[1] + 1):
        chosen = [(rule(c) * gold[:, c]).sum(axis=1) for c in columns(gold.shape[1], n)]
        found.append(np.mean(chosen, axis=0))
    return np.stack(found, axis=1)


def columns(size: int, n: int) -> list[np.ndarray]:
    """Every subset of n candidates."""
    return [np.array(c) for c in combinations(range(size), n)]


def square(prefer: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Preferences among some of the candidates."""
    return prefer[:, c[:, None], c]


@given(SCORES, GOLD)
def test_best_of_n(scores, gold):
    expected = over_subsets(lambda c: tied_best(scores[:, c]), gold)
    assert subsets.best_of_n(scores, gold) == pytest.approx(expected, abs=1e-12)


@given(GOLD)
def test_pass_at_n(gold):
    expected = np.array(
        [[1 - comb(M - int(c), n) / comb(M, n) for n in NS] for c in gold.sum(axis=1)]
    )
    assert subsets.pass_at_n(gold) == pytest.approx(expected, abs=1e-12)


@settings(max_examples=50)
@given(ANSWERS, arrays(float, (2, M), elements=st.sampled_from([0.0, 0.5, 1 / 3, 2.0])), GOLD)
def test_votes(answers, weights, worth):
    gold = np.where(answers >= 0, np.take_along_axis(worth, answers % M, 1), 0.0)
    masks, average = subsets.masks_for(M, NS, 9, 0)
    found = subsets.vote_values(answers, weights, gold, masks, average)
    expected = over_subsets(lambda c: weighted_vote(answers[:, c], weights[:, c]), gold)
    assert found == pytest.approx(expected, abs=1e-12)


def random_preferences(rng: np.random.Generator, q: int, m: int) -> np.ndarray:
    prefer = np.triu(rng.choice([0, 0.25, 0.5, 1.0], (q, m, m)), 1)
    prefer = prefer + np.tril(1 - prefer.transpose(0, 2, 1), -1)
    prefer[:, np.arange(m), np.arange(m)] = 0.5
    return prefer


def test_round_robin_and_votes_by_win_rate():
    rng = np.random.default_rng(0)
    prefer = random_preferences(rng, 8, M)
    answers = rng.integers(-1, 3, (8, M))
    gold = (answers == 0).astype(float)
    masks, average = subsets.masks_for(M, NS, 9, 0)
    found = subsets.round_robin_values(prefer, gold, masks, average)
    expected = over_subsets(lambda c: tied_best(win_rate(square(prefer, c))), gold)
    assert found == pytest.approx(expected, abs=1e-12)
    found = subsets.rate_vote_values(answers, prefer, gold, masks, average)

    def vote(c: np.ndarray) -> np.ndarray:
        return weighted_vote(answers[:, c], win_rate(square(prefer, c)))

    assert found == pytest.approx(over_subsets(vote, gold), abs=1e-12)


def test_weights_are_stable_for_large_pools():
    for size in (64, 512):
        weights = subsets.position_weights(size)
        assert weights.sum(axis=1) == pytest.approx(np.ones(size), abs=1e-10)
        n = size // 3
        exact = [comb(i, n - 1) / comb(size, n) for i in range(size)]
        assert weights[n - 1] == pytest.approx(exact, rel=1e-10)


def test_sampled_subsets_come_close_to_enumeration():
    rng = np.random.default_rng(2)
    q, m = 200, 12
    prefer = random_preferences(rng, q, m)
    gold = rng.integers(0, 2, (q, m)).astype(float)
    masks, average = subsets.masks_for(m, (1, 2, 12), 40, 0)
    found = subsets.round_robin_values(prefer, gold, masks, average).mean(axis=0)
    pairs = [
        (tied_best(win_rate(square(prefer, c))) * gold[:, c]).sum(axis=1).mean()
        for c in columns(m, 2)
    ]
    whole = (tied_best(win_rate(prefer)) * gold).sum(axis=1).mean()
    assert found[1] == pytest.approx(np.mean(pairs), abs=0.02)
    assert found[2] == pytest.approx(whole, abs=1e-12)
    assert found[0] == pytest.approx(gold.mean())
    answers, weights = rng.integers(-1, 3, (q, m)), rng.choice([0.5, 1.0], (q, m))
    found = subsets.vote_values(answers, weights, gold, masks, average).mean(axis=0)

    def vote(c: np.ndarray) -> np.ndarray:
        return weighted_vote(answers[:, c], weights[:, c])

    pairs = [(vote(c) * gold[:, c]).sum(axis=1).mean() for c in columns(m, 2)]
    whole = (vote(np.arange(m)) * gold).sum(axis=1).mean()
    assert found[1] == pytest.approx(np.mean(pairs), abs=0.02)
    assert found[2] == pytest.approx(whole, abs=1e-12)
