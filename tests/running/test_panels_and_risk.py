"""Panels of the benchmark's best, and answers with a bounded risk: by hand and by simulation."""

import json

import numpy as np
import pytest
from markupsafe import escape
from scipy import stats

from bon.analysis.decision.abstention import least_lead, upper_bound
from bon.commands.main import main
from bon.running.reporting import read_results, report_run


def test_clopper_and_pearson():
    for wrong, answered in ((0, 10), (3, 20), (19, 20), (20, 20), (0, 0)):
        expected = stats.beta.ppf(0.9, wrong + 1, answered - wrong) if answered > wrong else 1.0
        assert upper_bound(wrong, answered, 0.9) == pytest.approx(expected)


@pytest.mark.parametrize(("skill", "risk"), [(1.2, 0.2), (0.0, 0.3), (1.2, 0.3), (2.5, 0.1)])
def test_the_risk_is_above_its_bound_in_at_most_a_tenth_of_1000_splits(skill, risk):
    """Leads that tell much, or nothing, at an error near the bound; some are equal."""
    rng = np.random.default_rng(int(10 * skill + 100 * risk))
    lead = np.round(rng.exponential(size=50_000), 2)
    error = 0.305 if skill == 0 else 1 / (1 + np.exp(skill * lead - 0.2))
    wrong = rng.random(len(lead)) < error
    violations, answered = 0, []
    for _ in range(1000):
        drawn = rng.integers(len(lead), size=200)
        threshold = least_lead(lead[drawn], wrong[drawn], risk, 0.9, rng)
        if threshold is not None:
            violations += wrong[lead >= threshold].mean() > risk
            answered.append((lead >= threshold).mean())
    assert violations <= 100 + 2.4 * np.sqrt(90)
    assert skill == 0 or np.mean(answered) > 0.15


def test_leads_of_equal_texts_are_always_answered():
    rng = np.random.default_rng(0)
    lead, wrong = np.full(200, np.inf), np.zeros(200, dtype=bool)
    assert least_lead(lead, wrong, 0.2, 0.9, rng) == np.finfo(float).max
    assert least_lead(np.full(200, -1.0), wrong, 0.2, 0.9, rng) is None
    assert least_lead(lead[:3], wrong[:3], 0.2, 0.9, rng) is None


def test_panels_of_a_run(make_experiment, go):
    experiment = make_experiment(questions=60, pairs=60, analysis={"bootstrap": 100})
    experiment["rewarders"].append(
        {"name": "both", "kind": "ensemble", "combine": "scores", "engine": "none",
         "members": ["critic", "head"]}
    )  # fmt: skip
    directory = go(experiment)
    page = report_run(directory, quiet=True)
    results = read_results(directory)
    (found,) = results.panels
    accuracy = {b.rewarder: b.accuracy.value for b in results.best_of_n if b.headline}
    scores = {b.rewarder: b.macro.value for b in results.benchmarks}
    assert [s.size for s in found.sizes] == [1, 2, 3]
    order = [scores[s.added] for s in found.sizes]
    assert order == sorted(order, reverse=True)
    assert found.sizes[0].over_pick.value == 0
    for s in found.sizes:
        if s.added != "judge":  # whose shares among all with copies differ
            assert s.alone == pytest.approx(accuracy[s.added])
        assert s.over_pick.value == pytest.approx(s.accuracy.value - found.sizes[0].accuracy.value)
        assert s.ensemble is not None
    best = max(s.accuracy.value for s in found.sizes)
    assert found.sizes[found.size - 1].accuracy.value == best
    assert found.held_out.low <= found.held_out.value <= found.held_out.high
    assert -1 <= found.error_correlation <= 1
    gained = found.rescued.value - found.spoilt.value
    assert gained == pytest.approx(found.sizes[found.size - 1].over_pick.value, abs=0.1)
    assert escape(found.sentence) in page.read_text("utf-8")
    units = {b.rewarder: b.unit for b in results.best_of_n if b.headline and b.unit}
    assert {"critic", "head", "judge", "both"} <= set(units)
    assert "both" in accuracy


def test_gate_by_risk(make_experiment, go, monkeypatch, capsys):
    experiment = make_experiment(questions=80, pairs=60, analysis={"bootstrap": 100})
    skipped = go(experiment, out="skipped")
    report_run(skipped, quiet=True)

    def gate(*arguments):
        monkeypatch.setattr("sys.argv", ["bon", "gate", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            main()
        return stopped.value.code, *capsys.readouterr()

    code, _, error = gate(skipped, "--risk", "0.2", "--rewarder", "judge")
    assert code == 2
    assert "judging.judge_unanimous=true" in error
    directory = go({**experiment, "judging": {"judge_unanimous": True}}, out="every")
    report_run(directory, quiet=True)
    code, text, _ = gate(directory, "--risk", "0.4", "--rewarder", "judge")
    assert code == 0
    assert text.startswith("go: judge on policy answers")
    code, text, _ = gate(directory, "--risk", "0.01", "--rewarder", "judge", "--json")
    assert code == 3
    (found,) = json.loads(text)["gates"]
    assert found["lead"] is None
    error = found["error_of_all"]["value"]
    assert found["least_abstained"] == pytest.approx((error - 0.01) / 0.99)
    assert gate(directory, "--risk", "0.2", "--rewarder", "nobody")[0] == 2
    assert "give --min-gain, --risk or --judge" in gate(directory)[2]
    code, text, _ = gate(directory, "--judge", "tpr=.2", "--rewarder", "critic")
    assert code == 0
    assert "go: critic tpr" in text
