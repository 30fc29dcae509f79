"""Answers graded by a model: asked once, with the right answer, which no rewarder sees."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from bon.commands.main import app
from bon.core.errors import BonError
from bon.core.records import BY_MODEL
from bon.graders import grades_of
from bon.planning.plan import make_plan
from bon.running.reporting import open_run, read_results, report_run
from bon.running.runner import make_sources
from bon.storage.store import Store
from bon.work.completeness import completeness
from bon.work.setup import prepare
from bon.work.units import grading_unit
from tests.miniature.free_tasks import write_free

GRADER = {
    "name": "grader", "engine": "echo", "role": "rewarder",
    "engine_args": {"reply": "It says so.\nGrade: {choice}", "accuracy": 0.9},
    "sampling": {"temperature": 0.0}, "model": "",
}  # fmt: skip


@pytest.fixture
def study(tmp_path: Path, make_experiment: Any) -> dict[str, Any]:
    rows: list[dict[str, Any]] = [
        {"id": f"n{i}", "question": f"How far is {i}?", "answer": i + 0.5, "unit": "km"}
        for i in range(10)
    ]
    (tmp_path / "free.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    experiment: dict[str, Any] = make_experiment()
    experiment["questions"] = {
        "benchmark": "open_ended", "path": "free.jsonl", "columns": {"image": ""}, "grader": "llm",
    }  # fmt: skip
    experiment["grading"] = GRADER
    del experiment["policies"][0]["prompt"]
    return experiment


def test_a_model_grades_every_answer_once(study, go, tmp_path):
    calls = make_plan(prepare(study, tmp_path)).grading[0].to_do
    assert calls == 10 * 4
    directory = go(study)
    report_run(directory, quiet=True)
    with Store(directory, readonly=True) as store:
        setup = open_run(store)
        assert setup.grader is not None
        spec, policy = setup.grader.spec, setup.policies[0]
        asked = store.count("judgements", "spec = ?", (spec,))
        distinct, agreeing, total, credits = 0, 0, 0, []
        for question in store.questions():
            rows = store.candidates(policy.spec, question.key)
            distinct += len(grading_unit(question, rows)[1])
            for row, grade in zip(rows, grades_of(question, rows), strict=True):
                total += 1
                agreeing += grade.credit == float(row.answer == question.answer)
                credits.append(grade.credit)
        assert asked == distinct < calls
        assert completeness(setup, store).complete
    assert 0.75 * total < agreeing < total  # it errs in one of ten
    results = read_results(directory)
    assert results.policies[0].pass_at_1.value == pytest.approx(sum(credits) / total)
    assert any(source.name == "grader" for source in results.sources)
    assert make_plan(prepare(study, tmp_path), directory).totals()["calls"] == 0

    go(study)  # nothing is asked again
    with Store(directory, readonly=True) as store:
        assert store.count("judgements", "spec = ?", (spec,)) == asked


def test_a_changed_answer_or_grader_is_graded_again(study, go, tmp_path):
    directory = go(study)
    file = tmp_path / "free.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    rows[0]["answer"] = 99
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    go(study)
    with Store(directory, readonly=True) as store:
        grader = open_run(store).grader
        assert grader is not None
        items = {row[0] for row in store.graded(grader.spec)}
        assert len(items) == 11
    study["grading"] = {**GRADER, "engine_args": {**GRADER["engine_args"], "accuracy": 0.5}}
    go(study)
    with Store(directory, readonly=True) as store:
        other = open_run(store).grader
        assert other is not None
        assert other.spec != grader.spec
        assert len({row[0] for row in store.graded(other.spec)}) == 10


def test_rewarders_do_not_see_the_right_answer_and_the_grader_does(study, go, tmp_path):
    directory = go(study)
    with Store(directory) as store:
        setup = prepare(study, tmp_path)
        store.db.execute("DELETE FROM judgements")
        sources = make_sources(setup, store)
        shown = {
            (source.stage, task.item.key): task.item.prompt
            for source in sources
            if source.stage in ("grade", "judge")
            for step in source.steps()
            for task in step or ()
        }
        assert {stage for stage, _ in shown} == {"grade", "judge"}
        for question in store.questions():
            right = f"Right answer: {question.answer} km"
            assert right in shown["grade", question.grading_key]
            assert right not in shown["judge", question.key]


def test_replies_without_a_grade_are_unread_not_wrong(study, go):
    study["grading"] = {**GRADER, "engine_args": {"reply": "Nobody knows. {choice}"}}
    directory = go(study)
    report_run(directory, quiet=True)
    (policy,) = read_results(directory).policies
    assert policy.unparsed.value == 1.0


def test_rubrics_grade_whole_replies(study, go, tmp_path):
    rows = [
        {"id": f"d{i}", "question": f"Describe scene {i}.", "rubric": "Names two red circles."}
        for i in range(6)
    ]
    (tmp_path / "free.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    directory = go(study)
    with Store(directory, readonly=True) as store:
        policy = open_run(store).policies[0]
        for question in store.questions():
            pool = store.candidates(policy.spec, question.key)
            assert grading_unit(question, pool)[1] == {row.text_key: row.text for row in pool}
            assert question.meta["rubric"]
    report_run(directory, quiet=True)
    assert read_results(directory).policies[0].oracle.value > 0


def test_the_rubric_or_the_answer_must_be_there(study, tmp_path, go):
    (tmp_path / "free.jsonl").write_text(json.dumps({"id": "a", "question": "Describe."}) + "\n")
    with pytest.raises(BonError, match="answer"):
        go(study)


def test_what_cannot_grade_is_refused(study, tmp_path):
    def error(**changes: Any) -> str:
        with pytest.raises(BonError) as caught:
            prepare({**study, **changes}, tmp_path)
        return str(caught.value)

    assert "needs a model that grades" in error(grading=None)
    assert "pointwise" in error(grading={**GRADER, "kind": "likelihood"})
    judge = {"card": "gpt-4o-judge"}
    assert "grade its own choices" in error(grading="gpt-4o-judge", rewarders=[judge])
    assert "grade its own choices" in error(
        grading={"card": "gpt-4o-judge", "name": "other"}, rewarders=[judge]
    )


def test_a_row_that_a_model_grades_needs_one(study, tmp_path, go):
    rows = [{"id": "a", "question": "How many?", "answer": 3, "grader": BY_MODEL}]
    (tmp_path / "free.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    study["questions"].pop("grader")
    study["grading"] = None
    with pytest.raises(BonError, match="needs a model that grades"):
        go(study)


def test_the_report_names_a_grader_of_the_same_base_model(study, go, tmp_path):
    study["grading"] = {**GRADER, "family": "qwen2.5-vl"}
    study["rewarders"][0]["family"] = "qwen2.5-vl"
    directory = go(study)
    report_run(directory, quiet=True)
    named = study["rewarders"][0]["name"]
    line = next(line for line in read_results(directory).warnings if "grader" in line)
    assert named in line
    assert "base model" in line
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(study))
    plan = CliRunner().invoke(app, ["plan", str(tmp_path / "study.yaml")])
    assert plan.exit_code == 0, plan.output
    assert "base model" in plan.output
    assert "grader" in plan.output


def test_gradings_are_compared_answer_by_answer(study, go):
    go(study)
    study["grading"] = {**GRADER, "engine_args": {**GRADER["engine_args"], "accuracy": 0.5}}
    directory = go(study)
    result = CliRunner().invoke(app, ["regrade", str(directory), "--json"])
    assert result.exit_code == 0, result.output
    regraded = json.loads(result.output)
    names = {row["reader"] for row in regraded["readers"]}
    stored = {name for name in names if name.startswith("grader (")}
    assert len(stored) == 2
    assert {"exact", "number"} < names
    scores = {row["reader"]: row["accuracy"]["value"] for row in regraded["readers"]}
    first, second = sorted(stored, key=lambda name: abs(scores[name] - scores["exact"]))
    assert scores[first] != scores[second]
    assert any(row["letters"][first] != row["letters"][second] for row in regraded["differ"])


@pytest.mark.model
def test_a_real_model_grades_and_labels_correct_its_error(study, go, tmp_path):
    study["questions"]["path"] = str(write_free(tmp_path)["numbers"])
    del study["questions"]["columns"]
    study["grading"] = {
        "card": "mini-critic-a-long",
        "prompt": {"text": "{{ prompt }}\nAnswer: {{ response }}\nIs the answer correct?"},
        "score": {"yes": ["Yes"], "no": ["No"], "pattern": ""},
    }
    directory = go(study)
    report_run(directory, quiet=True)
    labels, truth = ["item,label"], []
    with Store(directory, readonly=True) as store:
        policy = open_run(store).policies[0]
        for number, question in enumerate(store.questions()):
            rows = store.candidates(policy.spec, question.key)
            right = {row.text_key: int(row.answer == question.answer) for row in rows}
            truth.append(sum(right[row.text_key] for row in rows) / len(rows))
            if number % 2:
                labels += [f"{question.key}/{key},{label}" for key, label in right.items()]
    (tmp_path / "labels.csv").write_text("\n".join(labels) + "\n")
    result = CliRunner().invoke(
        app, ["regrade", str(directory), "--labels", str(tmp_path / "labels.csv"), "--json"]
    )
    assert result.exit_code == 0, result.output
    row = next(
        row for row in json.loads(result.output)["accuracies"] if row["rewarder"] == "pass@1"
    )
    mean = sum(truth) / len(truth)
    assert abs(row["corrected"]["value"] - mean) < abs(row["graded"]["value"] - mean)
    assert row["corrected"]["low"] < mean < row["corrected"]["high"]
