"""A study of several tasks, from its file to the report: sampled once, leaks found in all."""

import json

import pytest

from bon.core.errors import BonError
from bon.experiment.overrides import apply_overrides
from bon.planning.plan import make_plan
from bon.running.reporting import open_run, read_results, report_run
from bon.storage.store import Store
from bon.work.completeness import completeness
from bon.work.setup import prepare


@pytest.fixture
def study(tmp_path, make_experiment):
    """Letters, numbers and colours; a pair of the reward benchmark is about a colour question."""
    experiment = make_experiment()
    numbers = [{"id": f"n{i}", "question": f"How many are {i}?", "answer": i} for i in range(8)]
    colours = [
        {"id": f"c{i}", "question": f"Which colour has thing {i}?", "answer": "red"}
        for i in range(6)
    ]
    for name, rows in (("numbers", numbers), ("colours", colours)):
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with (tmp_path / "pairs.jsonl").open() as file:
        pair = json.loads(file.readline())
    with (tmp_path / "leak.jsonl").open("w") as file:
        prompt = {"prompt": colours[2]["question"], "chosen": "It is red.", "rejected": "Blue."}
        file.write(json.dumps({**pair, **prompt, "id": "leak"}) + "\n")
    free = {"benchmark": "open_ended", "columns": {"image": ""}}
    experiment["questions"] = [
        experiment["questions"],
        {**free, "name": "numbers", "path": "numbers.jsonl", "grader": "number"},
        {**free, "name": "colours", "path": "colours.jsonl"},
    ]
    leaking = {
        "benchmark": "preference", "name": "leaking", "path": "leak.jsonl",
        "columns": {"image": ""},
    }  # fmt: skip
    pairs = experiment["pairs"]
    experiment["pairs"] = [*(pairs if isinstance(pairs, list) else [pairs]), leaking]
    del experiment["policies"][0]["prompt"]
    return experiment


def test_from_the_file_to_the_report(study, go, tmp_path):
    plan = make_plan(prepare(study, tmp_path))
    assert [rows.count for rows in plan.tasks] == [12, 8, 6]
    assert plan.questions.count == 26
    directory = go(study)
    report_run(directory, quiet=True)
    results = read_results(directory)
    (report,) = results.by_task
    names = [task.name for task in report.tasks]
    assert names == [study["questions"][0]["benchmark"], "numbers", "colours"]
    assert [task.num_questions for task in report.tasks] == [12, 8, 6]
    assert results.policies[0].num_questions == 26
    assert results.leaks.num_questions == 1
    assert "Does it hold on every task?" in (directory / "report.html").read_text()
    assert (directory / "tables/by_task_accuracies.csv").is_file()
    with Store(directory, readonly=True) as store:
        assert completeness(open_run(store), store).complete
        assert store.count("candidates", "TRUE") == 26 * 4
    assert make_plan(prepare(study, tmp_path), directory).totals()["calls"] == 0


def test_another_task_asks_only_its_own_questions(study, go, tmp_path):
    colours = study["questions"].pop()
    directory = go(study)
    study["questions"].append(colours)
    plan = make_plan(prepare(study, tmp_path), directory)
    assert [rows.known_from for rows in plan.tasks] == ["in the run"] * 2 + ["counted in the file"]
    go(study)
    with Store(directory, readonly=True) as store:
        assert store.count("candidates", "TRUE") == 26 * 4


def test_weights_are_those_of_the_file(study, go, tmp_path):
    for task, weight in zip(study["questions"], (2, 1, 1), strict=True):
        task["weight"] = weight
    directory = go(study)
    report_run(directory, quiet=True)
    (report,) = read_results(directory).by_task
    assert [task.weight for task in report.tasks] == [0.5, 0.25, 0.25]


def test_a_setting_holds_for_all_tasks(study, tmp_path):
    changed = apply_overrides(study, ["questions.limit=3", "questions.1.limit=5"])
    assert [task["limit"] for task in changed["questions"]] == [3, 5, 3]
    plan = make_plan(prepare(changed, tmp_path))
    assert [rows.count for rows in plan.tasks] == [3, 5, 3]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weight": 2}, "some tasks have a `weight`"),
        ({"subset": 0.5}, "`subset` differs between tasks"),
        ({"name": "colours"}, "the name 'colours' is used 2 times"),
        ({"benchmark": "imported"}, "imported questions are one task"),
        ({"grder": "exact"}, "unknown key 'questions.1.grder' -> did you mean 'grader'"),
        ({"limit": "all"}, "questions.1.limit: found 'all'"),
    ],
)
def test_mistakes_name_the_task(study, tmp_path, change, message):
    study["questions"][1] |= change
    with pytest.raises(BonError) as error:
        prepare(study, tmp_path)
    assert message in str(error.value)


def test_one_task_may_be_written_without_a_list(study, tmp_path):
    study["questions"] = {**study["questions"][0], "limt": 3}
    with pytest.raises(BonError, match=r"unknown key 'questions\.limt' -> did you mean 'limit'"):
        prepare(study, tmp_path)
