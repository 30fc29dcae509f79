"""Every command in the docs is taken as written; those of the first pages run, on echo models."""

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest
import typer.main
from PIL import Image
from typer.testing import CliRunner

import bon
from bon.commands.main import app
from tests.formats_made import MADE

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
ECHO = "engine: echo, placement: {group: all}, engine_args: {accuracy: 0.8}"
DEMO = [
    "questions.limit=8",
    "pairs.limit=8",
    f"policies=[{{name: mini-policy-a, prompt: bare, n: 4, {ECHO}}}]",
    f"rewarders=[{{name: mini-critic-a, kind: scalar, {ECHO}}}]",
]


def blocks(page: Path) -> list[tuple[str, str]]:
    """The language and the lines of each block of code."""
    parts = re.split(r"^```(.*)\n", page.read_text(encoding="utf-8"), flags=re.M)
    return list(zip(parts[1::4], parts[2::4], strict=True))


def commands(page: Path) -> list[str]:
    """The lines that start with `bon`, as one types them."""
    shown = [
        text.replace("\\\n", " ") for name, text in blocks(page) if name in ("console", "bash", "")
    ]
    return [match[1] for match in re.finditer(r"^(?:\$ )?bon (.*)", "\n".join(shown), flags=re.M)]


def arguments(command: str) -> list[str]:
    found = shlex.split(command, comments=True)
    return found[: found.index(">")] if ">" in found else found


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=lambda p: p.stem)
def test_every_command_is_taken_as_it_is_written(page):
    """Its name, its options and the types of their values; nothing runs."""
    for line in commands(page):
        parent, command, rest = None, typer.main.get_command(app), ["bon", *arguments(line)]
        while True:
            name, *rest = rest
            parent = command.make_context(name, list(rest), parent=parent)
            if not hasattr(command, "resolve_command"):
                break
            _, command, _ = command.resolve_command(parent, list(rest))


@pytest.fixture(scope="module")
def folder(tmp_path_factory, one_ray):
    """The demo on echo models, with the files that the pages show or name."""
    folder = tmp_path_factory.mktemp("docs")
    bon.demo(folder / "runs/demo", settings=DEMO)
    shutil.copytree(ROOT / "examples/published", folder / "examples/published")
    for page in PAGES:
        for _, text in blocks(page):
            if named := re.match(r"# ([\w-]+\.(?:yaml|py))\b", text):
                (folder / f"{page.stem}-{named[1]}").write_text(text)
    shown = json.loads(dict(blocks(ROOT / "docs/own_task.md"))["json"])
    Image.new("RGB", (8, 8)).save(folder / shown["picture"])
    (folder / "questions.jsonl").write_text(json.dumps(shown))
    for name, file in (("answers", "answers"), ("candidates", "right"), ("scores", "scores"),
                       ("pairs", "pairs"), ("pair_scores", "pair_scores")):  # fmt: skip
        MADE[name].write(folder / f"{file}.jsonl", MADE[name].rows())
    return folder


LARGE = {"own_model": ("show", "plan"), "own_task": ("plan",)}
"""Pages about models that need a GPU: the commands that do not load one."""


@pytest.mark.ray
@pytest.mark.parametrize("name", ["tour", "verdicts", "own_answers", *LARGE])
def test_the_commands_of_the_first_pages_run(name, folder, monkeypatch):
    monkeypatch.chdir(folder)
    for file in folder.glob(f"{name}-*"):
        shutil.copyfile(file, folder / file.name.removeprefix(f"{name}-"))
    for line in commands(ROOT / f"docs/{name}.md"):
        if line != "demo" and line.split()[0] in LARGE.get(name, line):
            done = CliRunner().invoke(app, arguments(line))
            assert done.exit_code == 0 or line.startswith("gate"), (
                f"{line}: {done.output} {done.exception}"
            )
