"""From a run directory to its results and its report: what `report_run` puts together."""

import json
import subprocess
import sys

import pytest

import bon
from bon.analysis.data import arrays
from bon.running.reporting import report_run
from bon.running.start import start
from bon.storage.store import Store
from bon.work.setup import prepare

PAIR = {"id": "p1", "query": "What?", "response": ["An apple.", "A pear."], "human_ranking": [0, 1]}
QUESTION = {"id": "q1", "question": "Which?", "options": "['x', 'y']", "answer": "A"}
PAPER = "@misc{ours,\n  title = {A Reward Model of <Ours>},\n}"


def begun(experiment, directory):
    """A run whose data is loaded and whose models have not answered."""
    setup = prepare(experiment, directory)
    with Store(directory / "run") as store:
        start(setup, store, quiet=True)
    return directory / "run"


def test_the_report_says_what_to_cite(make_experiment, tmp_path):
    (tmp_path / "mmmu.jsonl").write_text(json.dumps(QUESTION))
    (tmp_path / "vlrb.jsonl").write_text(json.dumps(PAIR))
    experiment = make_experiment()
    experiment["questions"] = {"benchmark": "mmmu_pro", "path": "mmmu.jsonl"}
    experiment["pairs"] = [{"benchmark": "vl_rewardbench", "path": "vlrb.jsonl"}]
    for rewarder in experiment["rewarders"][:2]:
        rewarder["citation"] = PAPER
    run = begun(experiment, tmp_path)
    report_run(run, quiet=True)
    citations = bon.load(run).results.citations
    names = [citation.partition(",")[0] for citation in citations]
    assert names == ["@misc{mmmupro", "@misc{vlrewardbench", "@misc{ours"]
    page = (run / "report.html").read_text()
    assert "Citations" in page
    assert "2409.02813" in page
    assert "A Reward Model of &lt;Ours&gt;" in page


def test_a_report_about_data_of_ones_own_cites_nobody(make_experiment, tmp_path):
    run = begun(make_experiment(), tmp_path)
    report_run(run, quiet=True)
    assert bon.load(run).results.citations == ()
    assert "@misc" not in (run / "report.html").read_text()


def test_a_report_without_training_does_not_wait_for_its_analysis(make_experiment, tmp_path):
    run = begun(make_experiment(), tmp_path)
    code = (
        "import sys; from pathlib import Path; from bon.running.reporting import report_run; "
        "report_run(Path(sys.argv[1]), quiet=True); print('bon.analysis.uplift' in sys.modules)"
    )
    command = [sys.executable, "-c", code, str(run)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
    assert (run / "report.html").is_file()


@pytest.mark.ray
@pytest.mark.usefixtures("one_ray")
def test_the_terminal_ends_with_a_leaderboard_a_pick_and_the_path(
    make_experiment, tmp_path, capsys
):
    (tmp_path / "study.yaml").write_text(json.dumps(make_experiment()))
    run = bon.run(tmp_path / "study.yaml", out=tmp_path / "run", quiet=True)
    capsys.readouterr()
    report = report_run(tmp_path / "run")
    *table, finding, choice, path = capsys.readouterr().err.strip().splitlines()
    board = run.leaderboard().set_index("rewarder")
    shown = [name for name in board.index if any(line.startswith(f"{name} ") for line in table)]
    assert {"pass@1", "majority vote", "oracle"} < set(shown)
    for name in shown:
        (line,) = (line for line in table if line.startswith(f"{name} "))
        accuracy, low, high = board.loc[name, ["accuracy", "accuracy_low", "accuracy_high"]] * 100
        assert f" {accuracy:.1f}% [{low:.0f}, {high:.0f}]" in line
    assert choice.startswith(("Take ", "Nothing beats "))
    assert finding == run.results.finding.sentence
    assert path == f"report: {report}"


def test_the_tables_become_arrays_once(make_experiment, tmp_path, monkeypatch):
    run = begun(make_experiment(), tmp_path)
    made = []
    check = arrays._check_unique
    monkeypatch.setattr(arrays, "_check_unique", lambda tables: (made.append(1), check(tables)))
    report_run(run, quiet=True)
    assert made == [1]
