"""Gains by trainings measured elsewhere, in a published table."""

import numpy as np
import pandas as pd
import pytest

from bon.analysis.published import correlate_table
from bon.analysis.results import Options
from bon.commands.decide_text import correlation_text
from bon.core.errors import BonError

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
