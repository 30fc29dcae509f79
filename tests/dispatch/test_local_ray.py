"""A Ray of a run's own, in processes of their own: it fails to start, dies, and is left behind."""

import os
import platform
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
import yaml

from bon.dispatch.listeners import listeners
from bon.storage.store import Store
from tests.processes import children, command, descendants, end_process, name

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(280)]
BON = str(Path(sys.executable).with_name("bon"))


@pytest.fixture
def bon(make_experiment, tmp_path):
    """Starts `bon run` of 12 questions, two at a time; ends what is left of it."""
    experiment = make_experiment(cluster={"batch": 2, "in_flight": 1})
    for model in [*experiment["policies"], *experiment["rewarders"]]:
        model["engine_args"]["latency"] = 0.3
    (tmp_path / "e.yaml").write_text(yaml.safe_dump(experiment))
    for model in [*experiment["policies"], *experiment["rewarders"]]:
        model["placement"] = {"group": "all", "runtime_env": {"env_vars": {"BON_TEST": "1"}}}
    (tmp_path / "environments.yaml").write_text(yaml.safe_dump(experiment))
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("RAY_", "BON_"))}
    started = []

    def start(*options, file="e.yaml", **more):
        process = subprocess.Popen(
            [BON, "run", file, "--out", "run", *options], cwd=tmp_path, text=True,
            env={**environment, **more}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        started.append(process)
        return process

    yield start
    for process in started:
        left = descendants([process.pid])
        process.kill()
        for each in left:
            end_process(each)


def below(process, wanted, other_than=()):
    """Its processes of that name, once there are any others."""
    end = time.monotonic() + 100
    while time.monotonic() < end:
        every = [each for each in descendants([process.pid]) if name(each) == wanted]
        if found := [each for each in every if each not in other_than]:
            return found
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.01)
    raise AssertionError(f"no {wanted}")


def titles(process, part):
    """Command lines below it with this part, as Ray rewrites them."""
    return [found for each in descendants([process.pid]) if part in (found := command(each))]


def rows_of(directory):
    """(policy or rewarder, outcome) -> rows."""
    with Store(directory, readonly=True) as store:
        found = store.query("SELECT policy, outcome FROM candidates")
        return Counter(found + store.query("SELECT rewarder, outcome FROM judgements"))


def wait_for_rows(process, directory, least):
    """Until so many rows are committed."""
    end = time.monotonic() + 100
    while time.monotonic() < end:
        assert process.poll() is None, process.communicate()[1]
        if (directory / "run.sqlite").exists() and sum(rows_of(directory).values()) >= least:
            return
        time.sleep(0.1)
    raise AssertionError("no rows came")


def test_a_raylet_and_a_gcs_are_killed_and_no_item_is_blamed(bon, tmp_path):
    process = bon(file="environments.yaml")
    wait_for_rows(process, tmp_path / "run", 8)
    assert titles(process, "ray::RuntimeEnvAgent")
    assert not [listener for listener in listeners(process.pid) if not listener.loopback]
    first = below(process, "raylet") + below(process, "gcs_server")
    end_process(first[0])
    below(process, "raylet", other_than=first)
    wait_for_rows(process, tmp_path / "run", sum(rows_of(tmp_path / "run").values()) + 8)
    end_process(below(process, "gcs_server", other_than=first)[0])
    out, errors = process.communicate(timeout=200)
    assert process.returncode == 0, errors
    lines = errors.splitlines()
    assert [line for line in lines if line.startswith("Ray's raylet process has died; starting")]
    assert [line for line in lines if line.startswith("Ray's GCS process has died; starting")]
    assert "Traceback" not in errors
    assert "(raylet)" not in out + errors
    found = rows_of(tmp_path / "run")
    assert sum(count for (model, _), count in found.items() if model == "policy") == 12 * 4
    assert not [key for key in found if key[1] == "error"]


@pytest.mark.long
def test_a_failed_start_is_retried_and_leaves_nothing(bon, tmp_path):
    process = bon("--quiet")
    end_process(below(process, "gcs_server")[0])  # as a machine short of memory does
    wait_for_rows(process, tmp_path / "run", 8)
    mine = descendants([process.pid])
    assert titles(process, "ray::HostActor")
    for unused in ("dashboard/dashboard.py", "monitor.py"):
        assert not titles(process, unused)
    assert not [listener for listener in listeners(process.pid) if not listener.loopback]
    workers = [each for each in mine if command(each).startswith("ray::HostActor")]
    niceness = {os.getpriority(os.PRIO_PROCESS, worker.pid) for worker in workers}
    assert niceness == {os.getpriority(os.PRIO_PROCESS, 0)}
    assert (
        b"RAY_AUTH_MODE=token"
        in Path(f"/proc/{below(process, 'raylet')[0].pid}/environ").read_bytes()
    )
    process.send_signal(signal.SIGKILL)
    process.wait()
    end = time.monotonic() + 10
    while [each for each in mine if each.alive()]:
        assert time.monotonic() < end, [command(each) for each in mine if each.alive()]
        time.sleep(0.1)
    out, errors = process.communicate()
    assert out == ""
    # Ray's own library may warn of a GCS that dies at a bad moment of the start; nothing else may.
    assert all("gcs" in line.lower() for line in errors.splitlines()), errors


