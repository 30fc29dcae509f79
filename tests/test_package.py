"""The package as users get it: built, installed into an empty environment, away from a checkout."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
import yaml

from tests.conftest import echo_experiment, write_pairs, write_questions

ROOT = Path(__file__).parents[1]
TOP = ("bon", "analysis", "policies", "rewarders")
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for top in TOP
    for path in (ROOT / top).rglob("*.py")
    if path.stem != "__main__"
)
IMPORT = """
import importlib, sys
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != "vllm":
            raise
"""
BUILD = "import sys; from setuptools import build_meta; build_meta.{}(sys.argv[1])"


def copy_sources(target: Path, *ignored: str) -> Path:
    """What a package is built from, as plain files: Windows and archives keep no links."""
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy2(ROOT / name, target / name)
    ignore = shutil.ignore_patterns("__pycache__", *ignored)
    for name in TOP:
        shutil.copytree(ROOT / name, target / name, ignore=ignore)
    assert not any(path.is_symlink() for name in TOP for path in (ROOT / name).rglob("*"))
    return target


def environment(home: Path, *options: object) -> Path:
    """The Python of an environment that holds bon, and reads all else from this one."""
    venv.EnvBuilder(symlinks=True).create(home)
    python = home / "bin" / "python"
    where = call(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=home)
    (Path(where.stdout.strip()) / "others.pth").write_text(sysconfig.get_path("purelib"))
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-compile")
    done = call(*pip, "--no-deps", "--no-index", "--no-build-isolation", *options, cwd=home)
    assert done.returncode == 0, done.stderr
    return python


def import_all(python: Path, source: Path) -> None:
    """Import every module there; `source` is where they must come from."""
    names = [name if name.startswith("bon") else f"bon.{name}" for name in MODULES]
    done = call(python, "-c", IMPORT, *names, cwd=python.parent)
    assert done.returncode == 0, done.stderr
    for name in ("bon", *(f"bon.{top}" for top in TOP[1:])):
        code = f"import {name}; print({name}.__file__)"
        where = Path(call(python, "-c", code, cwd=python.parent).stdout.strip())
        assert where.is_relative_to(source), where


def call(*arguments: object, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """A process that knows nothing of this checkout."""
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    command = [str(argument) for argument in arguments]
    return subprocess.run(command, cwd=cwd, env=env | variables, capture_output=True, text=True)


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """The wheel, built from the source distribution."""
    folder = tmp_path_factory.mktemp("build")
    source = copy_sources(folder)
    done = call(sys.executable, "-c", BUILD.format("build_sdist"), folder, cwd=source)
    assert done.returncode == 0, done.stderr
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as file:
        file.extractall(folder / "unpacked", filter="data")
    (unpacked,) = (folder / "unpacked").iterdir()
    done = call(sys.executable, "-c", BUILD.format("build_wheel"), folder, cwd=unpacked)
    assert done.returncode == 0, done.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory) -> Path:
    """The `bon` of an environment that holds the wheel, all of whose modules can be imported."""
    home = tmp_path_factory.mktemp("venv")
    import_all(environment(home, built), home)
    return home / "bin" / "bon"


@pytest.mark.slow
def test_the_wheel_holds_every_file_of_the_package(built):
    files = {
        (path.relative_to(ROOT) if top == "bon" else "bon" / path.relative_to(ROOT)).as_posix()
        for top in TOP
        for path in (ROOT / top).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with zipfile.ZipFile(built) as wheel:
        held = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert built.stat().st_size < 15_000_000
    assert held == files


@pytest.mark.slow
def test_an_editable_install_of_a_plain_copy(tmp_path):
    source = copy_sources(tmp_path, "*.safetensors", "*.jsonl", "*.xz")
    import_all(environment(tmp_path / "venv", "--editable", source), source)


@pytest.mark.slow
def test_the_installed_package_lists_its_cards(installed, tmp_path):
    assert "Best-of-N" in call(installed, "--help", cwd=tmp_path).stdout
    listed = call(installed, "list", "rewarders", cwd=tmp_path)
    assert listed.returncode == 0, listed.stderr
    assert "visualprm-8b" in listed.stdout


@pytest.mark.slow
@pytest.mark.ray
def test_the_installed_package_runs_an_experiment(installed, tmp_path):
    write_questions(tmp_path / "questions.jsonl", 6)
    write_pairs(tmp_path / "pairs.jsonl", 6)
    (tmp_path / "experiment.yaml").write_text(yaml.safe_dump(echo_experiment()))
    done = call(installed, "run", "experiment.yaml", "--out", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "<section" in (tmp_path / "run" / "report.html").read_text()
