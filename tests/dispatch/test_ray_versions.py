"""Ray's floor and ceiling: between them its private names are what bon takes them for."""

import importlib.metadata
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
(RAY,) = {str(Requirement(r).specifier) for r in PROJECT["dependencies"] if r.startswith("ray")}
(FLOOR,) = re.findall(r">=([\d.]+)", RAY)
RUN = """
import os, ray
from bon.dispatch.connection import connect, connected, disconnect
from bon.dispatch.listeners import listeners
from bon.experiment.config import ClusterConfig

print(ray.__version__)
with connected(ClusterConfig(), quiet=True) as connection:
    connection.check()
    assert connection.local and len(connection.state.nodes) == 1, connection.state
    assert os.environ["RAY_AUTH_MODE"] == "token"

    @ray.remote
    def path():
        import os, sys
        return os.environ["MALLOC_ARENA_MAX"], os.getcwd() in sys.path

    assert ray.get(path.remote()) == ("1", False)
    assert [each for each in listeners() if not each.loopback] == []
assert not ray.is_initialized()
"""


def test_all_extras_and_the_installed_ray_have_the_same_limits() -> None:
    extras = [each for rows in PROJECT["optional-dependencies"].values() for each in rows]
    limits = {str(Requirement(each).specifier) for each in extras if each.startswith("ray")}
    assert limits == {RAY}
    assert importlib.metadata.version("ray") in Requirement(f"ray{RAY}").specifier


def test_nothing_of_ray_is_replaced_while_bon_runs() -> None:
    """`unittest` is of tests; an assignment of a function to a module is a patch as well."""
    for path in (ROOT / "bon/dispatch").glob("*.py"):
        text = path.read_text("utf-8")
        assert "unittest" not in text, path
        assert not re.search(r"^\s*ray\w*\.[\w.]+ = lambda", text, re.MULTILINE), path


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_oldest_ray_that_is_allowed(tmp_path: Path) -> None:
    """The newest one is that of all other tests."""
    site = tmp_path / "site"
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--target",
        str(site),
    ]
    if subprocess.run([*command, f"ray~={FLOOR}.0"], check=False).returncode:
        pytest.skip("the package index cannot be reached")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
    done = subprocess.run(
        [sys.executable, "-P", "-c", RUN], cwd=tmp_path, capture_output=True, text=True,
        check=False, env={**environment, "PYTHONPATH": f"{site}{os.pathsep}{ROOT}"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(FLOOR)