def test_a_driver_that_is_killed_while_ray_starts_leaves_nothing(bon):
    process = bon("--quiet")
    raylet = below(process, "raylet")[0]
    while not children([raylet.pid]):
        time.sleep(0.01)
    mine = descendants([process.pid])
    process.send_signal(signal.SIGKILL)
    process.wait()
    end = time.monotonic() + 10
    while [each for each in mine if each.alive()]:
        assert time.monotonic() < end, [command(each) for each in mine if each.alive()]
        time.sleep(0.1)


OWN = """
from bon.rewarders.base import Rewarder, Verdict


class Own(Rewarder):
    arity = "one"

    async def judge(self, item, shown, seeds):
        return [Verdict("scored", score=1.0)] * len(seeds)
"""


def test_files_where_a_run_starts_are_not_taken_for_libraries(bon, tmp_path):
    """Ray puts this folder first in its workers' paths; some have a datasets.py of their own."""
    for library in ("bon", "datasets", "evaluate", "PIL", "pydantic", "tokenizers", "yaml"):
        (tmp_path / f"{library}.py").write_text("raise RuntimeError('a file of somebody')")
    for folder in ("analysis", "policies", "rewarders"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "__init__.py").write_text("raise RuntimeError('a file of somebody')")
    # A class of one's own is looked for there too, after the libraries.
    (tmp_path / "own_rewarder.py").write_text(OWN)
    experiment = yaml.safe_load((tmp_path / "e.yaml").read_text())
    card = {"name": "own", "kind": "python", "python": "own_rewarder:Own", "engine": "none"}
    experiment["rewarders"].append(card)
    for model in [*experiment["policies"], *experiment["rewarders"]]:
        model.get("engine_args", {}).pop("latency", None)
    (tmp_path / "e.yaml").write_text(yaml.safe_dump(experiment))
    process = bon()
    _, errors = process.communicate(timeout=200)
    assert process.returncode == 0, errors
    found = rows_of(tmp_path / "run")
    assert not [key for key in found if key[1] == "error"]
    assert found["own", "scored"]
    assert (tmp_path / "run" / "report.html").exists()


def test_why_workers_cannot_start_is_said_once_and_in_few_words(bon, tmp_path):
    """Not the page that Ray makes of it, nor once for every model."""
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "bon.py").write_text("")
    written = (tmp_path / "environments.yaml").read_text()
    broken = written.replace("BON_TEST: '1'", f"PYTHONPATH: {tmp_path / 'path'}")
    (tmp_path / "broken.yaml").write_text(broken)
    process = bon("--quiet", file="broken.yaml")
    _, errors = process.communicate(timeout=200)
    assert process.returncode == 3
    why = "ModuleNotFoundError: No module named 'bon.dispatch'; 'bon' is not a package"
    last = errors.splitlines()[-1]
    assert last.startswith(f"bon: no candidate was sampled: its worker cannot start: {why}")
    assert errors.count(why) == 1


@pytest.mark.parametrize(
    ("folder", "code", "line"),
    [
        ("/dev/null/ray", 3, "cannot start Ray on this machine: NotADirectoryError"),
        (
            "/tmp/" + "x" * 60,
            2,
            f"the path /tmp/{'x' * 60} (RAY_TMPDIR) is too long for Ray's socke",
        ),
    ],
)
def test_a_ray_that_does_not_start_is_one_line(bon, folder, code, line):
    process = bon("--quiet", RAY_TMPDIR=folder)
    out, errors = process.communicate(timeout=100)
    assert process.returncode == code
    assert out == ""
    assert errors.startswith(f"bon: {line}")
    assert len(errors.splitlines()) == 1
    assert not children([process.pid])


FAULTS = """
import os, ray
from bon.dispatch.connection import connect, disconnect

connect(None)

@ray.remote
class Worker:
    def faults(self):
        import resource
        from concurrent.futures import ThreadPoolExecutor

        def work():
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            held = [bytearray(8 << 20) for _ in range(12)]
            del held
            return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

        models = [ThreadPoolExecutor(1) for _ in range(4)]
        return [model.submit(work).result() for _ in range(3) for model in models]

print(*ray.get(Worker.remote().faults.remote()))
assert "MALLOC_ARENA_MAX" not in os.environ
disconnect()
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="of glibc")
def test_what_the_thread_of_one_model_frees_serves_those_of_the_others():
    """A page that is given anew costs as much as the work of a small model on it."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("RAY_", "MALLOC_"))}
    told = subprocess.run(
        [sys.executable, "-c", FAULTS], env=environment, capture_output=True, text=True, check=True
    )
    first, *later = map(int, told.stdout.split())
    pages = 12 * (8 << 20) // os.sysconf("SC_PAGESIZE")
    assert first > 0.9 * pages
    assert sum(later) < 0.1 * pages
