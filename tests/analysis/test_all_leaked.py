"""Leaks: the verdict is about what is not leaked, or silent where too little of that remains."""

from dataclasses import replace

import numpy as np
import pytest
from synthetic import synthetic_tables

from bon.analysis.correlation.axes import _too_leaked
from bon.analysis.results import Options
from bon.analysis.run import analyse


@pytest.mark.parametrize("table", ["questions", "pairs"])
def test_everything_leaked(table):
    tables = synthetic_tables(num_rewarders=4, num_questions=40, num_pairs=40)
    getattr(tables, table)["leaked"] = True
    results = analyse(tables, Options(draws=100))
    assert {c.leaks for c in results.correlations} == {"in"}
    assert results.finding.verdict == "cannot tell"
    assert f"0 of 40 {table} are not leaked" in results.finding.sentence


@pytest.mark.parametrize(("pairs", "left", "enough"), [
    (500, 50, True), (500, 49, False), (40, 20, True), (40, 19, False),
])  # fmt: skip
def test_fifty_or_half_must_remain(pairs, left, enough):
    leaked = np.arange(pairs) >= left
    assert (_too_leaked(np.zeros(100, dtype=bool), leaked) == "") == enough
    assert (_too_leaked(leaked, np.zeros(100, dtype=bool)) == "") == enough


def test_the_verdict_leaves_leaks_out_and_states_r_with_them():
    tables = synthetic_tables(num_rewarders=14, num_questions=150, num_pairs=200, link=0.0, seed=3)
    tables.pairs["leaked"] = np.arange(200) % 5 < 3
    tables.questions["leaked"] = np.arange(150) % 5 < 3
    tables.rewarders["family"] = tables.rewarders["rewarder"]
    results = analyse(tables, Options(draws=100))
    (primary,) = [c for c in results.correlations if c.primary]
    assert (primary.leaks, primary.n) == ("out", results.main.n)
    left = replace(tables, pairs=tables.pairs[~tables.pairs["leaked"]])
    kept = {b.rewarder: b.macro.value for b in analyse(left, Options(draws=100)).benchmarks}
    assert all(point.x.value == pytest.approx(kept[point.rewarder]) for point in primary.points)
    other = next(c for c in results.correlations if (c.axis, c.leaks) == ("macro", "in"))
    value = other.pearson.estimate.value
    sign = "−" if value < 0 else ""
    caveat = f"With leaked questions and pairs, r is {sign}{abs(value):.2f}".replace("0.", ".")
    assert any(text.startswith(caveat) for text in results.finding.caveats)
    assert {b.leaks for b in results.correlation_by_n} == {"out"}


def test_a_strong_r_among_too_few_unleaked_pairs_is_no_yes():
    tables = synthetic_tables(num_rewarders=14, num_questions=150, num_pairs=200, link=1.0, seed=3)
    tables.rewarders["family"] = tables.rewarders["rewarder"]
    options = Options(draws=100)
    assert analyse(tables, options).finding.verdict != "cannot tell"
    tables.pairs["leaked"] = np.arange(200) < 160  # 40 remain of 200
    finding = analyse(tables, options).finding
    assert finding.verdict == "cannot tell"
    assert "40 of 200 pairs are not leaked" in finding.sentence
