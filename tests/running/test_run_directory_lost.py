"""What a run says when its directory goes or the machine's limits leave no room, by the command."""

import os
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from bon.storage.store import Store

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(280)]


def start_bon(folder, *arguments, ray="", **options):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("RAY_", "BON_"))}
    if ray:
        environment["BON_RAY_ADDRESS"] = ray
    root = Path(__file__).parents[2]
    return subprocess.Popen(
        [sys.executable, "-m", "bon", "run", *arguments, "--quiet"],
        cwd=folder,
        env={**environment, "PYTHONPATH": str(root)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


@pytest.fixture
def experiment(make_experiment, tmp_path):
    """An experiment of minutes."""
    experiment = make_experiment(questions=60, cluster={"batch": 2, "in_flight": 1})
    for model in [*experiment["policies"], *experiment["rewarders"]]:
        model["engine_args"]["latency"] = 2.0
    (tmp_path / "e.yaml").write_text(yaml.safe_dump(experiment))
    return experiment


def wait_for_rows(process, directory):
    while not (directory / "run.sqlite").exists() or not rows(directory):
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.1)


def rows(directory):
    with Store(directory, readonly=True) as store:
        return store.count("candidates")


def delete(directory):
    (directory / "run.sqlite").unlink()


def rename(directory):
    directory.rename(directory.with_name("renamed"))


@pytest.mark.parametrize("lose", [delete, shutil.rmtree, rename])
def test_a_database_that_goes_under_its_driver_ends_the_run_at_once(
    experiment, tmp_path, ray_address, lose
):
    process = start_bon(tmp_path, "e.yaml", "--out", "run", ray=ray_address)
    wait_for_rows(process, tmp_path / "run")
    lose(tmp_path / "run")
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    began = time.monotonic()
    _, errors = process.communicate(timeout=100)
    assert time.monotonic() - began < 20
    assert process.returncode == 2, errors
    (line,) = errors.splitlines()
    assert "run.sqlite was deleted or moved while this run was writing it -> put it back" in line
    assert {path for path in tmp_path.rglob("*") if path.is_file()} <= before
    if lose is rename:
        with Store(tmp_path / "renamed") as store:
            assert store.count("candidates")


@pytest.mark.parametrize(
    ("limit", "fix"),
    [(resource.RLIMIT_AS, "ulimit -v unlimited"), (resource.RLIMIT_FSIZE, "ulimit -f unlimited")],
)
def test_a_limit_that_ray_cannot_start_under_is_one_line(experiment, tmp_path, limit, fix):
    began = time.monotonic()
    process = start_bon(
        tmp_path, "e.yaml", "--out", "run",
        preexec_fn=lambda: resource.setrlimit(limit, (4 << 30, 4 << 30)),
    )  # fmt: skip
    _, errors = process.communicate(timeout=100)
    assert process.returncode == 2
    (line,) = errors.splitlines()
    assert line.endswith(fix)
    assert time.monotonic() - began < 30


def test_only_the_file_of_a_deleted_run_is_overwritten(make_experiment, go, tmp_path):
    from bon.core.errors import BonError

    directory = go(make_experiment())
    (directory / "run.sqlite").unlink()
    go(make_experiment(questions=5))
    (tmp_path / "own").mkdir()
    own = tmp_path / "own" / "experiment.yaml"
    own.write_text("name: mine\n")
    with pytest.raises(BonError, match=r"holds an experiment\.yaml of your own"):
        go(make_experiment(), out="own")
    assert own.read_text() == "name: mine\n"
