"""The written files: schemas, determinism, disjoint sets."""

import ast
import io
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from PIL import Image

from bon.miniature import data
from tools.miniature import data as made
from tools.miniature.world import GROUPS, LETTERS, make, response, split_of


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return data.write(tmp_path_factory.mktemp("data"), num_questions=70, num_pairs=90)


def test_questions_are_in_mmmu_pros_schema(written: tuple[Path, Path]) -> None:
    rows = pq.read_table(written[0]).to_pylist()
    assert len(rows) == 70
    assert len({row["id"] for row in rows}) == 70
    for row in rows:
        options = ast.literal_eval(row["options"])
        assert isinstance(row["options"], str)
        assert 4 <= len(options) <= 10
        assert LETTERS.index(row["answer"]) < len(options)
        assert row["topic_difficulty"] in {"Easy", "Medium", "Hard"}
        images = [row[f"image_{i}"] for i in range(1, 8)]
        shown = [image for image in images if image is not None]
        assert images[: len(shown)] == shown
        assert len(shown) == 1 + (row["subject"] == "Comparison")
        for number, image in enumerate(shown, 1):
            assert f"<image {number}>" in row["question"]
            assert Image.open(io.BytesIO(image["bytes"])).size == (112, 112)
    assert {row["subject"] for row in rows} == set(GROUPS)
    fewer = [row for row in rows if len(ast.literal_eval(row["options"])) < 10]
    assert 0 < len(fewer) < 20


def test_pairs_are_in_vl_rewardbenchs_schema(written: tuple[Path, Path]) -> None:
    rows = pq.read_table(written[1]).to_pylist()
    assert len(rows) == 90
    assert len({row["id"] for row in rows}) == 90
    for row in rows:
        assert sorted(row["human_ranking"]) == [0, 1]
        assert len(row["response"]) == 2
        better = row["response"][row["human_ranking"].index(0)]
        worse = row["response"][row["human_ranking"].index(1)]
        letter = row["ground_truth"][-1]
        assert better.endswith(f"Answer: {letter}")
        assert not worse.endswith(f"Answer: {letter}")
        hallucination = row["id"].startswith("RLAIF-V-")
        reasoning = row["id"].startswith("mathverse_")
        group = "hallucination" if hallucination else "reasoning" if reasoning else "general"
        assert row["group"] == group
        assert Image.open(io.BytesIO(row["image"]["bytes"])).size == (112, 112)
    assert [sum(row["group"] == g for row in rows) for g in made.PREFIXES] == [30, 30, 30]
    firsts = sum(row["human_ranking"] == [0, 1] for row in rows)
    assert 30 < firsts < 60  # the better one is not always first


def test_writing_twice_gives_the_same_and_another_seed_another(tmp_path: Path) -> None:
    one = data.write(tmp_path / "one", num_questions=20, num_pairs=20)
    two = data.write(tmp_path / "two", num_questions=20, num_pairs=20)
    for first, second in zip(one, two, strict=True):
        assert pq.read_table(first).equals(pq.read_table(second))
    assert made.questions(10) == made.questions(20)[:10]
    assert made.questions(10, seed=1) != made.questions(10)


def test_the_shipped_rows_are_those_that_are_made(tmp_path: Path) -> None:
    made.write_rows(tmp_path)
    for name in ("questions.jsonl", "pairs.jsonl"):
        assert (tmp_path / name).read_bytes() == (data.FOLDER / name).read_bytes()


def test_training_benchmark_and_downstream_share_no_board() -> None:
    boards = {
        "train": [make(seed, "train") for seed in range(300)],
        "downstream": [make(index, "downstream") for index in range(300)],
        "benchmark": [make(p["seed"], "benchmark", p["subject"]) for p in made.stored_pairs()],
    }
    seen = {}
    for split, questions in boards.items():
        seen[split] = {scene.kinds for q in questions for scene in q.scenes}
        assert {split_of(kinds) for kinds in seen[split]} == {split}
    assert not seen["train"] & seen["benchmark"]
    assert not seen["train"] & seen["downstream"]
    assert not seen["benchmark"] & seen["downstream"]


def test_stored_pairs_are_one_right_and_one_wrong_response_of_a_policy() -> None:
    stored = made.stored_pairs()
    assert len(stored) >= 300
    assert len({row["seed"] for row in stored}) == len(stored)
    for row in stored:
        question = make(row["seed"], "benchmark", row["subject"])
        assert row["right"].endswith(response("", question.answer).strip())
        assert row["wrong"][-1] in LETTERS
        assert row["wrong"][-1] != question.answer


def test_too_many_pairs_is_said() -> None:
    with pytest.raises(ValueError, match="pairs are stored"):
        made.pairs(100_000)


def test_interrupted_writing_leaves_no_pairs(tmp_path, monkeypatch):
    """The demo takes pairs.parquet for the sign that both files are whole."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(data, "png", stop)
    with pytest.raises(KeyboardInterrupt):
        data.write(tmp_path, num_questions=2, num_pairs=3)
    assert not (tmp_path / "pairs.parquet").exists()
