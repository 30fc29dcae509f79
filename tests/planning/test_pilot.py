"""`bon run --pilot`: a random part is judged, and what the whole study would say is printed."""

import json

from typer.testing import CliRunner

from bon.analysis.results import Options, RunCompleteness
from bon.analysis.run import analyse
from bon.commands.main import app
from tests.analysis.synthetic import synthetic_tables

QUICK = Options(draws=200, subsets=16)


def test_a_pilot_judges_a_random_part_and_prints_what_is_needed(
    make_experiment, tmp_path, monkeypatch
):
    results = analyse(synthetic_tables(num_rewarders=10, num_questions=150), QUICK)
    experiment, run = tmp_path / "e.yaml", tmp_path / "run"
    experiment.write_text(json.dumps(make_experiment(questions=100)))
    subsets = []
    whole = results.model_copy(update={"completeness": RunCompleteness(complete=True)})

    def run_setup(setup, directory, **_options):
        subsets.append(setup.experiment.subset)
        directory.mkdir()
        (directory / "results.json").write_text(whole.model_dump_json())
        return directory / "report.html"

    monkeypatch.setattr("bon.running.runner.run", run_setup)
    command = ["run", str(experiment), "--out", str(run), "--pilot", "40"]
    printed = CliRunner().invoke(app, command)
    assert printed.exit_code == 0, printed.exception
    assert subsets == [0.4]
    (said,) = [x for x in printed.stdout.splitlines() if x.startswith("A new study of")]
    assert "10 rewarders" in said
    assert "100 questions" in said  # all of them, not the 40 of the pilot
    assert " would say Yes in " in said
