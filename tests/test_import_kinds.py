"""Kinds of files and answers that `bon import` takes or refuses, as a user meets them."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from bon.commands.main import app
from bon.core.errors import BonError


def run(path: Path, rows: list[dict[str, Any]], *args: str, name: str = "in.jsonl") -> Result:
    file = path / name
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    command = ["import", str(file), "--policy", "M", "--out", str(path / "run"), *args]
    return CliRunner().invoke(app, command)


def refusal(result: Result) -> str:
    assert isinstance(result.exception, BonError)
    return str(result.exception)


def free(*pairs: tuple[str, str]) -> list[dict[str, Any]]:
    return [
        {"id": f"q{n}", "question": f"Q{n}?", "answer": gold, "response": reply}
        for n, (gold, reply) in enumerate(pairs)
    ]


@pytest.mark.parametrize(
    ("rows", "grader", "accuracy"),
    [
        (
            free(("0.5", "Answer: 1/2"), ("1234", r"\boxed{1,234}"), ("3", "It is 3 m.")),
            "number",
            1,
        ),
        (free(("red", "Answer: Red"), ("5", "Answer: 5.0")), "exact", 0.5),
        (free(("(x+1)^2", r"\boxed{x^2+2x+1}"), ("7", r"\boxed{7}")), "math", 1),
    ],
)
def test_the_kind_of_the_right_answers_names_the_grader(
    rows: list[dict[str, Any]], grader: str, accuracy: float, tmp_path: Path
) -> None:
    result = run(tmp_path, rows)
    assert f"free answers are graded by {grader}" in result.output
    row = next(
        line for line in result.output.splitlines() if line.strip("│ ").startswith(f"{grader} ")
    )
    assert f"{100 * accuracy:.1f}" in row


def test_a_named_grader_counts(tmp_path: Path) -> None:
    assert "graded by" not in run(tmp_path, free(("5", "5.0")), "--grader", "exact").output
    wrong = run(tmp_path, free(("5", "5.0")), "--grader", "exactly")
    assert "no grader 'exactly'" in refusal(wrong)


COLOURS = ["red", "green", "blue", "grey"]


@pytest.mark.parametrize(
    "options",
    [
        "['red' 'green' 'blue' 'grey']",
        "['red' 'green'\n 'blue' 'grey']",
        [{"label": letter, "text": text} for letter, text in zip("ABCD", COLOURS, strict=True)],
        {"label": list("ABCD"), "text": COLOURS},
        dict(zip("ABCD", COLOURS, strict=True)),
    ],
)
def test_options_of_printed_arrays_and_objects_are_several(options: Any, tmp_path: Path) -> None:
    row = {"id": "q", "question": "Which?", "options": options, "answer": "C"}
    result = run(tmp_path, [{**row, "response": "Answer: blue"}], "--extractor", "strict")
    assert "100.0" in next(line for line in result.output.splitlines() if "strict" in line)


def test_options_of_unknown_objects_are_refused(tmp_path: Path) -> None:
    row = {"id": "q", "question": "Which?", "options": [{"x": "red"}], "answer": "A"}
    result = run(tmp_path, [{**row, "response": "A"}])
    assert "its options are objects" in refusal(result)


def test_a_right_letter_beyond_the_options_is_named(tmp_path: Path) -> None:
    row = {"id": "q", "question": "Which?", "options": COLOURS[:2], "answer": "D"}
    result = run(tmp_path, [{**row, "response": "Answer: D"}])
    assert "1 questions whose right letter is no option, the first: q" in result.output


def test_a_log_of_other_prompts_is_refused(tmp_path: Path) -> None:
    things = ("cup", "dog", "hat")
    questions = tmp_path / "yq.jsonl"
    rows = [
        {"id": f"v{n}", "question": f"Is the {x} left?", "options": ["Yes", "No"], "answer": "A"}
        for n, x in enumerate(things)
    ]
    questions.write_text("".join(json.dumps(row) + "\n" for row in rows))
    log = [
        {"doc_id": n, "input": f"Is the {x} left?\nA. Yes\nB. No", "target": "A",
         "resps": [["Answer: A"]], "filtered_resps": ["x"]}
        for n, x in zip((2, 1, 0), things, strict=True)
    ]  # fmt: skip
    about, name = ("--questions", str(questions)), "20260101_000000_samples_yesno.jsonl"
    result = run(tmp_path, log, *about, name=name)
    assert "the prompt is 'Is the cup left?" in refusal(result)
    for row, number in zip(log, range(3), strict=True):
        row["doc_id"] = number
    assert run(tmp_path, log, *about, name=name).exit_code == 0


def test_ids_that_repeat_within_subsets_are_pairs_of_their_own(tmp_path: Path) -> None:
    size = 12
    table = {
        "model": "acme/rm", "id": [*range(size)] * 2, "subset": ["Facts"] * size + ["Math"] * size,
        "scores_chosen": [float(n % 5) for n in range(2 * size)],
        "scores_rejected": [1.5] * (2 * size),
    }  # fmt: skip
    file, out = tmp_path / "rb.json", str(tmp_path / "run")
    file.write_text(json.dumps(table))
    result = CliRunner().invoke(app, ["import", str(file), "--benchmark", "RB", "--out", out])
    assert f"{2 * size} pairs, 1 rewarders" in result.output
    del table["scores_chosen"], table["scores_rejected"]
    right = [[[2.0], [0.0], [1.0], [1.0]], [[0.0], [2.0], [1.0], [1.0]]] * size
    file.write_text(json.dumps(table | {"num_correct": [1] * (2 * size), "scores": right}))
    out = str(tmp_path / "run2")
    result = CliRunner().invoke(app, ["import", str(file), "--out", out])
    assert "add --policy NAME" in refusal(result)
    result = CliRunner().invoke(app, ["import", str(file), "--policy", "mixed", "--out", out])
    assert f"{2 * size} questions x 4 candidates" in result.output
    assert re.search(r"acme-rm +50\.0%", result.output)  # right in every second item


def test_rollouts_without_ids_are_samples_of_their_prompts(tmp_path: Path) -> None:
    rows = [
        {"input": f"How much is {i}?", "output": f"Answer: {i + at}", "gts": str(i), "step": 5}
        for i in range(4)
        for at in (0, 1)
    ]
    file = tmp_path / "5.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    arguments = ["import", str(file), "--policy", "p", "--out", str(tmp_path / "r")]
    result = CliRunner().invoke(app, arguments)
    assert "4 questions x 2 candidates" in result.output
    assert "graded by number" in result.output
