"""Free answers: rows of `open_ended` and of published tasks, and their scorers' values."""

import json
from pathlib import Path
from typing import Any

import pytest

from bon.benchmarks import BadRow, load_questions
from bon.benchmarks.tasks import ADAPTERS as TASKS
from bon.benchmarks.tasks import CONVERSIONS, TABLE, task
from bon.core.errors import BonError
from bon.core.images import ImageStore
from bon.core.records import Question
from bon.experiment.config import DatasetSpec
from bon.graders import GRADERS, Gold, gold_of, value
from bon.policies.extractors import extract_answer

from .conftest import Write, png, struct


def load(path: Path, store: ImageStore, **settings: Any) -> list[Question | BadRow]:
    spec = DatasetSpec(**{"benchmark": "open_ended", "path": str(path), **settings})
    return list(load_questions(spec, store))


def written(folder: Path, *rows: dict[str, Any]) -> Path:
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_rows_with_and_without_options(tmp_path: Path, store: ImageStore) -> None:
    path = written(
        tmp_path,
        {"id": "n", "question": "How far?", "answer": 1.5, "unit": "km", "tolerance": "5%"},
        {"id": "t", "question": "Which?", "answer": ["red", "crimson"], "grader": "exact"},
        {"id": "o", "question": "Which?", "answer": "B", "options": ["x", "y"]},
        {"id": "bad", "question": "How far?", "answer": "far"},
        {"id": "none", "question": "How far?", "answer": " "},
        {"id": "margin", "question": "How far?", "answer": 3, "tolerance": "-1"},
    )
    number, text, lettered, *bad = load(path, store, grader="number")
    assert isinstance(number, Question)
    assert isinstance(text, Question)
    assert (number.grader, number.options, number.answer) == ("number", (), "1.5")
    assert gold_of(number) == Gold(("1.5",), "5%", "km")
    assert (text.grader, gold_of(text).answers) == ("exact", ("red", "crimson"))
    assert isinstance(lettered, Question)
    assert (lettered.grader, lettered.answer, lettered.meta) == ("", "B", {})
    assert [row.reason for row in bad if isinstance(row, BadRow)] == [
        "grader 'number' cannot read its answer 'far'",
        "it has no answer",
        "its tolerance '-1' is no number or percentage",
    ]


def test_keys_do_not_depend_on_the_grader(tmp_path: Path, store: ImageStore) -> None:
    path = written(tmp_path, {"question": "How far?", "answer": "5"})
    first, second = (load(path, store, grader=name)[0] for name in ("number", "exact"))
    assert isinstance(first, Question)
    assert isinstance(second, Question)
    assert first.key == second.key
    assert first.meta != second.meta


def test_unknown_graders_and_graders_of_letters_are_refused(
    tmp_path: Path, store: ImageStore
) -> None:
    path = written(tmp_path, {"question": "?", "answer": "A", "options": ["x", "y"]})
    with pytest.raises(BonError, match="no answers to grade"):
        load(path, store, benchmark="multiple_choice", grader="exact")
    free = written(tmp_path, {"question": "?", "answer": "A"})
    with pytest.raises(BonError, match="no grader 'exactt'"):
        load(free, store, grader="exactt")


