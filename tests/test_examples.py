"""Every example as its reader runs it, on the embedded miniature, and what it finds there."""

import ast
import base64
import io
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
import yaml
from PIL import Image

import bon
from bon.analysis.results import Word
from tests.service.server import serving

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"

ONE_WORKER = {"RAY_OVERRIDE_RESOURCES": '{"CPU": 1}'}
"""The miniature asks for two, and to load torch takes longer than a small study."""

pytestmark = [pytest.mark.model, pytest.mark.ray, pytest.mark.slow]


def said(*arguments: object, cwd: Path = ROOT) -> str:
    """What a Python process prints; a failing one fails the test with its last lines."""
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), **ONE_WORKER},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A small study, by the first example."""
    out = tmp_path_factory.mktemp("study")
    return out, said(EXAMPLES / "run_a_study.py", out)


def test_a_study(study):
    out, printed = study
    assert f"report: {out / 'report.html'}" in printed
    assert (out / "report.html").is_file()
    assert re.search(r"mini-pair-d +pairwise +round_robin +\S+ +0\.\d+", printed)
    assert "at n = 2:" in printed


@pytest.fixture(scope="module")
def run(study):
    return bon.load(study[0])


def test_the_policies_are_neither_hopeless_nor_perfect(run):
    assert len(run.results.policies) == 2
    for policy in run.results.policies:
        assert 0.25 < policy.pass_at_1.value < 0.75
        assert policy.oracle.value > policy.pass_at_1.value + 0.15
        assert policy.unparsed.value < 0.05


def test_every_kind_was_asked_on_both_axes_in_the_same_way(run):
    kinds = set(run.tables.rewarders.kind)
    assert kinds == {"likelihood", "listwise", "pairwise", "pointwise", "scalar", "stepwise"}
    asked = run.tables.judgements.groupby("rewarder").item_kind.nunique()
    assert set(asked) == {2}
    assert run.results.protocol.differences == ()


def test_replies_can_be_read(run):
    outcomes = run.tables.judgements.outcome.value_counts()
    assert outcomes.get("unparsed", 0) <= 0.02 * outcomes.sum()
    assert outcomes.get("error", 0) == 0


def test_a_good_critic_beats_chance_on_the_benchmark(run):
    best = next(b for b in run.results.benchmarks if b.rewarder == "mini-critic-a-long")
    assert best.overall.value > 0.65


def test_the_report_is_written(run):
    text = run.report.read_text(encoding="utf-8")
    assert run.results.finding.sentence.split("(")[0].strip()[:40] in text
    assert run.results.finding.verdict in get_args(Word)


def test_a_card():
    printed = said(EXAMPLES / "score_with_a_card.py")
    scores = [
        ast.literal_eval(line.split(" ", 1)[1])
        for line in printed.splitlines()
        if line.startswith("mini-")
    ]
    assert [len(row) for row in scores] == [3, 3, 3]
    assert all(0 <= value <= 1 for value in [*scores[0], *scores[2]])
    assert "chosen of 8: " in printed


def test_a_rewarder(tmp_path):
    printed = said(EXAMPLES / "own_rewarder.py", tmp_path)
    assert printed.startswith("[-20.0, -11.0]")
    assert "shortest" in printed


def test_a_benchmark(tmp_path):
    printed = said(EXAMPLES / "own_benchmark.py", tmp_path)
    assert "mini-policy-a" in printed


def test_the_served_selector(tmp_path):
    pytest.importorskip("openai", reason="the openai client is not installed")
    online = yaml.safe_load((EXAMPLES / "online.yaml").read_text(encoding="utf-8"))["online"]
    with serving(tmp_path, online=online) as server:
        printed = said(EXAMPLES / "served_selector.py", server.address, "none")
    assert "Answer: " in printed
    assert "completion_tokens=" in printed


def test_the_notebook(tmp_path):
    """As `jupyter nbconvert --execute` runs it, away from its repository; it has its outputs."""
    (folder := tmp_path / "examples").mkdir()
    shutil.copy(EXAMPLES / "notebook.ipynb", folder)
    kept = json.loads((folder / "notebook.ipynb").read_text(encoding="utf-8"))["cells"]
    assert all(cell["outputs"] for cell in kept if cell["cell_type"] == "code")
    convert = ["nbconvert", "--to", "notebook", "--execute", "examples/notebook.ipynb"]
    said("-m", "jupyter", *convert, "--output", "done", cwd=tmp_path)
    cells = json.loads((folder / "done.ipynb").read_text(encoding="utf-8"))["cells"]
    outputs = [output.get("data", {}) for cell in cells for output in cell.get("outputs", ())]
    figures = [base64.b64decode(data["image/png"]) for data in outputs if "image/png" in data]
    assert [Image.open(io.BytesIO(figure)).width > 800 for figure in figures] == [True]
    assert "('mini-critic-a', 'second_best')" in "".join(outputs[-1]["text/plain"])
    assert (folder / "runs/notebook/report.html").is_file()
    assert [path.name for path in tmp_path.iterdir()] == ["examples"]
