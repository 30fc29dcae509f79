"""Nothing of a run can be reached from another machine, unless a setting says so."""

import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import yaml

from bon.dispatch.listeners import Listener, listeners
from bon.storage.store import Store
from tests.terminal import Terminal

BON = str(Path(sys.executable).with_name("bon"))
# Starts with the first Python below it, in a process of its own.
LISTEN = """
import socket, sys
server = socket.create_server((%r, 0))
print(flush=True)
sys.stdin.read()
"""
PLANT = f"""
import os, subprocess, sys
if os.environ.pop("PLANT", ""):
    command = [sys.executable, "-S", "-c", {LISTEN!r} % os.environ["PLANT_AT"]]
    planted = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    planted.stdout.readline()
"""
OPENS = """
import asyncio, socket
from bon.rewarders.base import Rewarder, Verdict


class Own(Rewarder):
    arity = "one"
    server = None

    async def judge(self, item, shown, seeds):
        Own.server = Own.server or socket.create_server(("0.0.0.0", 0))
        await asyncio.sleep(0.3)
        return [Verdict("scored", score=1.0)] * len(seeds)
"""
OWN = {"name": "own", "kind": "python", "python": "opens:Own", "engine": "none"}


def planted(folder: Path, address: str) -> dict[str, str]:
    """An environment in which `bon` starts a process that listens at `address`."""
    (folder / "plant").mkdir()
    (folder / "plant" / "sitecustomize.py").write_text(PLANT)
    path = [str(folder / "plant"), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("RAY_", "BON_"))}
    return {**environment, "PYTHONPATH": ":".join(path), "PLANT": "1", "PLANT_AT": address}


@pytest.mark.parametrize(
    ("ip", "loopback"),
    [
        ("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("::ffff:127.0.0.1", True),
        ("0.0.0.0", False), ("::", False), ("10.0.0.1", False), ("::ffff:10.0.0.1", False),
        ("fe80::1%eth0", False),
    ],
)  # fmt: skip
def test_what_only_this_machine_reaches(ip, loopback):
    assert Listener("python", 1, ip, 80).loopback is loopback


def refused(line):
    assert " listens on 0.0.0.0:" in line
    assert "cluster.listen_beyond_loopback: true" in line
    return True


def run(folder, experiment, *options, **more):
    """`bon run` of an experiment in a process of its own."""
    (folder / "e.yaml").write_text(yaml.safe_dump(experiment))
    return subprocess.run(
        [BON, "run", "e.yaml", "--quiet", "--out", "run", *options], cwd=folder,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=200, check=False, **more,
    )  # fmt: skip


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.parametrize(("setting", "code"), [("false", 2), ("true", 0)])
def test_a_run_refuses_a_listener_of_its_process_tree(make_experiment, tmp_path, setting, code):
    option = f"cluster.listen_beyond_loopback={setting}"
    done = run(tmp_path, make_experiment(), "--set", option, env=planted(tmp_path, ""))
    assert done.returncode == code, done.stderr
    assert not code or (done.stderr.startswith("bon: python") and refused(done.stderr))
    assert len(done.stderr.splitlines()) == (code == 2)


@pytest.mark.ray
@pytest.mark.slow
def test_so_does_one_on_a_cluster(make_experiment, tmp_path, ray_address):
    """What Ray opens in the driver excepted, which the nodes of the cluster reach."""
    address = ["--ray-address", ray_address]
    done = run(tmp_path, make_experiment(), *address, env=planted(tmp_path, ""))
    assert done.returncode == 2
    assert refused(done.stderr)
    done = run(tmp_path, make_experiment(), *address)
    assert done.returncode == 0, done.stderr


@pytest.mark.ray
@pytest.mark.slow
def test_a_port_that_a_rewarder_opens_ends_the_run_without_errors(make_experiment, tmp_path):
    (tmp_path / "opens.py").write_text(OPENS)
    experiment = make_experiment(cluster={"batch": 2, "in_flight": 1})
    experiment["rewarders"].append(OWN)
    done = run(tmp_path, experiment)
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("bon: ray::HostActor")
    assert refused(line)
    with Store(tmp_path / "run", readonly=True) as store:
        assert len(store.query("SELECT 1 FROM judgements WHERE rewarder = 'own'")) < 12 * 4
        assert not store.query("SELECT 1 FROM judgements WHERE outcome = 'error'")


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.model
def test_the_demo_runs_in_a_terminal_and_listens_on_loopback_alone(tmp_path, monkeypatch):
    for name in [name for name in os.environ if name.startswith(("RAY_", "BON_"))]:
        monkeypatch.delenv(name)
    command = [BON, "demo", "--limit", "2", "--out", "run"]
    command += ["--set", "rewarders=[mini-critic-a, mini-scalar-a]"]
    one_cpu = '{"CPU": 1}'  # one worker loads torch, not two
    terminal = Terminal(command, cwd=tmp_path, RAY_OVERRIDE_RESOURCES=one_cpu)
    seen = set()
    while terminal.draw(0.5):
        with suppress(psutil.NoSuchProcess):
            seen |= set(listeners(terminal.pid))
    ended = terminal.wait()
    assert ended.code == 0, ended.text
    assert not ended.cursor_hidden
    first, *bars = ended.screen[:4]
    assert first == "2 questions, 2 preference pairs"
    for bar, stage in zip(
        bars, ("sampling", "reward benchmark", "judging candidates"), strict=True
    ):
        assert re.match(rf"{stage} +━+ +(\d+)/\1 ", bar)
    for line in ("mini-policy-a:", "mini-policy-b:", "report: run/report.html"):
        assert line in ended.screen
    assert {"gcs_server", "raylet", "ray::HostActor"} <= {listener.process for listener in seen}
    assert not [listener for listener in seen if not listener.loopback]
    with Store(tmp_path / "run", readonly=True) as store:  # --limit bounds both tables
        assert (store.count("questions", "active"), store.count("pairs", "active")) == (2, 2)
