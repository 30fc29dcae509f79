"""Several runs as one meta-analysis: beside published results, brute force and a known truth."""

import json

import numpy as np
import pytest
from scipy import stats
from synthetic import analyse, synthetic_tables
from test_robustness import studied
from typer.testing import CliRunner

from bon.analysis import plots
from bon.analysis.decision.pool_runs import next_study, pool_runs, random_effects
from bon.commands.main import app
from bon.core.errors import BonError

# Molloy, O'Carroll and Ferguson (2014): conscientiousness and adherence, 16 correlations.
N = [109, 749, 55, 107, 72, 65, 174, 326, 58, 771, 56, 91, 116, 537, 158, 65]
CORRELATIONS = [
    0.187, 0.162, 0.340, 0.320, 0.270, 0.000, 0.175, 0.050, 0.260, 0.010, -0.090, 0.370, 0.000,
    0.150, 0.240, 0.040,
]  # fmt: skip

# Colditz and others (1994): 13 trials of the BCG vaccine; ill and well, vaccinated and not.
TRIALS = np.array([
    (4, 119, 11, 128), (6, 300, 29, 274), (3, 228, 11, 209), (62, 13536, 248, 12619),
    (33, 5036, 47, 5761), (180, 1361, 372, 1079), (8, 2537, 10, 619), (505, 87886, 499, 87892),
    (29, 7470, 45, 7232), (17, 1699, 65, 1600), (186, 50448, 141, 27197), (5, 2493, 3, 2338),
    (27, 16886, 29, 17825),
])  # fmt: skip


def test_correlations_as_published():
    """What metafor prints for this data (REML): tau², I², Q, the mean and its standard error."""
    found = random_effects(np.arctanh(CORRELATIONS), 1 / (np.array(N) - 3))
    assert found.mean == pytest.approx(0.1499, abs=5e-5)
    assert found.tau2 == pytest.approx(0.0081, abs=5e-5)
    assert found.q == pytest.approx(38.1595, abs=5e-5)
    assert found.q_p == pytest.approx(0.0009, abs=5e-5)
    assert found.i_squared == pytest.approx(0.6173, abs=5e-5)
    plain = np.sqrt(1 / (1 / (1 / (np.array(N) - 3) + found.tau2)).sum())
    assert plain == pytest.approx(0.0316, abs=5e-5)


def test_the_vaccine_trials_as_published():
    a, b, c, d = TRIALS.T
    ratio = np.log(a / (a + b)) - np.log(c / (c + d))
    variance = 1 / a - 1 / (a + b) + 1 / c - 1 / (c + d)
    found = random_effects(ratio, variance)
    assert found.tau2 == pytest.approx(0.3132, abs=5e-5)
    assert found.i_squared == pytest.approx(0.9222, abs=5e-5)
    assert found.mean == pytest.approx(-0.7145, abs=5e-5)
    assert found.q == pytest.approx(152.2330, abs=5e-4)


@pytest.mark.parametrize("seed", range(8))
def test_it_is_what_brute_force_finds(seed):
    """tau² by a fine grid of the restricted likelihood; Hartung and Knapp by its definition."""
    rng = np.random.default_rng(seed)
    k = 3 + seed
    variances = rng.uniform(0.02, 0.2, k)
    values = rng.normal(0.5, np.sqrt(variances + 0.1 * (seed % 2)))
    found = random_effects(values, variances)
    grid = np.linspace(0, 3, 300_001)[:, None]
    w = 1 / (variances + grid)
    mean = (w * values).sum(1) / w.sum(1)
    loss = (w * (values - mean[:, None]) ** 2).sum(1) - np.log(w).sum(1) + np.log(w.sum(1))
    tau2 = float(grid[loss.argmin(), 0])
    assert found.tau2 == pytest.approx(tau2, abs=2e-5)
    w = 1 / (variances + tau2)
    mu = (w * values).sum() / w.sum()
    error = np.sqrt(max((w * (values - mu) ** 2).sum() / (k - 1), 1) / w.sum())
    t = stats.t.ppf(0.975, k - 1)
    assert found.interval(0.95) == pytest.approx((mu - t * error, mu + t * error), abs=1e-3)
    assert found.interval(0.95, error=9.0)[1] == pytest.approx(mu + 9 * t, abs=1e-3)


def test_the_interval_of_the_mean_and_the_next_policy_hold():
    """Coverage over 600 collections of six studies with normal true values."""
    rng = np.random.default_rng(0)
    mean = following = 0
    for _ in range(600):
        true = rng.normal(0.8, 0.3, 7)
        variances = 1 / (rng.integers(8, 30, 7) - 3)
        seen = rng.normal(true, np.sqrt(variances))
        low, high = random_effects(seen[:6], variances[:6]).interval(0.95)
        mean += low <= 0.8 <= high
        low, high = next_study(seen[:6], 0.95)
        following += low <= seen[6] <= high
    assert 0.94 <= mean / 600 <= 0.99
    assert 0.92 <= following / 600 <= 0.97
    assert np.isnan(next_study(np.ones(2), 0.95)).all()


