"""Letters, numbers and objects in words about the miniature's boards, in one study."""

from pathlib import Path
from typing import Any

from bon.miniature.data import write, write_free
from bon.running.reporting import read_results, report_run
from tests.running.conftest import go_in

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
