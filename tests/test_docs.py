"""What the documentation shows is what the code takes."""

import html
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from bon.benchmarks import BENCHMARKS
from bon.core.validation import validate
from bon.experiment.config import Experiment
from bon.experiment.yamlfile import load_yaml
from bon.formats import FORMATS

ROOT = Path(__file__).parents[1]
BLOCKS = [
    (name, block)
    for name in ("README.md", "docs/experiment.md")
    for block in re.findall(r"```yaml\n(.*?)```", (ROOT / name).read_text(encoding="utf-8"), re.S)
]


@pytest.mark.parametrize(("name", "block"), BLOCKS)
def test_experiments_in_the_docs_are_valid(name, block):
    validate(Experiment, load_yaml(block), name)


PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "docs/design.md"])
def test_files_that_the_pages_for_developers_name_exist(name):
    """Paths start at the top of the repository, at bon/ or at analysis/."""
    text = (ROOT / name).read_text(encoding="utf-8")
    for path in re.findall(r"`([\w.-]+/[\w./-]*)`", text):
        assert any((ROOT / start / path).exists() for start in ("", "bon", "analysis")), path


def test_the_experiment_in_the_docs_shows_every_key():
    shown = load_yaml(BLOCKS[-1][1])
    for name, field in Experiment.model_fields.items():
        assert name in shown, f"docs/experiment.md does not show {name}"
        if name in ("judging", "analysis", "cluster"):
            assert set(shown[name]) == set(field.annotation.model_fields), name


def test_the_cards_that_the_docs_name_exist():
    from bon.experiment.cards import shipped

    known = {**shipped("policies"), **shipped("rewarders")}
    for name, block in BLOCKS:
        experiment = load_yaml(block)
        for ref in [*experiment["policies"], *experiment["rewarders"]]:
            card = ref["card"] if isinstance(ref, dict) else ref
            assert card in known, f"{name} names {card}"


@pytest.mark.parametrize(("folder", "entry"), [("benchmarks", "ADAPTER"), ("formats", "FORMAT")])
def test_every_module_with_an_entry_is_registered(folder, entry):
    modules = {
        path.stem
        for path in (ROOT / "bon" / folder).glob("*.py")
        if re.search(rf"^{entry}\b.* = ", path.read_text(), re.M)
    }
    registered = set(BENCHMARKS if folder == "benchmarks" else FORMATS)
    known = folder.upper()
    assert modules <= registered, f"{known} of bon/{folder}/__init__.py: no {modules - registered}"


def test_the_site_has_no_dead_anchor_and_lists_every_command(tmp_path):
    """`make docs`: strict, so that a link to no page or heading ends it."""
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    page = (tmp_path / "commands" / "index.html").read_text(encoding="utf-8")
    text = html.unescape(re.sub(r"<[^>]+>", "", page))
    for words in ("bon run [OPTIONS] [file]", "--policy CARD", "bon curate freeze [OPTIONS]"):
        assert words in text
    assert not re.search(r"^\S+: .*\.\.\.$", text, re.M), "a summary is cut"
    assert "[bold]" not in text
    home = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "measurements/" not in home.partition("<article")[0]


def test_the_docs_are_short():
    pages = (ROOT / "docs").rglob("*.md")
    users = [page for page in pages if page.parent.name != "measurements"]
    assert sum(len(page.read_text(encoding="utf-8").split()) for page in users) <= 30_000
    assert (ROOT / "README.md").read_text(encoding="utf-8").count("\n") <= 100


def test_the_verdict_is_in_line_two_of_quick_start():
    _, _, start = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Quick start\n")
    first, second = start.partition("```text\n")[2].splitlines()[:2]
    assert (first, second.partition(" ")[0]) == ("$ make demo", "Probably")


def test_every_test_that_a_page_names_exists():
    known = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    named = {
        name
        for path in (ROOT / "docs").rglob("*.md")
        for name in re.findall(r"`(test_\w+)`", path.read_text(encoding="utf-8"))
    }
    assert named
    missing = [name for name in sorted(named) if f"def {name}(" not in known]
    assert not missing, f"no such tests: {missing}"


def test_the_changelog_has_one_section_per_version():
    """The one in work first, as pyproject.toml names it; CITATION.cff cites the last release."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    _, *sections = re.split(r"^## ", text, flags=re.M)
    newest, *released = [section.split("\n")[0].split(" ") for section in sections]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert newest == [project["version"].removesuffix(".dev0"), "(unreleased)"]
    assert all(re.fullmatch(r"\(\d{4}-\d\d-\d\d\)", date) for _, date in released), released
    assert max(section.count("\n") for section in sections) <= 150
    cited = load_yaml((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert [cited["version"], f"({cited['date-released']})"] == released[0]
    assert cited["license"] == project["license"]
    assert cited["authors"] == project["authors"]
