"""Tasks of an installed lmms-eval: its prompts, images and scorers (pip install lmms-eval)."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bon.benchmarks import BadRow, load_questions
from bon.core.errors import BonError
from bon.core.images import ImageStore
from bon.core.records import Question
from bon.experiment.config import DatasetSpec
from bon.graders import grades
from bon.running.reporting import read_results, report_run
from bon.work.setup import prepare
from tests.running.conftest import go_in

from .conftest import png, struct

installed = pytest.mark.skipif(find_spec("lmms_eval") is None, reason="needs lmms-eval")
CHARTS = [
    {"image": struct(png()), "question": f"How many in {year}?", "answer": str(year - 1980),
     "type": "human_test"}
    for year in range(1990, 2002)
]  # fmt: skip


def table(folder: Path, rows: list[dict[str, Any]]) -> str:
    pq.write_table(pa.Table.from_pylist(rows), folder / "test.parquet")
    return str(folder / "test.parquet")


def test_without_the_package_a_line_says_so(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("bon.graders.lmms_eval.find_spec", lambda _name: None)
    spec = DatasetSpec(benchmark="lmms_eval:nowhere", path=table(tmp_path, CHARTS))
    with pytest.raises(BonError, match="needs the package lmms-eval"):
        list(load_questions(spec, ImageStore(tmp_path)))


@installed
def test_prompt_image_and_scorer_are_those_of_the_task(tmp_path: Path) -> None:
    spec = DatasetSpec(benchmark="lmms_eval:chartqa", path=table(tmp_path, CHARTS))
    first, *rest = load_questions(spec, ImageStore(tmp_path))
    assert isinstance(first, Question)
    assert len(rest) == 11
    assert first.text == "How many in 1990?\nAnswer the question with a single word."
    assert (first.answer, len(first.images), first.grader) == ("10", 1, "lmms_eval:chartqa")
    answers = ["10", "10.4", "10.6", "Answer: 10", "ten"]
    replies = [(answer, answer) for answer in answers]
    graded = grades(first, [None] * 5, replies)
    assert [grade.credit for grade in graded] == [1, 1, 0, 0, 0]  # its scorer extracts nothing


@installed
@pytest.mark.parametrize(
    ("task", "why"),
    [
        ("mathvista_testmini_format", "cannot load|no number from 0 to 1|fails"),
        ("ai2d", "no scorer of single"),
        ("docvqa_val", "no scorer of single"),
        ("chartqaa", "no task"),
    ],
)
def test_what_cannot_grade_one_response_is_refused(tmp_path: Path, task: str, why: str) -> None:
    row = {"decoded_image": struct(png()), "question": "?", "query": "?", "answer": "1",
           "question_type": "free_form", "answer_type": "integer", "precision": 0.0, "pid": "1",
           "choices": [], "metadata": {"grade": "x"}, "unit": ""}  # fmt: skip
    spec = DatasetSpec(benchmark=f"lmms_eval:{task}", path=table(tmp_path, [row]))

    def graded() -> None:
        for question in load_questions(spec, ImageStore(tmp_path)):
            if isinstance(question, BadRow):
                raise BonError(f"fails: {question.reason}")
            grades(question, ["1"])

    with pytest.raises(BonError, match=why):
        graded()


@installed
def test_a_study_of_such_a_task(tmp_path: Path, make_experiment: Any) -> None:
    experiment = make_experiment()
    experiment["questions"] = {"benchmark": "lmms_eval:chartqa", "path": table(tmp_path, CHARTS)}
    (policy,) = experiment["policies"]
    del policy["prompt"]
    policy["engine_args"] = {"accuracy": 0.5, "reply": "{choice}"}
    assert prepare(experiment, tmp_path).policies[0].prompt.text == "{{ question }}"
    directory = go_in(tmp_path)(experiment)
    report_run(directory, quiet=True)
    (row,) = read_results(directory).policies
    assert 0.2 < (row.pass_at_1.value or 0) < 0.8
    assert (row.oracle.value or 0) > (row.pass_at_1.value or 0)
