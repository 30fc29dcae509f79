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
LINKS = ("analysis", "policies", "rewarders")
BUILD = "import sys; from setuptools import build_meta; build_meta.{}(sys.argv[1])"


def copy_sources(target: Path, *ignored: str) -> Path:
    """What a package is built from, links kept as links."""
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy2(ROOT / name, target / name)
    ignore = shutil.ignore_patterns("__pycache__", *ignored)
    for name in ("bon", *LINKS):
        shutil.copytree(ROOT / name, target / name, symlinks=True, ignore=ignore)
    return target


def call(*arguments: object, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """A process that knows nothing of this checkout."""
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    command = [str(argument) for argument in arguments]
    return subprocess.run(command, cwd=cwd, env=env | variables, capture_output=True, text=True)


def test_a_checkout_without_links_says_so_in_one_line(tmp_path):
    source = copy_sources(tmp_path, "*.safetensors", "*.jsonl")
    for name in LINKS:  # as git writes them where core.symlinks is false
        (source / "bon" / name).unlink()
        (source / "bon" / name).write_text(f"../{name}")
    for code in ("import bon", "import bon.commands.main", "from bon.running import runner"):
        done = call(sys.executable, "-c", code, cwd=tmp_path, PYTHONPATH=str(source))
        assert done.returncode == 2
        (line,) = done.stderr.splitlines()
        assert "symbolic link" in line
        assert "git config core.symlinks true" in line


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
    """The `bon` of an environment that holds the wheel, and reads all else from this one."""
    home = tmp_path_factory.mktemp("venv")
    venv.EnvBuilder(symlinks=True).create(home)
    python = home / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python, "install")
    done = call(*pip, "--quiet", "--no-deps", "--no-index", "--no-compile", built, cwd=home)
    assert done.returncode == 0, done.stderr
    packages = call(
        python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=home
    )
    others = Path(packages.stdout.strip()) / "others.pth"
    others.write_text(sysconfig.get_path("purelib"))
    where = call(python, "-c", "import bon.analysis; print(bon.analysis.__file__)", cwd=home)
    assert Path(where.stdout.strip()).is_relative_to(home), where
    return home / "bin" / "bon"


@pytest.mark.slow
def test_the_wheel_holds_every_file_of_the_package(built):
    real = (ROOT / "bon", *(ROOT / name for name in LINKS))
    files = {
        (path.relative_to(ROOT) if top.name == "bon" else "bon" / path.relative_to(ROOT)).as_posix()
        for top in real
        for path in top.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with zipfile.ZipFile(built) as wheel:
        held = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert built.stat().st_size < 15_000_000
    assert held == files


@pytest.mark.slow
def test_the_installed_package_lists_its_cards(installed, tmp_path):
    assert "Best-of-N" in call(installed, "--help", cwd=tmp_path).stdout
    listed = call(installed, "list", "rewarders", cwd=tmp_path)
    assert listed.returncode == 0, listed.stderr
    assert "ixc-2.5-reward" in listed.stdout


@pytest.mark.slow
@pytest.mark.ray
def test_the_installed_package_runs_an_experiment(installed, tmp_path):
    write_questions(tmp_path / "questions.jsonl", 6)
    write_pairs(tmp_path / "pairs.jsonl", 6)
    (tmp_path / "experiment.yaml").write_text(yaml.safe_dump(echo_experiment()))
    done = call(installed, "run", "experiment.yaml", "--out", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "<section" in (tmp_path / "run" / "report.html").read_text()
