"""The simulation and the bench run, and a short simulation holds what the long one shows."""

from bon.analysis import bench, validity


def test_a_short_simulation():
    row = validity.coverage(6, 200, 120)
    for name in ("accuracy", "difference", "read", "corrected, true r"):
        assert 0.87 <= row[name] <= 1.0, name
    assert row["measured r"] < row["true r"] < 0.86
    null = validity.null_p(6, 300)
    assert null["p uniform (Kolmogorov-Smirnov)"] > 0.001
    page = validity.page([row], [null], 120, 1.0)
    assert "nan" not in page


def test_loops_and_arrays_agree(capsys):
    bench.small(q=6, m=6, draws=40)
    bench.large(4, 30, 12, 20, 200)
    assert "peak memory" in capsys.readouterr().out