IMAGE = {"image": struct(png())}
DECODED = {"decoded_image": struct(png())}
MC = "Which?\nOptions: A: a cat, B: a dog, or two, C: none"
LINES = "Which?\nA. a cat\nB. a dog\n\nPlease answer directly with only the letter."
ROWS: list[tuple[str, dict[str, Any], tuple[Any, ...]]] = [
    # task, a row with the columns that lmms-eval's task reads, (text, options, answer, grader)
    ("ai2d", {"question": "Q", "options": ["x", "y"], "answer": "1", **IMAGE},
     ("Q", ("x", "y"), "B", "")),
    ("chartqa", {"question": "Q", "answer": "14", "type": "human_test", **IMAGE},
     ("Q", (), "14", "relaxed")),
    ("docvqa", {"question": "Q", "answers": ["a", "b"], "questionId": "7", **IMAGE},
     ("Q", (), "a", "anls")),
    ("infovqa", {"question": "Q", "answers": ["a", "b"], "questionId": "7", **IMAGE},
     ("Q", (), "a", "anls")),
    ("mathvision", {"question": "Q", "options": ["x", "y"], "answer": "B", "level": 3, **DECODED},
     ("Q", ("x", "y"), "B", "")),
    ("mathvista", {"question": "Q", "choices": ["x", "y"], "answer": "y", "pid": "1", **DECODED},
     ("Q", ("x", "y"), "B", "")),
    ("mathvista", {"question": "Q", "choices": None, "answer": "0.6", "answer_type": "float",
                   "precision": 1.0, "unit": None, "pid": "1", **DECODED},
     ("Q", (), "0.6", "number")),
    ("mathvista", {"question": "Q", "choices": None, "answer": "[1, 2]", "answer_type": "list",
                   "precision": None, "unit": None, "pid": "1", **DECODED},
     ("Q", (), "[1, 2]", "exact")),
    ("mmstar", {"index": 0, "question": MC, "answer": "B", "category": "math", **IMAGE},
     ("Which?", ("a cat", "a dog, or two", "none"), "B", "")),
    ("realworldqa", {"question": LINES, "answer": "A", **IMAGE},
     ("Which?", ("a cat", "a dog"), "A", "")),
    ("realworldqa", {"question": "How many?\nPlease answer directly with a number.",
                     "answer": "3", **IMAGE},
     ("How many?", (), "3", "exact")),
    ("scienceqa", {"question": "Q", "choices": ["x", "y"], "answer": 0, "hint": "H", **IMAGE},
     ("Context: H\nQ", ("x", "y"), "A", "")),
    ("blink", {"idx": "1", "question": "Q", "choices": ["x", "y"], "answer": "(B)",
               "image_1": struct(png()), "image_2": None},
     ("Q", ("x", "y"), "B", "")),
    ("dynamath", {"question": "Q", "ground_truth": "1/2", "id": 1, **DECODED},
     ("Q", (), "1/2", "math")),
    ("hallusionbench", {"question": "Q", "gt_answer": "1", "category": "VD", **IMAGE},
     ("Q", (), "Yes", "exact")),
    ("llava_bench", {"question": "Q", "gpt_answer": "A cat sleeps.", "question_id": 1, **IMAGE},
     ("Q", (), "A cat sleeps.", "f1")),
    ("logicvista", {"question": "Q", "answer": "B", **IMAGE}, ("Q", (), "B", "exact")),
    ("mathverse", {"sample_index": "1", "question": "Find x.\nChoices:\nA:3\nB:4", "answer": "B",
                   "problem_version": "Text Lite", **IMAGE},
     ("Find x.", ("3", "4"), "B", "")),
    ("mathverse", {"sample_index": "2", "question": "Find x.", "answer": "3/2",
                   "problem_version": "Text Lite", **IMAGE},
     ("Find x.", (), "3/2", "math")),
    ("mmmu", {"id": "1", "question": "<image 1> Q", "options": "['x', 'y']", "answer": "B",
              "image_1": struct(png()), "image_2": None},
     ("<image 1> Q", ("x", "y"), "B", "")),
    ("mmmu", {"id": "2", "question": "<image 1> Q", "options": "[]", "answer": "['6', 'six']",
              "image_1": struct(png())},
     ("<image 1> Q", (), "6", "exact")),
    ("mmvet", {"question": "Q", "answer": "red <OR> crimson", "question_id": "1", **IMAGE},
     ("Q", (), "red", "f1")),
    ("ocrbench", {"question": "Q", "answer": ["EXIT"], "question_type": "Digit", **IMAGE},
     ("Q", (), "EXIT", "exact")),
    ("videomme", {"question": "Q", "options": ["A. x", "B. y"], "answer": "B", "question_id": "1",
                  "frames": [struct(png())]},
     ("Q", ("x", "y"), "B", "")),
    ("wemath", {"ID": 1, "question": "Q", "option": "A. 3 cm; B. 4 cm; C. No correct answer",
                "answer": "B", "image_path": struct(png())},
     ("Q", ("3 cm", "4 cm", "No correct answer"), "B", "")),
    ("textvqa", {"question": "Q", "answers": ["a"] * 10, "question_id": 3, **IMAGE},
     ("Q", (), "a", "vqa")),
]  # fmt: skip


