"""Agreement of annotators: published worked examples, and what must hold for any ratings."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bon.analysis.calibration.agreement import MISSING, agreement
from bon.analysis.estimators.resampling import draw


def ratings(*rows):
    """Each row is one annotator; * is missing."""
    codes = {"*": MISSING}
    return np.array([[codes.setdefault(c, len(codes) - 1) for c in row.split()] for row in rows]).T


def drawn(table, count=400):
    return draw(len(table), count, 0, "agreement")


# Krippendorff (2011), Computing Krippendorff's Alpha-Reliability, examples A, B and C
TWO_BINARY = ratings("0 1 0 0 0 0 0 0 1 0", "1 1 1 0 0 1 0 0 0 0")
TWO_NOMINAL = ratings("a a b b d c c c e d d a", "b a b b b c c c e d d d")
FOUR_WITH_MISSING = ratings(
    "1 2 3 3 2 1 4 1 2 * * *",
    "1 2 3 3 2 2 4 1 2 5 * 3",
    "* 3 3 3 2 3 4 2 2 5 1 *",
    "1 2 3 3 2 4 4 1 2 5 1 *",
)


@pytest.mark.parametrize(
    ("table", "published"),
    [(TWO_BINARY, 0.095), (TWO_NOMINAL, 0.692), (FOUR_WITH_MISSING, 0.743)],
)
def test_alpha_is_krippendorffs(table, published):
    _, found = agreement(table, drawn(table), 0.95)
    assert found.value == pytest.approx(published, abs=5e-4)
    assert found.low <= found.value <= found.high


tables = st.integers(2, 4).flatmap(
    lambda annotators: st.lists(
        st.lists(st.integers(-1, 3), min_size=annotators, max_size=annotators),
        min_size=2,
        max_size=12,
    )
).map(lambda rows: np.array(rows))  # fmt: skip


def alpha_by_pairs(table):
    """From the definition: every pair of answers within an item, and every pair at all."""
    answers, within, n = [], 0.0, 0
    for row in table:
        said = row[row != MISSING]
        if len(said) < 2:
            continue
        answers += said.tolist()
        n += len(said)
        pairs = [(a, b) for i, a in enumerate(said) for j, b in enumerate(said) if i != j]
        within += sum(a != b for a, b in pairs) / (len(said) - 1)
    between = sum(a != b for i, a in enumerate(answers) for j, b in enumerate(answers) if i != j)
    return None if not between else 1 - (within / n) / (between / (n * (n - 1)))


@settings(max_examples=60, deadline=None)
@given(tables, st.permutations(range(4)), st.randoms())
def test_alpha_of_any_ratings(table, names, random):
    found = agreement(table, drawn(table, 100), 0.95)[1].value
    expected = alpha_by_pairs(table)
    assert (found is None) == (expected is None)
    if found is None:
        return
    assert found == pytest.approx(expected)
    renamed = np.where(table == MISSING, MISSING, np.array([*names, 0])[table])
    columns = list(range(table.shape[1]))
    random.shuffle(columns)
    same = agreement(renamed[:, columns], drawn(table, 100), 0.95)[1].value
    assert same == pytest.approx(found), "names of categories and annotators do not matter"
    assert found <= 1 + 1e-12


def test_agreement_with_oneself_is_perfect_and_without_choice_undefined():
    table = np.array([[0, 0], [1, 1], [0, 0], [2, 2]])
    whole, alpha = agreement(table, drawn(table), 0.95)
    assert alpha.value == whole.value == 1
    assert whole.low < 0.75, "four items cannot show that nobody ever disagrees"
    same, alpha = agreement(np.zeros((4, 2), dtype=int), drawn(table), 0.95)
    assert (same.value, alpha.value) == (1, None)
    nobody = agreement(np.full((4, 2), MISSING), drawn(table), 0.95)
    assert [one.value for one in nobody] == [None, None]
