"""The real GPT-4o answers to MMMU-Pro, chain of thought and direct, as two candidates."""

import ast
import json
from pathlib import Path

import pandas as pd
import pytest

from bon.analysis.data.tables import COLUMNS, Tables
from bon.analysis.results import Options
from bon.analysis.run import analyse
from bon.policies.extractors import extract_answer

REAL = Path(__file__).parents[2] / ".." / "shared" / "data" / "mmmu_pro_gpt4o"
FILES = ("standard10_cot", "standard10_direct")

pytestmark = pytest.mark.skipif(not REAL.exists(), reason="needs ../shared/data/mmmu_pro_gpt4o")


def real_tables() -> Tables:
    """1,730 questions with two candidates each, read with the official reader."""
    questions, candidates = {}, []
    for index, name in enumerate(FILES):
        for line in (REAL / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            options = ast.literal_eval(row["options"])
            read = extract_answer(str(row["response"]), options)
            questions[row["id"]] = (
                row["id"], row["id"], "MMMU-Pro", row["subject"], row["topic_difficulty"],
                len(options), row["answer"], False,
            )  # fmt: skip
            candidates.append(
                (
                    row["id"], "gpt-4o", index, f"{row['id']}-{index}", read.letter, read.outcome,
                    read.letter == row["answer"], len(row["response"]), 0, None,
                )
            )  # fmt: skip
    frames = {
        "questions": pd.DataFrame(questions.values(), columns=list(COLUMNS["questions"])),
        "candidates": pd.DataFrame(candidates, columns=list(COLUMNS["candidates"])),
    }
    empty = {t: pd.DataFrame(columns=list(c)) for t, c in COLUMNS.items() if t not in frames}
    return Tables(**frames, **empty, meta={"candidate_labels": {"gpt-4o": list(FILES)}})


@pytest.fixture(scope="module")
def results():
    return analyse(real_tables(), Options(draws=500))


def test_each_file_has_its_published_accuracy(results):
    cot, direct = results.policies[0].files
    assert cot.label == "standard10_cot"
    assert cot.accuracy.value == pytest.approx(0.550, abs=0.0005)
    # seven answers cannot be read; the published 40.1 to 40.2 credits them by chance
    assert direct.accuracy.value == pytest.approx(0.401, abs=0.001)
    assert direct.unparsed.value == pytest.approx(7 / 1730)
    assert cot.accuracy.low < 0.55 < cot.accuracy.high


def test_two_candidates(results):
    policy = results.policies[0]
    assert (policy.num_questions, policy.num_candidates) == (1730, 2)
    mean = sum(f.accuracy.value for f in policy.files) / 2
    assert policy.pass_at_1.value == pytest.approx(mean)
    wrong, one, both = policy.correct_per_question
    assert wrong + one + both == 1730
    assert policy.oracle.value == pytest.approx((one + both) / 1730)
    chosen = {b.rewarder: b.accuracy.value for b in results.best_of_n}
    assert chosen["first"] == pytest.approx(policy.files[0].accuracy.value)
    assert "logprob" not in chosen
    # two votes that differ tie, so a vote of two is a random choice, but for unread answers
    assert policy.majority.value == pytest.approx(policy.pass_at_1.value, abs=0.005)
    assert chosen["longest"] > policy.pass_at_1.value + 0.05


def test_subjects_and_difficulty(results):
    single, oracle = (
        next(b.slices for b in results.best_of_n if b.rewarder == name)
        for name in ("random", "oracle")
    )
    subjects = [s for s in oracle if s.by == "subject"]
    assert len(subjects) == 30
    assert {s.name: s.accuracy.n for s in single if s.by == "difficulty"} == {
        "Easy": 528,
        "Medium": 801,
        "Hard": 401,
    }
    easy, medium, hard = (s.accuracy.value for s in single if s.by == "difficulty")
    assert easy > medium > hard
    assert sum(s.accuracy.n * s.accuracy.value for s in subjects) == pytest.approx(
        1730 * results.policies[0].oracle.value
    )
    assert results.finding.verdict == "cannot tell"
