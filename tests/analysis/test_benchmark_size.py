"""Fewer pairs, beside plain loops and every subset."""

from itertools import combinations

import numpy as np
import pytest
from synthetic import analyse, synthetic_tables

from bon.analysis.correlation.paired_accuracies import Label, Measured
from bon.analysis.decision.benchmark_size import how_much, subsets
from bon.analysis.estimators.pair_sets import PairSet, Worth
from bon.analysis.estimators.resampling import Draws
from bon.analysis.results import Estimate, Options

OPTIONS = Options(draws=200)
RNG = np.random.default_rng(0)
R, Q = 7, 60


def rewarders(x: np.ndarray, y: np.ndarray, x_halves=None, seed: int = 0) -> Measured:
    """(R) on both axes, with draws and halves of y about its values."""
    rng = np.random.default_rng(seed)
    r = len(x)
    known = tuple(Estimate(value=0.5, n=Q) for _ in range(r))
    draws = (y[:, None] + rng.normal(0, 0.02, (r, 200))).astype(np.float32)
    halves = y[None, :, None] + rng.normal(0, 0.03, (2, r, 50))
    names = tuple(f"r{i}" for i in range(r))
    return Measured(names, x, y, known, known, None, draws, x_halves, halves)


def benchmark(groups: list[int], clusters: list[int] | None = None) -> PairSet:
    import pandas as pd

    size = len(groups)
    cluster = np.array(clusters if clusters is not None else range(size), dtype=np.int64)
    nothing = np.zeros(size, dtype=np.int64)
    names = tuple(f"g{i}" for i in sorted(set(groups)))
    return PairSet(
        "bench", pd.DataFrame(index=range(size)), nothing, nothing, np.array(groups), names,
        Draws(np.ones((1, size), dtype=np.float32)), cluster,
    )  # fmt: skip


def worth_of(right: np.ndarray) -> Worth:
    return Worth(right.astype(float), np.ones(right.shape))


def test_half_of_the_pairs_is_the_mean_over_every_half():
    right = RNG.random((16, R)) < np.linspace(0.3, 0.9, R)
    pairs, y = benchmark([0] * 8 + [1] * 8), np.linspace(0.4, 0.7, R)
    x = (right[:8].mean(axis=0) + right[8:].mean(axis=0)) / 2
    found = how_much(
        Label("p", "bench", "macro", primary=True), rewarders(x, y), pairs, worth_of(right),
        OPTIONS,
    )  # fmt: skip
    every = [
        np.corrcoef(right[list(a)].mean(axis=0) + right[list(b)].mean(axis=0), y)[0, 1]
        for a in combinations(range(8), 4)
        for b in combinations(range(8, 16), 4)
    ]
    half, whole = found.sizes
    assert (half.num_pairs, whole.num_pairs) == (8, 16)
    assert half.pearson.value == pytest.approx(np.mean(every), abs=4 * np.std(every) / np.sqrt(200))
    low, high = np.quantile(every, [0.025, 0.975])
    assert (half.subsets.low, half.subsets.high) == pytest.approx((low, high), abs=0.05)
    assert whole.pearson.value == pytest.approx(np.corrcoef(x, y)[0, 1])
    assert whole.subsets.low is None


def test_subsets_keep_clusters_together_and_groups_in_proportion():
    pairs = benchmark([0] * 12 + [1] * 6, [i // 3 for i in range(18)])
    inside = subsets(pairs, 0.5, 100, 0)
    for row in inside:
        assert row[:12].sum() == 6
        assert row[12:].sum() == 3
        assert all(len(set(row[3 * c : 3 * c + 3])) == 1 for c in range(6))
    assert len({tuple(row) for row in inside}) > 5
    assert subsets(pairs, 1 / 16, 10, 0).sum(axis=1).tolist() == [6] * 10
    assert subsets(pairs, 1, 1, 0).all()


def test_the_loss_of_the_pick_grows_as_pairs_are_left_out():
    right = RNG.random((400, R)) < np.linspace(0.5, 0.8, R)
    y = np.linspace(0.4, 0.7, R)
    m = rewarders(right.mean(axis=0), y)
    pairs = benchmark([0] * 400)
    found = how_much(Label("p", "bench", "overall"), m, pairs, worth_of(right), OPTIONS)
    losses = [s.loss.value for s in found.sizes]
    assert [s.num_pairs for s in found.sizes] == [25, 50, 100, 200, 400]
    assert losses[0] > losses[-1]
    assert all(s.loss.low <= s.loss.value <= s.loss.high for s in found.sizes)
    assert "With random halves of the 400 pairs of bench, r on p is" in found.sentences[0]
    few = m.keep(np.arange(3))
    worth = worth_of(right[:, :3])
    assert how_much(Label("p", "b", "overall"), few, pairs, worth, OPTIONS) is None


def test_the_whole_benchmark_is_the_correlation_and_its_decision():
    tables = synthetic_tables(num_rewarders=8, num_questions=60, num_pairs=80)
    results = analyse(tables, draws=100, permutations=100)
    (found,) = results.how_much
    main = next(c for c in results.correlations if (c.axis, c.leaks) == ("macro", "in"))
    assert found.sizes[-1].pearson.value == pytest.approx(main.pearson.estimate.value, abs=1e-6)
    (decision,) = results.decisions
    assert found.sizes[-1].loss.value == pytest.approx(decision.shortlists[0].loss.value, abs=1e-6)
