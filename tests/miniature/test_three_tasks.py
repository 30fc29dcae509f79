"""Letters, numbers and objects in words about the miniature's boards, in one study."""

import json
from pathlib import Path
from typing import Any

from bon.miniature.data import FOLDER, write
from bon.running.reporting import read_results, report_run
from bon.storage.store import Store
from tests.miniature.free_tasks import write_free
from tests.running.conftest import go_in
from tools.miniature.world import kind_name

KINDS = ("round", "tall", "slow", "bold", "calm", "deep", "wide", "keen", "pale", "warm")


def study(folder: Path) -> dict[str, Any]:
    """Ten echo rewarders of different skill, from ten bases, on three tasks."""
    write(folder)
    write_free(folder)
    echo = {"engine": "echo", "placement": {"group": "all"}}
    heads = [
        {**echo, "name": f"head-{k}", "kind": "scalar", "family": k,
         "engine_args": {"accuracy": 0.5 + 0.05 * i}}
        for i, k in enumerate(KINDS)
    ]  # fmt: skip
    return {
        "name": "three tasks",
        "questions": [
            {"benchmark": "mmmu_pro", "path": "questions.parquet", "name": "letters", "weight": 2},
            {"benchmark": "open_ended", "path": "numbers.jsonl", "name": "numbers",
             "grader": "number", "weight": 1},
            {"benchmark": "open_ended", "path": "objects.jsonl", "name": "objects",
             "grader": "f1", "weight": 1},
        ],
        "pairs": {"benchmark": "vl_rewardbench", "path": "pairs.parquet"},
        "policies": [{**echo, "name": "policy", "n": 6, "engine_args": {"accuracy": 0.5}}],
        "rewarders": heads,
    }  # fmt: skip


def test_each_task_has_its_leaderboard(tmp_path: Path) -> None:
    directory = go_in(tmp_path)(study(tmp_path))
    report_run(directory, quiet=True)
    results = read_results(directory)
    (report,) = results.by_task
    sizes = {task.name: (task.num_questions, task.weight) for task in report.tasks}
    assert sizes == {"letters": (200, 0.5), "numbers": (86, 0.25), "objects": (29, 0.25)}
    r = {row.task: row.pearson.value or 0 for row in report.correlations}
    assert min(r["letters"], r["numbers"], r["all tasks"]) > 0.8
    best = {(row.task, row.rewarder): row.accuracy.value or 0 for row in report.accuracies}
    for task in sizes:
        assert best[task, "head-round"] < best[task, "head-warm"] <= best[task, "oracle"]


def test_frames_and_descriptions_are_tasks_too(tmp_path: Path) -> None:
    """Frames have numbers, counted again here; a rubric names all objects of its board."""
    experiment = study(tmp_path)
    grader = {"name": "grader", "engine": "echo", "engine_args": {"reply": "Grade: {choice}"}}
    experiment |= {
        "questions": [
            {"benchmark": "open_ended", "path": "frames.jsonl", "grader": "number"},
            {"benchmark": "open_ended", "path": "descriptions.jsonl", "name": "scenes",
             "grader": "llm"},
        ],
        "rewarders": experiment["rewarders"][:2],
        "grading": grader,
    }  # fmt: skip
    directory = go_in(tmp_path)(experiment)
    boards = [row["kinds"] for row in scenes()]
    with Store(directory, readonly=True) as store:
        questions = {question.id: question for question in store.questions()}
        assert len(questions) == 100
        for number in range(0, 200, 4):
            frames, scene = questions[f"frames_{number}"], questions[f"description_{number}"]
            asked = next(kind for kind in range(1, 17) if kind_name(kind) in frames.text)
            assert frames.answer == str(
                sum(asked in board for board in boards[number : number + 4])
            )
            assert len(frames.images) == len({image.sha256 for image in frames.images}) == 4
            assert (scene.answer or "").count(" in cell ") == sum(map(bool, boards[number]))
    report_run(directory, quiet=True)
    assert {task.name for task in read_results(directory).by_task[0].tasks} == {
        "open_ended", "scenes",
    }  # fmt: skip


def scenes() -> list[dict[str, Any]]:
    """The first board of every question."""
    lines = (FOLDER / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["image_1"] for line in lines]
