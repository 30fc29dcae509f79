"""Scales of rewards: pure, so checked by properties."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bon.core.records import Judgement
from bon.service.api.rewards import consistency, filled, parsed_share, scaled

SCORES = st.lists(
    st.one_of(st.none(), st.floats(-1e6, 1e6), st.sampled_from([0.0, 1.0])), min_size=1, max_size=9
)


@given(SCORES, st.sampled_from(["raw", "rank", "win_rate"]))
def test_every_scale_keeps_the_order_and_what_is_missing(scores, scale):
    result = scaled(scale, "scores", scores, [1 / len(scores)] * len(scores))
    known = [at for at, score in enumerate(scores) if score is not None]
    assert all(result[at] is None for at in range(len(scores)) if at not in known)
    if scale != "raw" and len(known) < 2:
        assert result == [None] * len(scores)
        return
    for a in known:
        for b in known:
            if scores[a] == scores[b]:
                assert result[a] == result[b]
            elif scores[a] < scores[b]:
                assert result[a] <= result[b]
    values = [result[at] for at in known]
    if scale != "raw":
        assert sum(values) / len(values) == pytest.approx(0.5)
        assert all(0 <= value <= 1 for value in values)


@given(SCORES, st.sampled_from(["error", "null", "mean"]))
def test_only_the_mean_fills_and_it_stays_the_mean(scores, way):
    result = filled(scores, way)
    known = [score for score in scores if score is not None]
    if way != "mean" or not known:
        assert result == scores
    else:
        assert sum(result) / len(result) == pytest.approx(sum(known) / len(known))


def test_the_rule_goes_before_the_score():
    """A knockout's winner is first, also where another won the larger share of its games."""
    assert scaled("rank", "preferences", [0.5, 0.9, 0.1], [1.0, 0.0, 0.0]) == [1.0, 0.5, 0.0]
    assert scaled("win_rate", "preferences", [0.5, 0.9, None], [1.0, 0.0, 0.0]) == [0.5, 0.9, None]


def said(first, second, outcome):
    return Judgement("k", "r", "s", "question", "i", first, second, 0, outcome)


def test_consistency_and_parsed_share():
    assert consistency([]) is None
    assert parsed_share([]) == 1
    turned = [said("a", "b", "first"), said("b", "a", "second")]
    stuck = [said("a", "c", "first"), said("c", "a", "first")]
    assert consistency(turned) == 1
    assert consistency(turned + stuck) == 0.5
    assert consistency([said("a", "b", "first"), said("b", "a", "tie")]) == 1
    assert consistency([said("a", "b", "first"), said("b", "a", "unparsed")]) is None
    assert parsed_share([*turned, said("a", "b", "unparsed"), said("a", "b", "error")]) == 0.5
