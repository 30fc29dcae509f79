"""Another user of this machine, while bon works: nothing to list, to read or to plant."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
import yaml

from bon.dispatch.listeners import listeners
from bon.service.server.state import open_tokens
from tests.conftest import write_pairs, write_questions
from tests.curating.labelled_items import make_bench
from tests.dispatch.test_listeners import BON
from tests.processes import command, descendants
from tests.service.server import serving
from tests.service.test_killed import slow, wait_until
from tests.service.test_listening import SCORE
from tests.service.test_serve import cards, wait_ready

SECRET = "known to the owner alone"
OTHER = r"""
import json, os, socket, subprocess, sys
from contextlib import suppress

asked, done = json.load(sys.stdin), []
before, sessions, mine = set(asked["before"]), asked["sessions"], asked["place"] + "/"


def attempt(verb, path, act):
    with suppress(OSError):
        if act() is not False:
            done.append(f"{verb} {path}")


def plant(folder):
    os.close(os.open(f"{folder}/planted", os.O_CREAT | os.O_EXCL))
    os.unlink(f"{folder}/planted")


def holds_secret(path):
    status = os.stat(path)
    if status.st_size > 1 << 28:
        return False
    with open(path, "rb") as file:
        return asked["secret"].encode() in file.read()


# What is new on the whole disk; `find` is ten times as fast as os.walk.
wanted = ["-path", f"{mine}*", "-o", "-type", "f", "-newermt", f"@{asked['since']}"]
for session in sessions:
    wanted += ["-o", "-path", f"*{session}*"]
left = "( -path /proc -o -path /sys -o -path /usr -o -path /opt ) -prune -o".split()
command = ["find", "/", *left, "(", *wanted, ")", "-printf", r"%y%p\0"]
found = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
for kind, path in ((each[0], each[1:]) for each in map(os.fsdecode, found.split(b"\0")[:-1])):
    if path in before:
        continue
    if kind == "d":
        attempt("list", path, lambda: os.listdir(path))
        attempt("plant in", path, lambda: plant(path))
    elif path.startswith(mine):
        attempt("read", path, lambda: open(path, "rb").close())
        attempt("write to", path, lambda: open(path, "r+b").close())
        attempt("connect to", path, lambda: socket.socket(socket.AF_UNIX).connect(path))
    elif kind == "f":
        attempt("read", path, lambda: holds_secret(path))

for session in sessions:  # `ps` shows their paths to everyone
    for part in ("", "/logs", "/sockets", "/runtime_resources"):
        attempt("list", session + part, lambda: os.listdir(session + part))
        attempt("plant in", session + part, lambda: plant(session + part))
    attempt("connect to", session, lambda: socket.socket(socket.AF_UNIX).connect(
        session + "/sockets/plasma_store"))

import grpc
METHODS = (
    "InternalKVGcsService/InternalKVKeys", "NodeManagerService/GetNodeStats",
    "ObjectManagerService/Pull", "CoreWorkerService/GetCoreWorkerStats",
    "ReporterService/GetTraceback", "LogService/ListLogs",
)
refused = set()
for port in asked["ports"]:
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        for method in METHODS:
            try:
                channel.unary_unary(f"/ray.rpc.{method}")(b"", timeout=10)
                done.append(f"call {method} of port {port}")
            except grpc.RpcError as error:
                if error.code() == grpc.StatusCode.UNAUTHENTICATED:
                    refused.add(method)
print(json.dumps([done, sorted(set(METHODS) - refused)]))
"""
AS_OTHER = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", sys.executable, "-I"]


def _not_possible() -> str:
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        return "only root can act as another user"
    reached = subprocess.run([*AS_OTHER, "-c", "import grpc"], cwd="/", capture_output=True)
    return "another user cannot use this Python" if reached.returncode else ""


NOT_POSSIBLE = _not_possible()
pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(600)]
attacked = pytest.mark.skipif(bool(NOT_POSSIBLE), reason=NOT_POSSIBLE)


@pytest.fixture
def place(monkeypatch):
    """A home and a folder for temporary files that everyone may enter, as homes often are."""
    folder = Path(tempfile.mkdtemp(prefix="u-", dir="/tmp"))
    files = folder / "home" / "data" / "files"
    files.mkdir(parents=True)
    (folder / "tmp").mkdir()
    for each in (folder, *(path for path in folder.rglob("*") if path.is_dir())):
        each.chmod(0o755)
    (folder / "tmp").chmod(0o1777)
    for target in (files, folder / "home"):
        write_questions(target / "questions.jsonl", 40)
        write_pairs(target / "pairs.jsonl", 20)
        table = target / "questions.jsonl"
        table.write_text(table.read_text().replace("What", f"{SECRET}: what"))
        table.chmod(0o600)  # the user's own file: not what this is about
    monkeypatch.setenv("HOME", str(folder / "home"))
    monkeypatch.setenv("TMPDIR", str(folder / "tmp"))
    for name in [name for name in os.environ if name.startswith(("RAY_", "XDG_"))]:
        monkeypatch.delenv(name)
    before = os.umask(0o022)
    yield folder
    os.umask(before)
    shutil.rmtree(folder, ignore_errors=True)


def sessions_of(pid):
    """The folders of Ray's sessions, from the command lines of its processes."""
    commands = " ".join(map(command, descendants([pid])))
    return sorted({*re.findall(r"--session-dir=(\S+)", commands)})


