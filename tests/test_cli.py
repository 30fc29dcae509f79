"""Commands that start no Ray: help, errors, listing, correlate."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import bon
from bon.commands.main import app, main

FIGURE = Path(__file__).parents[2] / "shared/data/published/vl_rewardbench_bon_figure.csv"
BON = str(Path(sys.executable).with_name("bon"))


def invoke(*arguments: str):
    return CliRunner().invoke(app, list(arguments))


@pytest.mark.parametrize(
    "command",
    [
        "demo",
        "run",
        "status",
        "report",
        "export",
        "import",
        "list",
        "show",
        "correlate",
        "merge",
        "batch",
        "regrade",
        "stress",
        "gate",
        "compare",
        "curate",
        "plan",
        "doctor",
        "prompts",
        "serve",
    ],
)
def test_every_command_explains_itself(command):
    result = invoke(command, "--help")
    assert result.exit_code == 0
    assert "Usage" in result.output


def test_version():
    assert invoke("--version").output.strip() == f"bon {bon.__version__}"


MODELS = ["torch", "transformers", "fastapi"]
ANALYSIS = ["pandas", "scipy", "matplotlib", "bon.analysis.results"]


@pytest.mark.parametrize(
    ("started", "heavy"),
    [
        ("bon.commands.main", [*MODELS, *ANALYSIS, "ray", "numpy", "pydantic"]),  # --help
        ("bon.running.runner, bon.running.plan, bon.commands.plan_text", [*MODELS, *ANALYSIS]),
    ],
)
def test_what_is_started_imports_nothing_that_it_does_not_need_yet(started, heavy):
    code = f"import sys, {started}; print(sorted(set(sys.modules) & set({heavy})))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["run", "nothing.yaml"], "no file nothing.yaml -> check the path"),
        (["status", "nowhere"], "no run in nowhere"),
        (["report", "nowhere"], "no run in nowhere"),
        (["export", "nowhere"], "no run in nowhere"),
        (["correlate", "nothing.csv"], "nothing.csv"),
        (["gate", "nowhere", "--min-gain", "0"], "no results.json -> bon report nowhere"),
        (["gate", "nowhere", "--min-gain", "0", "--over", "vote"], "pass@1 or majority"),
        (["compare", "nowhere", "nowhere"], "nowhere holds no choices"),
        (["curate", "init", "nowhere", "--out", "new"], "no run in nowhere"),
        (["curate", "propose", "nowhere"], "bon curate init RUN --out nowhere"),
        (["curate", "predict", "nowhere"], "no recipe.yaml"),
        (["list", "polices"], "policies"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(arguments, line, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["bon", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    error = capsys.readouterr().err
    assert stopped.value.code == 2
    assert line in error
    assert error.count("\n") == 1


def test_the_published_figure(tmp_path):
    if not FIGURE.is_file():
        pytest.skip("no published numbers beside this checkout")
    result = invoke("correlate", str(FIGURE), "--out", str(tmp_path))
    assert result.exit_code == 0, result.output
    assert "Qwen2-VL-7B: Without GPT-4o, r falls to .84 (p = .08)." in result.output
    assert "overall accuracy for Phi-3.5-Vision" in result.output
    report = json.loads((tmp_path / "correlation.json").read_text())
    plotted = {
        row["policy"]: round(row["pearson"]["estimate"]["value"], 3)
        for row in report["correlations"]
        if row["axis"] == "x_as_plotted"
    }
    assert plotted == {"Qwen2-VL-7B": 0.946, "LLaVA-OneVision-7B": 0.914}
    assert (tmp_path / "correlation.svg").exists()