@pytest.mark.parametrize(("task", "row", "expected"), ROWS)
def test_rows_of_published_tasks(
    task: str, row: dict[str, Any], expected: tuple[Any, ...], write: Write, store: ImageStore
) -> None:
    (found,) = load(write("rows.parquet", [row]), store, benchmark=task, split=None)
    assert isinstance(found, Question), found
    assert (found.text, found.options, found.answer, found.grader) == expected
    assert len(found.images) == 1


def test_tasks_of_text(write: Write, store: ImageStore) -> None:
    rows = [{"problem": "Q", "answer": "2", "unique_id": "u", "subject": "Algebra", "level": 2}]
    (found,) = load(write("math.jsonl", rows), store, benchmark="math500", split=None)
    assert isinstance(found, Question)
    assert (found.id, found.subject, found.grader, found.images) == ("u", "Algebra", "math", ())
    wrong = {f"Incorrect Answer {i}": f"wrong {i}" for i in (1, 2, 3)}
    rows = [{"Question": f"Q{i}", "Correct Answer": f"right {i}", **wrong} for i in range(40)]
    path = write("gpqa.jsonl", rows)
    asked = [q for q in load(path, store, benchmark="gpqa") if isinstance(q, Question)]
    assert all(
        q.options["ABCD".index(q.answer or "")] == q.text.replace("Q", "right ") for q in asked
    )
    assert {q.answer for q in asked} == set("ABCD"), "no letter is the right one"


def test_every_row_of_the_table_is_a_task() -> None:
    assert all(own["rows"] in CONVERSIONS for own in TABLE.values())
    graders = [task(name).grader for name in TASKS]
    assert all(name in GRADERS for name in graders if name)


SCORED = json.loads((Path(__file__).parent / "upstream_scores.json").read_text())["rows"]
CHOICES = ("a cat", "a dog", "a cow", "a pig")
DIFFER: dict[tuple[str, str], tuple[float | None, str]] = {
    **{
        (task, f"Answer: {text}"): (1.0, "the final answer of a reply counts")
        for task, text in (("chartqa", "14"), ("docvqa", "Paris"), ("infovqa", "Paris"))
    },
    **{
        (task, "Paris."): (1.0, "a final full stop is no part of an answer")
        for task in ("docvqa", "infovqa")
    },
    **{
        ("ocrbench", reply): (0.0, "no right answer is looked for inside a longer one")
        for reply in ("Pariss", "the Paris", "Paris, France", "Paris or London",
                      "In my opinion it is Paris")
    },
    **{
        (task, reply): (None, "a negation or a retraction is unread")
        for task in ("mmstar", "realworldqa")
        for reply in ("not B", "It is A. No, B.")
    },
    **{
        (task, "a dog"): (1.0, "an option's text stands for its letter")
        for task in ("mmstar", "realworldqa", "scienceqa")
    },
    **{
        ("scienceqa", reply): (1.0, "a plainly stated letter is read")
        for reply in ("(B)", "Answer: B")
    },
    **{
        (task, reply): (score, why)
        for task in ("mmstar", "realworldqa")
        for reply, score, why in (
            ("b", 1.0, "a letter is read in either case"),
            ("The answer is B.", None, "nothing is read from prose"),
        )
    },
}  # fmt: skip


@pytest.mark.parametrize("row", SCORED, ids=lambda row: f"{row['task']}: {row['reply']}")
def test_replies_score_as_upstream(row: dict[str, Any]) -> None:
    """With the values that lmms-eval's code gave, or with the difference that is meant."""
    task_name, reply, answer = row["task"], row["reply"], row["answer"]
    grader = TABLE[task_name].get("grader", "")
    if grader and task_name != "realworldqa":
        read = extract_answer(reply, ()).letter
        gold = Gold(tuple(answer if isinstance(answer, list) else [answer]))
        ours = None if read is None else value(grader, read, gold)
    else:
        letter = extract_answer(reply, CHOICES, "strict").letter
        ours = None if letter is None else float(letter == "B")
    meant = DIFFER.get((task_name, reply))
    if meant and not (task_name == "chartqa" and answer != "14"):
        assert ours == meant[0], meant[1]
        assert ours != row["score"]
    else:
        assert (ours or 0.0) == pytest.approx(row["score"])
