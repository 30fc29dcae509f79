"""Several runs as one meta-analysis: coverage of a known truth, copies, the command."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from synthetic import analyse, synthetic_tables
from typer.testing import CliRunner

from bon.analysis import plots
from bon.analysis.decision.pool_runs import _likelihood, mean_of, pool_runs
from bon.commands.main import app
from bon.core.errors import BonError


def collection(rng, z, n=10, shared=0.0, own=False):
    """Studies with Fisher's z of these sizes; residuals are `shared` in part."""
    x, common = rng.normal(size=(2, n))
    studies = []
    for k, one in enumerate(np.tanh(z)):
        x = rng.normal(size=n) if own else x
        rest = np.sqrt(shared) * common + np.sqrt(1 - shared) * rng.normal(size=n)
        names = tuple(f"m{k if own else 0}-{i}" for i in range(n))
        y = one * x + np.sqrt(1 - one**2) * rest
        studies.append(SimpleNamespace(x=x, y=y, names=names, families=np.array(names)))
    return studies


def pooled(studies):
    return mean_of(studies, [_likelihood(s) for s in studies], 0.95)


@pytest.mark.parametrize(
    ("draw", "studies", "shared", "own"),
    [
        (lambda rng, k: rng.normal(0.8, 0.4, k), 6, 0.0, False),
        (lambda rng, k: np.where(rng.random(k) < 0.5, np.arctanh(0.9), 0.0), 3, 0.0, False),
        (lambda rng, k: np.full(k, 1.1), 2, 0.9, False),
        (lambda rng, k: rng.normal(0.5, 0.5, k), 8, 0.0, True),
    ],
    ids=["normal", "all or nothing", "two policies that err alike", "other rewarders"],
)
def test_the_mean_and_the_next_policy_are_covered(draw, studies, shared, own):
    rng = np.random.default_rng(7)
    target = float(np.tanh(draw(rng, 100_000).mean()))
    mean = following = 0
    for seed in range(60):
        rng = np.random.default_rng([seed, studies])
        *seen, after = collection(rng, draw(rng, studies + 1), shared=shared, own=own)
        found = pooled(seen)
        mean += found.mean.low <= target <= found.mean.high
        r = np.corrcoef(after.x, after.y)[0, 1]
        following += found.predicted.low <= r <= found.predicted.high
    assert mean >= 0.87 * 60
    assert following >= 0.87 * 60


def test_copies_say_no_more_than_one():
    rng = np.random.default_rng(4)
    (one,) = collection(rng, [0.9], n=12)
    alone, many = pooled([one, one]), pooled([one] * 6)
    width = [found.mean.high - found.mean.low for found in (alone, many)]
    assert width[1] > 0.8 * width[0]
    apart = pooled(collection(rng, [0.9] * 6, n=12, own=True))
    assert apart.mean.high - apart.mean.low < 0.8 * width[1]


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
    values = [s.pearson.value for s in found.studies]
    assert found.pearson.mean.low < min(values) <= max(values) < found.pearson.mean.high
    mean, following = found.pearson.mean, found.pearson.predicted
    assert following.low < mean.low < mean.high < following.high
    assert 0 < found.pearson.p_next <= 1
    assert (found.num_rewarders, found.num_bases) == (7, 7)
    assert found.studies[2].without == pool_runs(runs[:1])[0].pearson.mean


def test_a_single_study_is_not_pooled(runs):
    with pytest.raises(BonError, match="no two studies"):
        pool_runs(runs[1:])


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
