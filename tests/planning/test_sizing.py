"""`bon plan --budget` and `--target-width`: from what a run found to the size of a study."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from bon.analysis.correlation.allocation import (
    Prices,
    Size,
    cheapest,
    components,
    narrowest,
    simulate,
    studies,
    with_yes,
)
from bon.analysis.results import Components, Options, Results, RunCompleteness, Spread
from bon.analysis.run import analyse
from bon.commands.main import app
from tests.analysis.synthetic import synthetic_tables

QUICK = Options(draws=200, permutations=200, subsets=16)


@pytest.fixture(scope="module")
def results() -> Results:
    return analyse(synthetic_tables(num_rewarders=10, num_questions=150), QUICK)


def test_components_are_those_of_the_world(results):
    """Rewarders, questions (common to all) and noise of known variances."""
    rng = np.random.default_rng(0)
    rewarder, question = rng.normal(0, 0.1, 12), rng.normal(0, 0.3, (4000, 1))
    values = 0.5 + rewarder + question + rng.normal(0, 0.4, (4000, 12))
    (correlation,) = [c for c in results.correlations if c.primary]
    reliable = correlation.reliability
    assert reliable is not None

    class Axes:
        x, y = rewarder, rewarder
        x_estimates = (results.main.points[0].x,)

    found = components(correlation, Axes, {8: values}, 1.0)
    assert found.y[0].noise == pytest.approx(0.16, rel=0.05)
    assert found.y[0].between == pytest.approx(rewarder.var(ddof=1), rel=0.05)
    assert found.x.between + found.x.noise / found.pairs == pytest.approx(rewarder.var(ddof=1))
    assert found.true_r == 0.99
    some = components(correlation, Axes, {8: values}, 0.5)
    assert some.questions == 2000
    assert some.y[0].noise == pytest.approx(found.y[0].noise / 2)

    Axes.y = np.full(12, 0.5)  # every rewarder has the same Best-of-N accuracy
    assert components(correlation, Axes, {8: values}, 1.0) is None


def test_a_study_like_the_run_costs_what_the_run_did(results):
    (found,) = results.components
    prices = Prices.of(results, found)
    paid = [j.calls_pairs + j.calls_candidates for j in results.judging]
    here = Size(found.rewarders, found.questions, found.pairs, found.y[-1].n)
    assert prices.of_study(here) == pytest.approx(sum(paid), rel=0.01)


def test_more_of_anything_is_narrower_and_the_best_of_each_is_found():
    found = Components(
        policy="p", benchmark="b", axis="macro", rewarders=12, questions=200, pairs=300,
        true_r=0.9, x=Spread(n=1, between=0.013, noise=0.11),
        y=(Spread(n=4, between=0.003, noise=0.06), Spread(n=8, between=0.006, noise=0.12)),
    )  # fmt: skip
    prices = Prices(2.0, 56.0, 8, 1.0)
    base = simulate(found, prices, Size(12, 200, 300, 8))
    for size in (Size(30, 200, 300, 8), Size(12, 3200, 300, 8), Size(12, 200, 5000, 8)):
        more = simulate(found, prices, size)
        assert more.width < base.width
        assert more.calls > base.calls
    assert prices.of_study(Size(1, 1, 0, 4)) == 12  # 4 · 3 of the 8 · 7 calls
    made = studies(found, prices, 8, questions=800, pairs=600, budget=150_000)
    best = narrowest(made)
    assert max(study.calls for study in best) <= 150_000
    assert all(study.size.questions <= 800 and study.size.pairs <= 600 for study in made)
    by_rewarders = {study.size.rewarders: study for study in best}
    assert len(by_rewarders) == len(best)
    for study in made:
        assert by_rewarders[study.size.rewarders].width <= study.width + 5e-4
    for study in cheapest(made, 0.3):
        assert study.width <= 0.3
    few, many = (with_yes(found, simulate(found, prices, Size(n, 800, 600, 8))) for n in (6, 30))
    assert few.yes == 0
    assert many.yes > 0.5


def test_plan_says_it_from_a_run(results, make_experiment, tmp_path):
    experiment, run = tmp_path / "e.yaml", tmp_path / "run"
    experiment.write_text(json.dumps(make_experiment()))
    command = ["plan", str(experiment), "--out", str(run), "--budget", "60000"]
    refused = CliRunner().invoke(app, command)
    assert refused.exit_code
    assert "no results yet" in str(refused.exception)
    run.mkdir()
    (run / "results.json").write_text(results.model_dump_json())
    said = CliRunner().invoke(app, command)
    assert said.exit_code == 0, said.exception
    assert "60,000 judge calls; from 10 rewarders" in said.stdout
    assert said.stdout.count(" %") > 3  # how often the verdict is yes
    command[-2:] = ["--target-width", "0.3", "--json"]
    (size,) = json.loads(CliRunner().invoke(app, command).stdout)["sizes"]
    assert size["goal"] == "an interval of r of width 0.3"
    assert all(study["width"] <= 0.3 for study in size["studies"])


def test_a_pilot_judges_a_random_part_and_plans(results, make_experiment, tmp_path, monkeypatch):
    experiment, run = tmp_path / "e.yaml", tmp_path / "run"
    experiment.write_text(json.dumps(make_experiment(questions=100)))
    asked = []
    whole = results.model_copy(update={"completeness": RunCompleteness(complete=True)})

    def run_setup(setup, directory, **_options):
        asked.append(setup.experiment.questions.subset)
        directory.mkdir()
        (directory / "results.json").write_text(whole.model_dump_json())
        return directory / "report.html"

    monkeypatch.setattr("bon.running.runner.run", run_setup)
    command = ["run", str(experiment), "--out", str(run), "--pilot", "40"]
    said = CliRunner().invoke(app, command)
    assert said.exit_code == 0, said.exception
    assert asked == [0.4]
    assert "an interval of r of width 0.15" in said.stdout
