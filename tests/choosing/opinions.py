"""Opinions and judgements made up for tests."""

from itertools import combinations

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bon.choosing.opinion import Candidates, Opinion
from bon.core.records import Judgement

SHARES = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])


def complete(upper: np.ndarray) -> np.ndarray:
    """A preference matrix whose upper triangle is given."""
    m = len(upper)
    prefer = np.full((m, m), 0.5)
    for i, j in combinations(range(m), 2):
        prefer[i, j], prefer[j, i] = upper[i, j], 1 - upper[i, j]
    return prefer


def matrices(size: int) -> st.SearchStrategy[np.ndarray]:
    """Preferences (size, size) among candidates that all met."""
    return arrays(float, (size, size), elements=SHARES).map(complete)


def about(size: int, answers=None) -> Candidates:
    """Candidates of one question with different texts."""
    found = Candidates.of("item", [f"text-{k}" for k in range(size)])
    codes = np.full((1, size), -1) if answers is None else np.array([answers])
    return Candidates(found.items, found.keys, codes, found.text_ids)


def scoring(scores: np.ndarray, answers=None) -> Opinion:
    """Scores (M) of one question, all of them asked for."""
    whole = np.array([True])
    said = about(len(scores), answers)
    return Opinion(said, "scores", scores[None], None, None, whole, 0.0, len(scores))


def preferring(prefer: np.ndarray, answers=None) -> Opinion:
    """Preferences (M, M) of one question; NaN was not judged."""
    found = prefer.copy()
    np.fill_diagonal(found, 0.5)
    games = (~np.isnan(found) & ~np.eye(len(found), dtype=bool)).astype(int)
    whole = np.array([not np.isnan(found).any()])
    said = about(len(found), answers)
    return Opinion(said, "preferences", None, found[None], games[None], whole, 0.0, 1)


def judgement(first, second, outcome, score=None, shown=(), vote=0) -> Judgement:
    """One row on the question `q`."""
    return Judgement(
        "k", "r", "s", "question", "q", first, second, vote, outcome, score, shown=shown
    )
