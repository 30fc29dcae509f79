"""The simulation and the bench run, and a short simulation holds what the long one shows."""

import pytest

from tools import bench_analysis
from tools.validity import coverage, populations


def test_a_short_simulation():
    row = coverage.coverage(6, 200, 120)
    for name in ("accuracy", "difference", "read", "corrected, true r"):
        assert 0.87 <= row[name] <= 1.0, name
    assert row["measured r"] < row["true r"] < 0.86
    null = coverage.null_p(6, 300)
    assert null["p uniform (Kolmogorov-Smirnov)"] > 0.001
    page = coverage.page([row], [null], 120, 1.0)
    assert "nan" not in page


def test_collections_that_are_not_clean():
    by_name = {c.name: c for c in populations.COLLECTIONS}
    apart = populations.row(by_name["from 2 bases, icc .8"], 4)
    assert (apart["interval of r printed"], apart["covers r"], apart["Yes"]) == (0, "–", 0)
    broken = populations.row(by_name["3 of 14 broken, r = 0 among the rest"], 12)
    assert broken["Yes"] <= 0.25  # 15 in 100 before sets of rewarders were left out
    assert broken["measured r"] > 0.6
    shares = [broken[v] for v in ("Yes", "Perhaps", "No", "cannot tell")]
    assert sum(shares) == pytest.approx(1)
    few = populations.gains(20, 0.3, 300)
    assert few["percentile"] < few["printed"] < 0.99
    leaks = populations.remembered_leaks(0.88, 120, 8)
    assert leaks["r, all items"] > 0.7
    assert leaks["cannot tell"] == 1
    rare = populations.gate_errors(30, 0.07, 300)
    assert rare["no-go, percentile"] > 0.05 > rare["no-go, printed"]
    assert "nan" not in "".join(populations.page([apart, broken], [few], [leaks], [rare]))


def test_loops_and_arrays_agree(capsys):
    bench_analysis.small(q=6, m=6, draws=40)
    bench_analysis.large(4, 30, 12, 20, 200)
    assert "peak memory" in capsys.readouterr().out