def attack(place, pid, before, since, own_port=None):
    """What the other user could do, and the methods of Ray that no port refused."""
    sessions = sessions_of(pid)
    assert sessions
    ports = {each.port for each in listeners(pid)} - {own_port}
    asked = {
        "place": str(place), "before": before, "since": since, "secret": SECRET,
        "sessions": sessions, "ports": sorted(ports),
    }  # fmt: skip
    done = subprocess.run(
        [*AS_OTHER, "-c", OTHER], input=json.dumps(asked), cwd="/", text=True, capture_output=True
    )
    assert done.returncode == 0, done.stderr
    return tuple(json.loads(done.stdout))


def paths_of(place):
    return [str(place), *map(str, place.rglob("*"))]


def start_run(place):
    # The attack reads the whole disk first: the run lasts for longer.
    (place / "home" / "e.yaml").write_text(yaml.safe_dump(slow(3.0)))
    since, before = time.time(), paths_of(place)
    process = subprocess.Popen([BON, "run", "e.yaml", "--out", "run"], cwd=place / "home")
    database = place / "home" / "run" / "run.sqlite"
    wait_until(
        lambda: (
            database.exists() and any("HostActor" in command(p) for p in descendants([process.pid]))
        )
    )
    return process, before, since


@attacked
def test_a_run_gives_nothing_to_another_user(place):
    process, before, since = start_run(place)
    try:
        assert attack(place, process.pid, before, since) == ([], [])
        [session] = sessions_of(process.pid)
    finally:
        process.terminate()
        process.wait()
    run = place / "home" / "run"
    assert not Path(session).exists()
    assert os.listdir(place / "tmp") == []
    # A run that its owner has opened to others goes on, and stays open.
    (place / "home" / "e.yaml").write_text(yaml.safe_dump(slow(0.0)))
    for path in (run, *run.rglob("*")):
        path.chmod(path.stat().st_mode | (0o055 if path.is_dir() else 0o044))
    more = ["--set", "questions.limit=2", "--replace"]
    subprocess.run([BON, "run", "e.yaml", "--out", "run", *more], cwd=place / "home", check=True)
    assert (run / "run.sqlite").stat().st_mode & 0o777 == 0o644
    assert (run / "report.html").stat().st_mode & 0o777 == 0o600
    (run / "report.html").chmod(0o640)
    subprocess.run([BON, "report", "run"], cwd=place / "home", check=True)
    assert (run / "report.html").stat().st_mode & 0o777 == 0o640


def test_a_killed_run_leaves_nothing_to_another_user(place):
    process, *_ = start_run(place)
    process.kill()
    process.wait()
    wait_until(lambda: not os.listdir(place / "tmp"))


def test_a_server_gives_nothing_to_another_user_or_machine(place):
    """While it answers from one Ray, a validation runs on another and people label."""
    home = place / "home"
    make_bench(home / "bench")
    # Written by the test, not by the server.
    for name in ("bon.py", "datasets.py", "tokenizers.py", "settings.yaml", "server.log"):
        (home / name).touch()
    since, before = time.time(), paths_of(place)
    token = open_tokens(home / "data").add("me", "admin")
    more = {"auth": True, "host": "0.0.0.0", "annotate": [str(home / "bench")]}
    with serving(home, online=cards(), **more) as server:
        client, pid = server.client, server.process.pid
        client.headers["authorization"] = f"Bearer {token}"
        wait_ready(client)
        assert client.post("/v1/score", json=SCORE).status_code == 200
        key = client.post("/v1/validations", json=slow(0.3)).json()["id"]
        wait_until(lambda: client.get(f"/v1/validations/{key}").json()["counts"]["candidates"])
        assert client.get("/annotate/bench").status_code == 200
        assert len(sessions_of(pid)) == 2
        assert [each.port for each in listeners(pid) if not each.loopback] == [server.port]
        if not NOT_POSSIBLE:
            assert attack(place, pid, before, since, server.port) == ([], [])
        assert client.get("/healthz").status_code == 200


API = """
import os, bon
bon.run("e.yaml", "run", quiet=True)
assert os.umask(0o022) == 0o022
"""


def test_a_run_from_python_is_private_and_leaves_the_umask_alone(place):
    home = place / "home"
    (home / "e.yaml").write_text(yaml.safe_dump(slow(0.0)))
    (home / "run").mkdir(mode=0o755)  # made by the user: only what lies in it is bon's
    subprocess.run([sys.executable, "-c", API], cwd=home, check=True)
    modes = {path: path.stat().st_mode & 0o077 for path in (home / "run").rglob("*")}
    assert {path: mode for path, mode in modes.items() if mode} == {}
    assert home / "run" / "run.sqlite" in modes
