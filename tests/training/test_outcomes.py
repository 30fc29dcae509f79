"""Gains by trainings measured elsewhere: in a published table, and imported into a run."""

import json

import numpy as np
import pandas as pd
import pytest

from bon.analysis.published import correlate_table
from bon.analysis.results import Options, Results
from bon.commands.decide_text import correlation_text
from bon.commands.main import main
from bon.core.errors import BonError
from bon.running.reporting import report_run
from bon.training.import_outcomes import import_outcomes

FAST = Options(draws=200)


def table(rewarders: int = 17) -> pd.DataFrame:
    """Best-of-N follows the benchmark; PPO follows it within other families alone."""
    rng = np.random.default_rng(3)
    score = np.linspace(40, 80, rewarders)
    own = np.arange(rewarders) % 2 == 0
    return pd.DataFrame(
        {
            "model": [f"r{i}" for i in range(rewarders)],
            "macro": score,
            "best_of_n": 30 + score / 4 + rng.normal(size=rewarders),
            "ppo": np.where(own, 60 - score / 10, 50 + score / 10),
            "family": [f"f{i}" for i in range(rewarders)],
        }
    )


def test_a_column_of_gains_by_training_is_an_outcome_with_its_own_verdict():
    report = correlate_table(table(), FAST)
    chosen, trained = report.correlations
    assert [(c.axis, c.outcome) for c in (chosen, trained)] == [
        ("macro", "best_of_n"),
        ("macro", "ppo"),
    ]
    assert chosen.pearson.estimate.value > 0.9
    assert trained.num_rewarders == 17
    assert abs(trained.spearman.estimate.value) < 0.2
    assert trained.pearson.estimate.low < 0 < trained.pearson.estimate.high
    assert {v.outcome: v.word for v in report.verdicts} == {
        "best_of_n": "yes",
        "ppo": "cannot tell",
    }
    (agreement,) = report.agreement
    assert (agreement.x, agreement.method) == ("best_of_n", "ppo")
    assert "Outcomes with each other" in correlation_text(report)


def test_one_base_model_has_no_interval():
    shared = correlate_table(table().assign(family="f0"), FAST)
    assert all(c.pearson.estimate.low is None for c in shared.correlations)


def test_rows_before_and_after_training_become_gains_over_seeds():
    wide = table()
    rows = [
        row | {"method": "ppo", "seed": seed, "before": 50.0, "after": row["ppo"] + shift}
        for row in wide.to_dict("records")
        for seed, shift in ((0, -1.0), (1, 1.0))
    ]
    long = correlate_table(pd.DataFrame(rows).drop(columns="ppo"), FAST)
    direct = correlate_table(wide, FAST)
    assert long.correlations[0] == direct.correlations[0]
    assert long.correlations[1].pearson.estimate.value == pytest.approx(
        direct.correlations[1].pearson.estimate.value
    )


def test_a_table_without_best_of_n_has_a_verdict_on_training():
    """Of a downward line: noise turns no sign, so it needs no counts."""
    rows = table().drop(columns="best_of_n")
    rows["dpo"] = 30 - rows["macro"] / 10 + np.random.default_rng(0).normal(size=17)
    report = correlate_table(rows.drop(columns="ppo"), FAST)
    assert report.finding.verdict == "reverse"
    assert report.finding.sentence.startswith("No, reverse")
    assert "a higher macro have a lower dpo" in report.finding.sentence
    with pytest.raises(BonError, match="no column with the Best-of-N accuracy"):
        correlate_table(table().drop(columns=["best_of_n", "ppo"]), FAST)


def test_imported_outcomes_are_the_third_column_of_the_report(
    make_experiment, go, tmp_path, capsys, monkeypatch
):
    directory = go(make_experiment(12))
    report_run(directory, quiet=True)
    file = tmp_path / "trained.csv"
    file.write_text(
        "judge,method,seed,before,after,n\n"
        "judge,dpo,0,55.8,48,6000\njudge,dpo,1,55.8,48.4,6000\nhead,dpo,0,55.8,59,6000\n"
        "(random),dpo,0,55.8,54,6000\n"
    )
    monkeypatch.setattr("sys.argv", ["bon", "import", str(file), "--out", str(directory)])
    for _ in range(2):  # the second time changes nothing
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code, capsys.readouterr().err
    output = capsys.readouterr()
    assert "trained (dpo)" in output.out + output.err
    assert "4 training outcomes" in output.out
    results = Results.model_validate_json((directory / "results.json").read_bytes())
    (study,) = results.trained
    arms = {arm.arm: arm for arm in study.arms}
    assert arms["judge"].greedy.value == pytest.approx(-0.076)
    assert arms["judge"].num_seeds == 2
    assert arms["judge"].greedy.high < 0
    assert arms["judge"].benchmark is not None
    assert arms["judge"].best_of_n is not None
    assert arms["head"].over_random.value == pytest.approx(0.05)
    assert arms["random"].reference
    page = (directory / "report.html").read_text()
    assert "trained, DPO" in page
    assert "Gain by training against benchmark accuracy" in page
    assert (directory / "tables" / "trained.csv").is_file()


def test_outcomes_that_do_not_fit_the_run_are_refused(make_experiment, go, tmp_path):
    directory = go(make_experiment(8))
    report_run(directory, quiet=True)
    file = tmp_path / "trained.csv"
    for text, message in (
        ("rewarder,before,after\nnobody,50,51\n", "the run has no rewarder nobody"),
        ("rewarder,policy,before,after\nhead,other,50,51\n", "the run has no policy other"),
        ("rewarder,after\nhead,50\n", "no numbers in column 'before'"),
        ("rewarder,before,after\nhead,50,\n", "'after'"),
        ("rewarder,before,after\nhead,50,500\n", "outside 0 to 100"),
    ):
        file.write_text(text)
        with pytest.raises(BonError, match=message):
            import_outcomes([file], directory)
    assert not (directory / "uplift").exists()


def test_results_of_questions_are_paired(make_experiment, go, tmp_path):
    directory = go(make_experiment(8))
    report_run(directory, quiet=True)
    rng = np.random.default_rng(0)
    before = rng.integers(0, 2, 400)
    after = np.where(rng.random(400) < 0.1, 1, before)
    frame = pd.DataFrame({"rewarder": "head", "before": before, "after": after})
    file = tmp_path / "trained.csv"
    frame.assign(question=range(400)).to_csv(file, index=False)
    import_outcomes([file], directory)
    report_run(directory, quiet=True)
    stored = json.loads((directory / "results.json").read_text())["trained"][0]["arms"][0]
    gain = stored["greedy"]
    assert gain["n"] == 400
    difference = after - before
    assert gain["value"] == pytest.approx(difference.mean())
    half = 1.96 * difference.std(ddof=1) / 20
    assert gain["high"] - gain["value"] == pytest.approx(half, rel=1e-3)
