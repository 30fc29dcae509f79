"""The published accuracies of eight models on MathVista (Lu et al., 2024), from their replies.

CC BY-SA 4.0, so the replies lie beside the checkout and not in it.
"""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bon.commands.main import app
from bon.core.records import Question
from bon.graders import gold_of, value
from bon.policies.extractors import extract_answer

PLACES = (folder / "shared/data/real/mathvista" for folder in Path(__file__).parents)
REAL = next((place for place in PLACES if place.is_dir()), None)
PUBLISHED = {  # table 2, testmini
    "bard": 34.8, "idefics": 19.8, "instructblip": 25.3, "llama-adapter": 23.9,
    "llava": 26.1, "llavar": 25.2, "minigpt4": 23.1, "mplug-owl": 22.2,
}  # fmt: skip
pytestmark = pytest.mark.skipif(REAL is None, reason="no replies of MathVista beside this checkout")


def rows(name: str) -> list[dict]:
    assert REAL is not None
    return [json.loads(line) for line in (REAL / name).read_text("utf-8").splitlines()]


def imported(tmp_path: Path, *arguments: str) -> dict:
    command = ["import", *arguments, "--policy", "p", "--out", str(tmp_path / "run"), "--json"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    (policy,) = json.loads(result.stdout)["policies"]
    return policy


def accuracies(tmp_path: Path, responses: dict[str, list[str]]) -> dict[str, float]:
    """Import a file for each model, of questions with and without options."""
    questions = rows("answers.jsonl")
    for name, texts in responses.items():
        pairs = zip(questions, texts, strict=True)
        lines = (json.dumps(question | {"response": text}) for question, text in pairs)
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines), "utf-8")
    files = [str(tmp_path / f"{name}.jsonl") for name in responses]
    policy = imported(tmp_path, *files, "--extractor", "strict")
    assert policy["num_questions"] == 1000
    return {file["label"]: 100 * file["accuracy"]["value"] for file in policy["files"]}


@pytest.mark.slow
def test_what_their_model_extracted_gives_every_published_accuracy(tmp_path):
    """The paper reads replies by GPT-4; bon grades what it read."""
    read = [row["candidates"] for row in rows("right.jsonl")]
    responses = {
        name: [candidates[model]["answer"] for candidates in read]
        for model, name in enumerate(PUBLISHED)
    }
    assert accuracies(tmp_path, responses) == pytest.approx(PUBLISHED, abs=0.5)


def test_their_labels_give_the_published_mean(tmp_path):
    policy = imported(tmp_path, str(REAL / "right.jsonl"))
    mean = sum(PUBLISHED.values()) / len(PUBLISHED)
    assert 100 * policy["pass_at_1"]["value"] == pytest.approx(mean, abs=0.01)


def test_numbers_are_read_from_their_sentences():
    """Of 365 free replies that the authors call right; none of the others is read right."""
    right = false = read = 0
    for question, labels in zip(rows("answers.jsonl"), rows("right.jsonl"), strict=True):
        if question["options"]:
            continue
        places = len(question["answer"].partition(".")[2])
        meta = {"tolerance": f"{0.5 * 10**-places}" if places else ""}
        asked = Question("", "", "", question["question"], (), question["answer"], meta=meta)
        for text, label in zip(question["response"], labels["candidates"], strict=True):
            answer = extract_answer(text or "", (), grader="number", question=asked.text).letter
            worth = None if answer is None else value("number", answer, gold_of(asked))
            right += label["correct"]
            read += bool(label["correct"] and worth)
            false += bool(worth and not label["correct"])
    assert (right, false) == (365, 0)
    assert read >= 330
