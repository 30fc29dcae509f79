"""The leaderboard as a table of a paper, as `bon export` writes it and LaTeX reads it."""

import re
import shutil
import subprocess
import sys

import pytest

import bon
from bon.running.reporting import report_run

LATEX = next(filter(None, map(shutil.which, ("pdflatex", "tectonic", "lualatex"))), "")


def export(run, form, out) -> str:
    command = [sys.executable, "-m", "bon", "export", str(run), "--format", form, "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return (out / done.stdout.strip().rpartition("/")[2]).read_text("utf-8")


@pytest.fixture
def board(run):
    report_run(run, quiet=True)
    return bon.load(run).leaderboard()


def rows_of(text: str, sides: str, between: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if between in line]
    return [[c.strip(sides) for c in line.strip(sides).split(between)] for line in lines]


def test_both_tables_hold_the_numbers_of_the_leaderboard(run, board, tmp_path):
    tex, md = (export(run, form, tmp_path / form) for form in ("latex", "markdown"))
    assert re.findall(r"\\(\w+rule)", tex) == ["toprule", "midrule", "bottomrule"]
    latex, markdown = rows_of(tex, r" \\", " & "), rows_of(md, "| ", " | ")
    assert markdown.pop(1)[0] == "---"
    plain = [
        [c.replace("$-$", "−").replace(r"\_", "_").replace("--", "–") for c in row] for row in latex
    ]
    assert plain == markdown
    assert markdown[0] == [
        "reward model", "rank", "accuracy", "over majority vote", "over pass@1", "benchmark",
    ]  # fmt: skip
    assert [row[0] for row in markdown[1:]] == board.rewarder.tolist()
    columns = ("accuracy", "vs_majority", "gain", "benchmark")
    for cells, (_, row) in zip(markdown[1:], board.iterrows(), strict=True):
        assert cells[1] == (row["rank"] if isinstance(row["rank"], str) else "–")
        for cell, name in zip(cells[2:], columns, strict=True):
            if cell != "–":
                found = [float(v) for v in re.findall(r"[\d.]+|-[\d.]+", cell.replace("−", "-"))]
                ends = [row[name], row[f"{name}_low"], row[f"{name}_high"]]
                known = [abs(100 * v) for v in ends if v == v]
                assert [abs(v) for v in found] == pytest.approx(known, abs=0.0501)


@pytest.mark.skipif(not LATEX, reason="no LaTeX is installed")
def test_latex_compiles_the_table(run, board, tmp_path):
    export(run, "latex", tmp_path)
    (tmp_path / "paper.tex").write_text(
        "\\documentclass{article}\\usepackage[utf8]{inputenc}\\usepackage{booktabs}"
        "\\begin{document}\\input{leaderboard}\\end{document}"
    )
    subprocess.run([LATEX, "paper.tex"], cwd=tmp_path, check=True, stdin=subprocess.DEVNULL)
