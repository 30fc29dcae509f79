"""MMMU-Pro and any multiple-choice set, from parquet, JSONL and folders."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from bon.benchmarks import BadRow, load_questions
from bon.core.errors import BonError
from bon.core.images import ImageStore
from bon.core.records import Question
from bon.experiment.config import DatasetSpec

from .conftest import Write, png, struct


def mmmu_row(label: str = "test_Art_1", **changes: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": label,
        "question": "Which one? <image 1>",
        "options": "['<image 2>', \"it's b\", 'c']",
        "answer": "B",
        "topic_difficulty": "Hard",
        "subject": "Art",
        "image_1": struct(png(1)),
        "image_2": struct(png(2)),
        "image_3": None,
    }
    return row | changes


VISION = {"image": struct(png()), "image_1": None, "image_2": None, "options": "['a', 'b']"}


def load(path: Path, store: ImageStore, **settings: Any) -> list[Question | BadRow]:
    settings = {"benchmark": "mmmu_pro", "path": str(path), **settings}
    return list(load_questions(DatasetSpec(**settings), store))


def good(rows: list[Question | BadRow]) -> list[Question]:
    assert not [row for row in rows if isinstance(row, BadRow)]
    return [row for row in rows if isinstance(row, Question)]


def test_a_standard_row(write: Write, store: ImageStore) -> None:
    (question,) = good(load(write("test.parquet", [mmmu_row()]), store))
    assert question.id == "test_Art_1"
    assert question.text == "Which one? <image 1>"
    assert question.options == ("<image 2>", "it's b", "c")
    assert (question.answer, question.subject, question.difficulty) == ("B", "Art", "Hard")
    assert [Path(ref.path).read_bytes() for ref in question.images] == [png(1), png(2)]


def test_a_folder_as_the_hub_lays_it_out(tmp_path: Path, write: Write, store: ImageStore) -> None:
    write("pro/standard (10 options)/test-00000-of-00002.parquet", [mmmu_row("a")])
    write("pro/standard (10 options)/test-00001-of-00002.parquet", [mmmu_row("b")])
    write("pro/standard (10 options)/validation-00000.parquet", [mmmu_row("no")])
    write("pro/vision/test.parquet", [mmmu_row("v", question=None, **VISION)])
    ten = good(load(tmp_path / "pro", store))
    assert [question.id for question in ten] == ["a", "b"]
    (seen,) = good(load(tmp_path / "pro", store, config="vision"))
    assert (seen.id, seen.text) == ("v", "")
    named = VISION | {"options": "['<image 2>', '<image 3>']"}
    pictured = mmmu_row("w", question=None, **named)
    write("pro/vision/test.parquet", [pictured])
    (seen,) = good(load(tmp_path / "pro", store, config="vision"))
    assert (seen.id, seen.options) == ("w", ("<image 2>", "<image 3>"))
    with pytest.raises(BonError, match="no config 'standard5' -> use one of standard10"):
        load(tmp_path / "pro", store, config="standard5")
    (tmp_path / "pro" / "standard (10 options)").rename(tmp_path / "pro" / "ten")
    with pytest.raises(BonError, match=r"several folders -> set `config`.* one of ten, vision"):
        load(tmp_path / "pro", store)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"options": "['a', "}, "options are not a list"),
        ({"options": "__import__('os').abort()"}, "options are not a list"),
        ({"options": "[]"}, "it has 0 options"),
        ({"options": None}, "options are not a list"),
        ({"answer": None}, "answer None is not an option letter"),
        ({"answer": "BC"}, "answer 'BC' is not an option letter"),
        ({"image_1": None}, "has image_2 but 0 images before it"),
        ({"image_2": None}, "names <image 2> but has 1 images"),
        ({"image_1": struct(png()[:45])}, "cannot be decoded"),
        ({"image_1": {"bytes": b"", "path": ""}}, "an image is empty"),
        ({"image_1": struct(b"nothing")}, "not in a known image format"),
    ],
)
def test_a_bad_row_is_counted_and_the_rest_goes_on(
    changes: dict[str, Any], reason: str, write: Write, store: ImageStore
) -> None:
    path = write("x.parquet", [mmmu_row("first"), mmmu_row("bad", **changes), mmmu_row("last")])
    first, bad, last = load(path, store)
    assert isinstance(bad, BadRow)
    assert bad.id == "bad"
    assert reason in bad.reason
    assert isinstance(first, Question)
    assert isinstance(last, Question)


def test_an_answer_beyond_the_options_stays(write: Write, store: ImageStore) -> None:
    nested = mmmu_row(options="[['A', 'B', 'Not enough information']]")
    (question,) = good(
        load(
            write("x.jsonl", [nested | {"image_1": None, "image_2": None, "question": "?"}]), store
        )
    )
    assert len(question.options) == 1
    assert question.meta == {"answer_not_in_options": True}


def test_equal_rows_stay_apart_and_keys_follow_the_content(write: Write, store: ImageStore) -> None:
    same = good(load(write("x.parquet", [mmmu_row("a"), mmmu_row("a")]), store))
    assert len({question.key for question in same}) == 2
    assert same[0].key == good(load(write("y.parquet", [mmmu_row("other id")]), store))[0].key
    for changes in (
        {"question": "<image 1>?"},
        {"options": "['<image 2>', 'b']"},
        {"image_1": struct(png(9))},
    ):
        (changed,) = good(load(write("z.parquet", [mmmu_row(**changes)]), store))
        assert changed.key != same[0].key
    (pinned,) = good(load(write("x1.parquet", [mmmu_row()]), store, revision="1"))
    assert pinned.key != same[0].key


def test_limit_counts_good_rows_and_reads_no_further(write: Write, store: ImageStore) -> None:
    rows = [mmmu_row("bad", answer="?"), *(mmmu_row(str(i), question=str(i)) for i in range(9))]
    loaded = load(write("x.parquet", rows), store, limit=2)
    assert [row.id for row in loaded] == ["bad", "0", "1"]
    # Lazily: the first question is there before the rest has been looked at.
    broken = write(
        "y.jsonl", [mmmu_row(image_1=None, image_2=None, question="q", options="['a','b']")]
    )
    with broken.open("a") as file:
        file.write("{not json\n[]\n")
    rows_read = load_questions(DatasetSpec(benchmark="mmmu_pro", path=str(broken)), store)
    assert isinstance(next(rows_read), Question)
    assert [row.id for row in rows_read] == ["line-2", "line-3"]


def test_clear_lines_for_the_user(tmp_path: Path, write: Write, store: ImageStore) -> None:
    with pytest.raises(BonError, match=r"no file or folder .*gone"):
        load(tmp_path / "gone", store)
    (tmp_path / "empty").mkdir()
    with pytest.raises(BonError, match=r"no .parquet, .jsonl, .arrow or .json file"):
        load(tmp_path / "empty", store)
    with pytest.raises(BonError, match=r"neither .parquet"):
        load(write("x.csv", [mmmu_row(image_1=None, image_2=None)]), store)
    with pytest.raises(BonError, match="has no rows"):
        load(write("none.jsonl", []), store)
    (tmp_path / "cut.parquet").write_bytes(b"PAR1 and then nothing")
    with pytest.raises(BonError, match="not a complete parquet file"):
        load(tmp_path / "cut.parquet", store)
    with pytest.raises(BonError, match=r"no column for options \(options\); it has id"):
        load(write("a.jsonl", [{"id": "1", "answer": "A"}]), store)
    with pytest.raises(BonError, match="no role 'optoins' -> roles: answer, difficulty, id"):
        load(write("b.jsonl", [{"x": 1}]), store, columns={"optoins": "x"})
    with pytest.raises(BonError, match="no column 'y' for options -> there are x"):
        load(write("c.jsonl", [{"x": 1}]), store, columns={"options": "y"})
    with pytest.raises(BonError, match=r"no row of .* the first: its answer 'nil'"):
        load(write("d.jsonl", [{"question": "q", "options": ["a"], "answer": "nil"}]), store)
    with pytest.raises(BonError, match="did you mean 'mmmu_pro'"):
        load(tmp_path, store, benchmark="mmu_pro")
    with pytest.raises(BonError, match="holds pairs, not questions"):
        load(tmp_path, store, benchmark="vl_rewardbench")
    with pytest.raises(BonError, match="has no data of its own -> give `path"):
        list(load_questions(DatasetSpec(benchmark="multiple_choice"), store))


@pytest.mark.parametrize(
    ("answer", "letter"),
    [
        ("B", "B"),
        (" B ", "B"),
        (1, "B"),
        ("two", "B"),
        (2, None),
        ("C", None),
        ("zwei", None),
        (True, None),
        (None, None),
        (-1, None),
    ],
)
def test_answers_of_any_multiple_choice_set(
    answer: Any, letter: str | None, write: Write, store: ImageStore
) -> None:
    rows = [
        {"q": "ok", "a": "one", "b": "two", "c": "", "right": "A"},
        {"q": "How many?", "a": "one", "b": "two", "c": None, "right": answer},
    ]
    columns = {"question": "q", "options": "a, b, c", "answer": "right"}
    loaded = load(write("x.jsonl", rows), store, benchmark="multiple_choice", columns=columns)
    if letter is None:
        assert isinstance(loaded[1], BadRow)
    else:
        assert good(loaded)[1].answer == letter
        assert good(loaded)[1].options == ("one", "two")


def test_images_in_every_form(tmp_path: Path, write: Write, store: ImageStore) -> None:
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "a.png").write_bytes(png(1))
    encoded = base64.b64encode(png(1)).decode()
    forms: list[Any] = [
        "pictures/a.png",
        {"bytes": None, "path": "pictures/a.png"},
        str(tmp_path / "pictures" / "a.png"),
        f"data:image/png;base64,{encoded}",
        ["pictures/a.png", "pictures/a.png"],
        "https://example.org/a.png",
        "pictures/b.png",
        "!" * 600,
        7,
        None,
    ]
    rows = [
        {"id": str(i), "question": f"q{i}", "options": ["a", "b"], "answer": "A", "image": form}
        for i, form in enumerate(forms)
    ]
    loaded = load(write("x.jsonl", rows), store, benchmark="multiple_choice")
    assert [len(row.images) if isinstance(row, Question) else row.reason for row in loaded] == [
        1, 1, 1, 1, 2,
        "image https://example.org/a.png is a URL: download it and give its path",
        "image pictures/b.png is missing",
        "an image is neither a path nor base64",
        "an image is empty",
        0,
    ]  # fmt: skip
    assert len({row.images[0].sha256 for row in loaded[:5] if isinstance(row, Question)}) == 1


def test_real_samples_with_their_images(real: Path, store: ImageStore) -> None:
    questions = good(load(real / "mmmu_pro_samples", store))
    assert len(questions) == 21
    assert max(len(question.images) for question in questions) == 5


def test_the_real_ten_option_set(real: Path, store: ImageStore) -> None:
    path = real / "mmmu_pro_gpt4o" / "standard10_cot.jsonl"
    questions = good(load(path, store, columns={"image": ""}))
    assert len(questions) == 1730
    assert len({question.key for question in questions}) == 1730
    counts = [len(question.options) for question in questions]
    assert (counts.count(10), counts.count(1), counts.count(12)) == (1214, 1, 1)
    assert sum(question.difficulty == "Hard" for question in questions) == 401


@pytest.mark.parametrize(("answers", "refused"), [((1, 2, 3), True), ((0, 2, 3), False)])
def test_answers_that_count_from_one_are_refused_not_shifted(answers, refused, tmp_path):
    rows = [{"question": f"{a}?", "options": ["x", "y", "z"], "answer": a} for a in answers]
    file = tmp_path / "q.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    found = load_questions(
        DatasetSpec(benchmark="multiple_choice", path=str(file)), ImageStore(tmp_path / "images")
    )
    if refused:
        with pytest.raises(BonError, match="seem to count from 1"):
            list(found)
    else:
        assert [row.answer for row in found if isinstance(row, Question)] == ["A", "C"]
