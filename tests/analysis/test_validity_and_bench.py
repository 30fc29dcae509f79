"""The simulation and the bench run, and a short simulation holds what the long one shows."""

import pytest
from scipy import stats

from tools import bench_analysis
from tools.validity import coverage, populations, verdict_calibration, verdict_rates


def test_a_short_simulation():
    row = coverage.coverage(6, 200, 120)
    for name in ("accuracy", "difference", "read", "posterior, true r"):
        assert 0.87 <= row[name] <= 1.0, name
    assert row["measured r"] < row["true r"] < 0.86
    assert "nan" not in coverage.page([row], 120, 1.0)


def test_what_make_validity_adds():
    few = populations.gains(20, 0.3, 300)
    assert few["percentile"] < few["printed"] < 0.99
    leaks = populations.remembered_leaks(0.88, 120, 8)
    assert leaks["r, all items"] > 0.7
    assert leaks["cannot tell"] == 1
    rare = populations.gate_errors(30, 0.07, 300)
    assert rare["no-go, percentile"] > 0.05 > rare["no-go, printed"]
    assert "nan" not in "".join(populations.page([few], [leaks], [rare]))


def test_the_verdicts_numbers_are_calibrated():
    """Ranks of true r are uniform, and the likelier of two further rewarders wins as often."""
    ranks, pairs, covers = verdict_calibration.calibration(
        verdict_calibration.Errors.simulated(), 8, 150
    )
    assert stats.kstest(ranks, "uniform").pvalue > 0.001
    assert covers[0.95] > 0.88
    assert pairs[:, 0].mean() == pytest.approx(pairs[:, 1].mean(), abs=0.08)


@pytest.mark.parametrize(
    "cells", [verdict_rates.POWER, verdict_rates.BENT, verdict_rates.NOISE, verdict_rates.SHAPES]
)
def test_rates_of_words_are_shares(cells):
    cell = cells[-1]
    found = verdict_rates.rates(cell, 3)
    assert 0 <= sum(found.get(word, 0) for word in verdict_rates.WORDS) <= 1 + 1e-9
    (line,) = verdict_rates.table([(cell, found)])[2:]
    assert line.startswith(f"| {cell.name}")
    assert cell.study(1).x == pytest.approx(cell.study(1).x)


def test_loops_and_arrays_agree(capsys):
    bench_analysis.small(q=6, m=6, draws=40)
    bench_analysis.large(4, 30, 12, 20, 200)
    assert "peak memory" in capsys.readouterr().out
