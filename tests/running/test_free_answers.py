"""A study of questions without options, from its file to the report, regraded and imported."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from PIL import Image
from typer.testing import CliRunner

from bon.commands.main import app
from bon.core.errors import BonError
from bon.exports.preferences import ranking
from bon.graders import gold_of
from bon.planning.plan import make_plan
from bon.running.reporting import open_run, read_results, report_run
from bon.storage.store import Store
from bon.work.completeness import completeness
from bon.work.setup import prepare
from bon.work.sources import question_answer_key


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def study(tmp_path, make_experiment):
    experiment = make_experiment()
    rows = [
        {"id": f"n{i}", "question": f"How far is {i}?", "answer": i + 0.5, "unit": "km"}
        for i in range(8)
    ]
    rows += [
        {"id": f"c{i}", "question": f"Which colour is {i}?", "answer": "red", "grader": "exact"}
        for i in range(4)
    ]
    write(tmp_path / "free.jsonl", rows)
    experiment["questions"] = {
        "benchmark": "open_ended", "path": "free.jsonl", "columns": {"image": ""},
        "grader": "number",
    }  # fmt: skip
    del experiment["policies"][0]["prompt"]
    return experiment


def test_from_the_file_to_the_report(study, go, tmp_path):
    setup = prepare(study, tmp_path)
    assert setup.policies[0].prompt.id == "open"
    assert make_plan(setup).questions.count == 12
    directory = go(study)
    report_run(directory, quiet=True)
    results = read_results(directory)
    (policy,) = results.policies
    assert 0.2 < policy.pass_at_1.value < 0.8
    assert policy.pass_at_1.value < policy.majority.value <= policy.oracle.value
    head = next(b for b in results.best_of_n if b.rewarder == "head")
    assert policy.pass_at_1.value < head.accuracy.value < policy.oracle.value
    with Store(directory, readonly=True) as store:
        setup = open_run(store)
        assert completeness(setup, store).complete
        policy = setup.policies[0]
        for question in store.questions():
            rows = store.candidates(policy.spec, question.key)
            by_key = ranking(setup, store, "correct")(question, rows)
            known = question_answer_key(setup.rewarders[2].card, question, rows)
            assert known == {key: bool(score) for key, score in by_key.items()}
    assert make_plan(prepare(study, tmp_path), directory).totals()["calls"] == 0


def test_another_grader_asks_nothing_again(study, go, tmp_path):
    directory = go(study)
    report_run(directory, quiet=True)
    before = read_results(directory)
    study["questions"] |= {"tolerance": "60%"}
    go(study)
    report_run(directory, quiet=True)
    after = read_results(directory)
    assert before.policies[0].pass_at_1.value < after.policies[0].pass_at_1.value
    with Store(directory, readonly=True) as store:
        assert store.count("candidates", "TRUE") == 12 * 4


def test_a_prompt_for_letters_is_refused(study, tmp_path):
    study["policies"][0]["prompt"] = {"text": "{{ question }} One of {{ letters }}."}
    with pytest.raises(BonError, match="asks for an option letter"):
        prepare(study, tmp_path)


def test_answers_of_a_file_are_graded_by_the_study(study, go, tmp_path):
    rows = [json.loads(line) for line in (tmp_path / "free.jsonl").read_text().splitlines()][:8]
    replies = [
        f"Answer: {row['answer']} km" if i % 2 else "Answer: 77" for i, row in enumerate(rows)
    ]
    answered = [{**row, "response": reply} for row, reply in zip(rows, replies, strict=True)]
    file = write(tmp_path / "answers.jsonl", answered)
    study["policies"] = [{"name": "theirs", "from": str(file)}]
    directory = go(study)
    report_run(directory, quiet=True)
    assert read_results(directory).policies[0].pass_at_1.value == 0.5
    study["questions"] = {"benchmark": "imported", "grader": "number"}
    directory = go(study, out="alone")
    report_run(directory, quiet=True)
    assert read_results(directory).policies[0].pass_at_1.value == 0.5
    result = CliRunner().invoke(app, ["regrade", str(file), "--json"])
    assert result.exit_code == 0, result.output
    scores = {one["reader"]: one for one in json.loads(result.stdout)["readers"]}
    assert scores["number"]["accuracy"]["value"] == 0.5
    assert scores["exact"]["accuracy"]["value"] == 0.0
    result = CliRunner().invoke(app, ["regrade", str(directory), "--extractor", "number"])
    assert "50.0%" in result.stdout
    result = CliRunner().invoke(app, ["regrade", str(file), "--extractor", "official"])
    assert "the questions have no options" in str(result.exception)


def test_the_ten_lines_of_the_page_are_a_study(study, go, tmp_path):
    page = (Path(__file__).parents[2] / "docs/own_task.md").read_text()
    text = re.search(r"```yaml\n(# free\.yaml.*?)```", page, re.DOTALL)[1]
    row = json.loads(re.search(r"rows such as (\{.*\})", text)[1])
    assert len([line for line in text.splitlines() if not line.startswith("#")]) <= 10
    Image.new("RGB", (8, 8)).save(tmp_path / row["picture"])
    rows = [{**row, "question": f"{row['question']} ({i})", "answer": i + 0.2} for i in range(6)]
    write(tmp_path / "questions.jsonl", rows)
    models = {key: study[key] for key in ("policies", "rewarders", "pairs")}
    directory = go(yaml.safe_load(text) | models)
    report_run(directory, quiet=True)
    assert read_results(directory).policies[0].num_questions == 6


def test_labels_of_answers_correct_the_grader(study, go, tmp_path):
    directory = go(study)
    report_run(directory, quiet=True)
    with Store(directory, readonly=True) as store:
        rows = store.query("SELECT question, text_key, text FROM candidates")
        golds = {question.key: gold_of(question).answers[0] for question in store.questions()}
    labels = [
        {"item": f"{q}/{key}", "label": float(golds[q] in text), "annotator": "ann"}
        for q, key, text in rows
    ]
    table = write(tmp_path / "labels.jsonl", labels)
    result = CliRunner().invoke(app, ["regrade", str(directory), "--labels", str(table), "--json"])
    assert result.exit_code == 0, result.output
    check = json.loads(result.stdout)
    assert check["right_as_right"]["value"] == check["wrong_as_wrong"]["value"] == 1
    assert {row["rewarder"] for row in check["accuracies"]} == {"pass@1", "judge", "critic", "head"}
    assert all(
        row["graded"]["value"] == pytest.approx(row["corrected"]["value"])
        for row in check["accuracies"]
    )
    result = CliRunner().invoke(app, ["regrade", str(table), "--labels", str(table)])
    assert "--labels corrects the accuracies of one run" in str(result.exception)
