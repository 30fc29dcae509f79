"""The rewards of a training run as a report: on streams whose truth is known."""

import json
import sqlite3

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from bon.analysis.drift.reward_stream import analyse_rewards, group_table
from bon.analysis.plots import NothingToDrawError
from bon.analysis.plots.over_time import rewards_over_time
from bon.analysis.report.training_page import training_page
from bon.commands.main import app as command_line
from bon.storage.reward_tables import FILE, REWARD, SCHEMA


def stream(groups=120, size=6, questions=30, seed=1, answers=True, **drifts):
    """Rewards over time t from 0 to 1.

    score, truth, longer: what is added at the end to the score, to the chance of a right answer
    and to the length of 40 (in lengths). fading: the score's sight of the truth is lost.
    """
    rng, rows = np.random.default_rng(seed), []
    for group in range(groups):
        t, question = group / groups, group % questions
        for _ in range(size):
            right = rng.random() < 0.4 + 0.01 * (question % 10) + drifts.get("truth", 0.0) * t
            length = int(40 * (1 + drifts.get("longer", 0.0) * t)) + int(rng.integers(0, 9))
            sight = 1.0 - drifts.get("fading", 0.0) * t
            score = rng.normal() + drifts.get("score", 0.0) * t + sight * right
            rows.append(
                dict(
                    zip(
                        REWARD,
                        (
                            len(rows) + 1, float(group), "me", "r", "head", "s", "best", "raw",
                            f"q{question}", f"x{len(rows)}", f"t{group}", size, score, score,
                            1.0, None, 0, 10, 0.0, int(right) if answers else None,
                        ),
                        strict=True,
                    ),
                    text="x" * length,
                )
            )  # fmt: skip
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("drifts", "verdict"),
    [
        ({"score": 1.5, "truth": 0.4}, "improves"),
        ({"score": 1.5, "truth": -0.35}, "over-optimised"),
        ({"score": 1.5}, "no gain"),
        ({"score": 1.5, "answers": False}, "rises"),
        ({"answers": False}, "steady"),
        ({}, "steady"),
        ({"groups": 19}, "cannot tell"),
    ],
)
def test_the_verdict_is_the_truth_of_the_stream(drifts, verdict):
    report = analyse_rewards(stream(**drifts))
    assert report.verdict == verdict, report.sentence
    assert report.sentence.endswith(".")


def test_a_run_on_one_question_is_compared_by_group():
    """As in per-step logs of trainers: the same prompt at each step, a mean a row."""
    report = analyse_rewards(stream(score=1.5, truth=-0.35, questions=1))
    assert report.verdict == "over-optimised", report.sentence
    assert report.num_questions == 1
    assert ["Fewer than 4 questions" in text for text in report.cautions] == [True]
    means = stream(score=8.0, truth=-0.9, questions=1, size=1)
    means["correct"] = means["correct"] * 0.5 + 0.25
    assert analyse_rewards(means).verdict == "over-optimised"
    assert analyse_rewards(stream(questions=1)).verdict == "steady"


def test_known_answers_are_not_called_unknown_where_groups_are_few():
    assert analyse_rewards(stream(groups=19)).cautions == ()


def test_signals_name_what_drifts_and_nothing_else():
    said = " ".join(analyse_rewards(stream(longer=1.0, fading=1.0)).signals)
    assert "longer" in said
    assert "right above wrong less often" in said
    assert analyse_rewards(stream()).signals == ()


def test_scores_that_compare_within_a_group_say_nothing_of_progress():
    frame = stream(score=2.0)
    frame["score"] = frame.groupby("team")["score"].rank(pct=True) - 0.5 * 7 / 6 + 0.5
    frame["reward"] = frame["score"]
    report = analyse_rewards(frame)
    assert report.fixed
    assert report.verdict == "steady"  # accuracy, which is known, does not change
    assert any("compares the responses" in text for text in report.cautions)
    frame["correct"] = None
    assert analyse_rewards(frame).verdict == "cannot tell"


def test_what_a_group_comes_to():
    frame = stream(groups=1, size=4)
    frame["score"], frame["correct"] = [1.0, 2.0, 2.0, np.nan], [0, 1, 0, 1]
    frame["reward"], frame["response"] = [1.0, 2.0, 2.0, None], ["a", "b", "b", "c"]
    frame["text"] = ["x", "xx", "xxx", "xxxx"]
    group = group_table(frame).iloc[0]
    assert group["score"] == pytest.approx(5 / 3)
    assert group["told_apart"] == pytest.approx(0.75)  # above one wrong response, level with one
    assert group["distinct"] == 0.75
    assert np.isnan(group["flat"])
    assert group["length_pull"] == pytest.approx(np.corrcoef([1, 2, 3], [1, 2, 2])[0, 1])


def test_intervals_of_a_change_cover_the_truth():
    """Where nothing changes, 95 % of the intervals hold 0: questions differ and come again."""
    inside = total = 0
    for seed in range(50):
        for one in analyse_rewards(stream(groups=40, questions=8 - seed % 8, seed=seed)).drifts:
            if one.quantity in ("score", "correct"):
                total += 1
                inside += one.change.low <= 0 <= one.change.high
    assert 0.86 <= inside / total <= 1.0


def test_odd_streams_have_a_page():
    lonely = stream(groups=40, size=1)
    silent = stream(groups=40)
    silent["score"] = silent["reward"] = None
    same = stream(groups=40)
    same["score"] = same["reward"] = 1.0
    for frame in (lonely, silent, same):
        assert analyse_rewards(frame).verdict == "steady"
    page = training_page(analyse_rewards(stream(groups=1)))
    assert "too few groups" in page
    with pytest.raises(NothingToDrawError):
        rewards_over_time(analyse_rewards(stream(groups=1)))


def test_the_command(tmp_path):
    frame = stream()
    with sqlite3.connect(tmp_path / FILE) as db:
        db.executescript(SCHEMA)
        texts = frame[["response", "text"]].itertuples(index=False, name=None)
        db.executemany("INSERT INTO responses VALUES (?, ?)", texts)
        rows = frame[list(REWARD)].astype(object).itertuples(index=False, name=None)
        db.executemany(f"INSERT INTO rewards VALUES ({', '.join('?' * len(REWARD))})", rows)
    run = CliRunner().invoke
    told = run(command_line, ["report", str(tmp_path), "--json"])
    assert json.loads(told.stdout)["num_rewards"] == len(frame)
    assert told.exit_code == 0
    sentence = analyse_rewards(frame).sentence
    assert sentence in (tmp_path / "rewards-r.html").read_text()
    assert json.loads((tmp_path / "rewards-r.json").read_text())["sentence"] == sentence
    for wrong, words in (
        (["report", str(tmp_path), "--run", "x"], "'r'"),
        (["report", str(tmp_path / "none"), "--run", "x"], "holds no rewards"),
    ):
        failed = run(command_line, wrong)
        assert words in str(failed.exception) + failed.output
