"""Commands that start no Ray: help, errors, listing, correlate."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

import bon
from bon.commands.main import PANELS, app

FIGURE = Path(__file__).parents[2] / "shared/data/published/vl_rewardbench_bon_figure.csv"


def invoke(*arguments: str):
    return CliRunner().invoke(app, list(arguments))


def commands(group=None, path=()):
    """Every command and group of the command line, with its path."""
    for name, command in (group or get_command(app)).commands.items():
        yield (*path, name), command
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))


@pytest.mark.parametrize(("path", "command"), list(commands()), ids=lambda x: str(x)[:40])
def test_every_command_has_help_in_the_imperative(path, command):
    result = invoke(*path, "--help")
    assert result.exit_code == 0
    assert "Usage" in result.output
    summary = command.help.strip()
    assert summary[0].isupper()
    assert not summary.startswith("Say")
    for parameter in command.params:
        hidden = getattr(parameter, "hidden", False)
        assert parameter.help or hidden, f"{' '.join(path)}: {parameter.name}"


def test_help_is_grouped_by_what_a_person_does():
    output = invoke("--help").output
    places = [output.index(f"─ {panel} ─") for panel in PANELS]
    assert places == sorted(places)
    assert get_command(app).list_commands(None)[:2] == ["run", "demo"]
    assert PANELS[:2] == ("Start", "Run")


def test_bon_runs_as_a_module():
    command = [sys.executable, "-m", "bon", "--version"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert output.strip() == f"bon {bon.__version__}"


MODELS = ["torch", "transformers", "fastapi"]
ANALYSIS = ["pandas", "scipy", "matplotlib"]


def test_a_command_imports_only_its_own_module():
    code = (
        "import sys; from typer.testing import CliRunner; from bon.commands.main import app\n"
        "CliRunner().invoke(app, ['status', '--help'])\n"
        "print(*(m for m in sys.modules if m.startswith('bon.commands.')))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = {"bon.commands.main", "bon.commands.run", "bon.commands.options"}
    assert set(found.stdout.split()) == modules


@pytest.mark.parametrize(
    ("started", "heavy"),
    [
        (
            "bon.commands.main",
            [*MODELS, *ANALYSIS, "bon.analysis.results", "ray", "numpy", "pydantic"],
        ),  # --help
        ("bon.running.runner, bon.planning.plan, bon.commands.plan_text", [*MODELS, *ANALYSIS]),
    ],
)
def test_what_is_started_imports_nothing_that_it_does_not_need_yet(started, heavy):
    code = f"import sys, {started}; print(sorted(set(sys.modules) & set({heavy})))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_the_published_figure(tmp_path):
    if not FIGURE.is_file():
        pytest.skip("no published numbers beside this checkout")
    result = invoke("correlate", str(FIGURE), "--out", str(tmp_path))
    assert result.exit_code == 0, result.output
    assert "Without GPT-4o, the probability of a yes falls from" in result.output
    assert "overall accuracy for Phi-3.5-Vision" in result.output
    *_, sentence, path = result.output.strip().splitlines()
    assert sentence.startswith(
        "Perhaps (yes: 81%): rewarders with a higher macro have a higher best_of_8"
    )
    assert path == str(tmp_path)
    report = json.loads((tmp_path / "correlation.json").read_text())
    plotted = {
        row["policy"]: round(row["pearson"]["estimate"]["value"], 3)
        for row in report["correlations"]
        if row["axis"] == "x_as_plotted"
    }
    assert plotted == {"Qwen2-VL-7B": 0.946, "LLaVA-OneVision-7B": 0.914}
    assert (tmp_path / "correlation.svg").exists()


def test_a_smaller_demo_has_fewer_questions_and_pairs(tmp_path, monkeypatch):
    setups = []
    monkeypatch.setattr("bon.running.runner.run", lambda setup, out, **_: setups.append(setup))
    monkeypatch.setattr("bon.commands.options.print_results", lambda path, as_json: None)
    assert invoke("demo", "--limit", "40", "--out", str(tmp_path)).exit_code == 0
    (experiment,) = [setup.experiment for setup in setups]
    limits = (experiment.questions[0].limit, *(pairs.limit for pairs in experiment.pairs))
    assert limits == (40, 40)