def run(seed: int, rewarders: int = 7, policies: tuple[str, ...] = ("a", "b")):
    tables = synthetic_tables(
        num_rewarders=rewarders, num_questions=40, num_pairs=60, policies=policies, seed=seed
    )
    tables.rewarders["family"] = [f"base-{i}" for i in range(rewarders)]
    return analyse(tables, draws=100, permutations=100)


@pytest.fixture(scope="module")
def runs():
    return [("first", run(0)), ("second", run(1, policies=("c",)))]


def test_runs_are_pooled_over_their_policies(runs):
    (found,) = pool_runs(runs)
    assert [(s.run, s.policy) for s in found.studies] == [
        ("first", "a"), ("first", "b"), ("second", "c"),
    ]  # fmt: skip
    primary = [c for _, r in runs for c in r.correlations if c.primary]
    z = np.arctanh([c.pearson.estimate.value for c in primary])
    plain = random_effects(z, np.full(3, 1 / 4))
    assert found.pearson.mean.value == pytest.approx(np.tanh(plain.mean))
    low, high = np.tanh(plain.interval(0.95))
    assert found.pearson.mean.low <= low + 1e-9
    assert found.pearson.mean.high >= high - 1e-9
    half = stats.t.ppf(0.975, 2) * z.std(ddof=1) * np.sqrt(4 / 3)
    assert np.arctanh(found.pearson.predicted.high) == pytest.approx(z.mean() + half)
    assert (found.num_rewarders, found.num_bases) == (7, 7)
    assert any("in more than one study" in w for w in found.warnings)
    assert sum(s.weight for s in found.studies) == pytest.approx(1)
    for i, study in enumerate(found.studies):
        others = random_effects(np.delete(z, i), np.full(2, 1 / 4))
        assert study.without.value == pytest.approx(np.tanh(others.mean))
    assert found.studies[2].without == pool_runs(runs[:1])[0].pearson.mean


def test_few_bases_and_single_studies_are_not_pooled_into_an_interval(runs):
    few = [
        (name, r.model_copy(update={"correlations": tuple(
            c.model_copy(update={"points": tuple(p.model_copy(update={"family": "one"})
                                                 for p in c.points)})
            for c in r.correlations)}))
        for name, r in runs
    ]  # fmt: skip
    (found,) = pool_runs(few)
    assert found.pearson.mean.low is None
    assert found.pearson.predicted.low is not None  # of the same rewarders
    assert any("no interval holds below 5 base models" in w for w in found.warnings)
    with pytest.raises(BonError, match="no two studies"):
        pool_runs(runs[1:])


def test_a_base_that_all_studies_share_widens_the_interval():
    """Twelve studies of the same rewarders say no more of other rewarders than one does."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=8)
    y = 0.6 * x + 0.8 * rng.normal(size=8)
    results = run(0, policies=("a",))
    cs = []
    for i in range(12):
        c = studied(x, y + 0.01 * rng.normal(size=8))
        points = tuple(
            p.model_copy(update={"x": p.x.model_copy(update={"value": a}),
                                 "y": p.y.model_copy(update={"value": b})})
            for p, a, b in zip(c.points, x, y, strict=True)
        )  # fmt: skip
        cs.append(c.model_copy(update={"policy": f"p{i}", "points": points}))
    (found,) = pool_runs([("r", results.model_copy(update={"correlations": tuple(cs)}))])
    one = cs[0].pearson.jackknife
    assert found.pearson.mean.high - found.pearson.mean.low > 0.7 * (one.high - one.low)


def test_the_command_and_its_forest(runs, tmp_path):
    for name, results in runs:
        (tmp_path / name).mkdir()
        (tmp_path / name / "results.json").write_text(results.model_dump_json())
    names = [str(tmp_path / name) for name, _ in runs]
    said = CliRunner().invoke(app, ["pool", *names, "--out", str(tmp_path / "out")])
    assert said.exit_code == 0
    assert said.output.startswith("Over 3 policies of 2 runs, synthetic-rewardbench has a mean r")
    assert "the next policy can be expected to show an r between" in said.output
    assert "mean r without it" in said.output
    assert (tmp_path / "out" / "forest.svg").is_file()
    again = CliRunner().invoke(app, ["pool", *names, "--json"])
    assert json.loads(again.output) == json.loads((tmp_path / "out" / "pool.json").read_text())
    twice = CliRunner().invoke(app, ["pool", names[0], names[0]])
    assert "occurs twice" in str(twice.exception)
    (found,) = pool_runs(runs)
    for width in ("single", "double"):
        axes = plots.forest(found, width=width).axes
        shown = [t.get_text() for t in axes[0].get_yticklabels()]
        assert shown == ["first\na", "first\nb", "second\nc", "mean", "next policy"]
