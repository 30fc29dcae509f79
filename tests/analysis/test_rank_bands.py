"""Rank bands from comparisons: against enumeration of every order that they allow."""

import re
from itertools import combinations, permutations

from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import analyse, synthetic_tables

from bon.analysis.estimators.comparisons import rank_bands
from bon.analysis.report import write_report
from bon.analysis.results import Comparison, Estimate


def compared(a: str, b: str, gap: float, apart: bool) -> Comparison:
    return Comparison(
        table="best_of_n", policy="p", benchmark=None, a=a, b=b,
        difference=Estimate(value=gap), p_value=None, p_adjusted=None, distinguishable=apart,
    )  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(0, 1), min_size=2, max_size=5, unique=True),
    st.floats(0, 1),
)
def test_a_band_is_every_place_in_an_order_that_the_differences_allow(values, least):
    names = [f"r{i}" for i in range(len(values))]
    truth = dict(zip(names, values, strict=True))
    pairs = [
        compared(a, b, truth[a] - truth[b], abs(truth[a] - truth[b]) > least)
        for a, b in combinations(names, 2)
    ]
    above = {
        (c.a, c.b) if c.difference.value > 0 else (c.b, c.a) for c in pairs if c.distinguishable
    }
    places: dict[str, set[int]] = {name: set() for name in names}
    for order in permutations(names):
        if all(order.index(top) < order.index(bottom) for top, bottom in above):
            for place, name in enumerate(order, 1):
                places[name].add(place)
    found = {band.rewarder: (band.first, band.last) for band in rank_bands(pairs)}
    assert found == {name: (min(at), max(at)) for name, at in places.items()}


def test_every_rewarder_of_every_policy_has_a_band_that_holds_its_place():
    results = analyse(synthetic_tables(4, 30, 3, 30, policies=("a", "b")), draws=100)
    bands = {(r.policy, r.rewarder): r for r in results.ranks}
    assert len(bands) == 8 + 4  # and four on the benchmark
    for policy in ("a", "b"):
        mine = [b for b in results.best_of_n if b.policy == policy and b.headline]
        mine = [b for b in mine if b.rule != "baseline"]
        ordered = sorted(mine, key=lambda b: -b.accuracy.value)
        for place, b in enumerate(ordered, 1):
            band = bands[policy, b.rewarder]
            assert band.first <= place <= band.last


def test_a_single_place_is_shown_as_one(tmp_path):
    results = analyse(synthetic_tables(3, 30, 2, 30), draws=100)
    bands = tuple(
        band.model_copy(update={"first": place, "last": place})
        for place, band in enumerate(results.ranks, 1)
    )
    single = results.model_copy(update={"ranks": bands})
    text = write_report(single, None, tmp_path / "r.html").read_text(encoding="utf-8")
    shown = re.findall(r'<td class="n wide" data-v="(\d)"><span class="num">(\d)</span></td>', text)
    assert {("1", "1"), ("2", "2"), ("3", "3")} <= set(shown)
