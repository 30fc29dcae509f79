"""Several tasks in one study: a leaderboard and r for each, and over all with stated weights."""

import numpy as np
import pandas as pd
import pytest

from bon.analysis.report.page import write_report
from bon.analysis.results import Options
from bon.analysis.run import analyse
from bon.analysis.tasks import ALL
from tests.analysis.synthetic import synthetic_tables

OPTIONS = Options(draws=300)


@pytest.fixture(scope="module")
def tables():
    """Two tasks: on `noise` the rewarders choose blindly, whatever their benchmark scores."""
    tables = synthetic_tables(num_questions=240, num_candidates=4, link=1.0, seed=2)
    noise = tables.questions["question"].iloc[160:]
    task = np.where(tables.questions["question"].isin(noise), "noise", "skill")
    judgements = tables.judgements.copy()
    own = judgements["item"].isin(noise)
    rng, outcome = np.random.default_rng(0), judgements["outcome"].to_numpy(dtype=object).copy()
    flips = (own & judgements["outcome"].isin(("first", "second"))).to_numpy()
    outcome[flips] = rng.choice(("first", "second"), flips.sum())
    scores = judgements["score"].to_numpy(dtype=float).copy()
    scored = (own & judgements["score"].notna()).to_numpy()
    scores[scored] = rng.normal(size=scored.sum())
    judgements["outcome"], judgements["score"] = outcome, scores
    questions = tables.questions.assign(dataset=task)
    return type(tables)(
        questions, tables.candidates, tables.pairs, judgements, tables.rewarders, tables.meta
    )


def _accuracies(report):
    rows = [(r.task, r.rewarder, r.accuracy.value) for r in report.accuracies]
    return pd.DataFrame(rows, columns=["task", "rewarder", "value"]).pivot(
        index="rewarder", columns="task", values="value"
    )


def test_every_task_has_its_leaderboard_and_its_r(tables, tmp_path):
    results = analyse(tables, OPTIONS)
    (report,) = results.by_task
    assert [(t.name, t.num_questions) for t in report.tasks] == [("skill", 160), ("noise", 80)]
    assert "Every question counts once" in report.sentence
    r = {row.task: row.pearson.value for row in report.correlations}
    assert r["skill"] > 0.8 > abs(r["noise"]) + 0.2
    assert not report.agree
    assert r["noise"] < r[ALL]
    p = {row.task: row.p_yes for row in report.correlations}
    assert p["noise"] < p["skill"]
    assert "Every question counts once: skill 67%, noise 33%." in report.sentence
    assert report.sentence in results.finding.caveats
    table = _accuracies(report)
    overall = {b.rewarder: b.accuracy.value for b in results.best_of_n if b.headline}
    for rewarder, row in table.iterrows():
        assert row[ALL] == pytest.approx(row["skill"] * 2 / 3 + row["noise"] / 3)
        assert row[ALL] == pytest.approx(overall[rewarder]), "each question counts once"
    page = write_report(results, None, tmp_path / "report.html").read_text()
    assert "Does it hold on every task?" in page


def test_a_task_is_as_if_it_were_alone(tables):
    (report,) = analyse(tables, OPTIONS).by_task
    keys = tables.questions.loc[tables.questions["dataset"] == "noise", "question"]
    alone = type(tables)(
        tables.questions[tables.questions["question"].isin(keys)].reset_index(drop=True),
        tables.candidates[tables.candidates["question"].isin(keys)],
        tables.pairs,
        tables.judgements[
            tables.judgements["item"].isin(keys) | (tables.judgements["item_kind"] == "pair")
        ],
        tables.rewarders,
        tables.meta,
    )
    results = analyse(alone, OPTIONS)
    assert not results.by_task
    table = _accuracies(report)["noise"]
    for b in results.best_of_n:
        if b.headline and b.rewarder in table.index:
            assert table[b.rewarder] == pytest.approx(b.accuracy.value)
    (row,) = [row for row in report.correlations if row.task == "noise"]
    assert row.pearson.value == pytest.approx(results.main.pearson.estimate.value)


def test_stated_weights_are_those_of_the_mean(tables):
    tables.meta["tasks"] = {"skill": 1.0, "noise": 3.0}
    (report,) = analyse(tables, OPTIONS).by_task
    assert "Weights as stated" in report.sentence
    assert [t.weight for t in report.tasks] == [0.25, 0.75]
    table = _accuracies(report)
    assert np.allclose(table[ALL], 0.25 * table["skill"] + 0.75 * table["noise"])
    width = {(r.rewarder, r.task): r.accuracy.high - r.accuracy.low for r in report.accuracies}
    for rewarder in table.index:
        parts = 0.25 * width[rewarder, "skill"], 0.75 * width[rewarder, "noise"]
        assert width[rewarder, ALL] == pytest.approx(np.hypot(*parts), rel=0.25)
    assert "Weights as stated" in report.sentence
    del tables.meta["tasks"]
