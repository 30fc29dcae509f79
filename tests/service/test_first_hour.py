"""An operator's first hour: starts that fail, the first token, the first request, a proxy."""

import html
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import psutil
import pytest
import yaml

from bon.dispatch.listeners import listeners
from bon.service.validations.jobs import Jobs
from tests.service.conftest import experiment
from tests.service.server import Server, serving, write_data

ROOT = Path(__file__).parents[2]
BON = Path(sys.executable).with_name("bon")
HEAD = {"name": "head", "kind": "scalar", "engine": "echo"}


def failed(server):
    """A start that ends by itself; return its one line."""
    done = subprocess.run(
        [BON, "serve", "--config", server.config], cwd=server.folder, capture_output=True,
        text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("bon: ")]
    return line


def tokens(server):
    jobs = Jobs(server.folder / "data" / "service.sqlite")
    with jobs.write() as db:
        rows = db.execute("SELECT name FROM tokens").fetchall()
    jobs.close()
    return rows


def test_a_start_that_fails_does_not_use_up_the_first_token(tmp_path):
    server = Server(tmp_path, auth=True, online={"backend": "process", "rewarders": [HEAD]})
    settings = yaml.safe_load(server.config.read_text())
    with socket.create_server(("127.0.0.1", server.port)):
        line = failed(server)
        assert f"cannot listen on 127.0.0.1:{server.port}: Address already in use" in line
        assert "--port" in line
    assert tokens(server) == []
    wrong = {**settings, "online": {**settings["online"], "rewarders": ["nowhere.yaml"]}}
    server.config.write_text(yaml.safe_dump(wrong))
    assert "nowhere.yaml" in failed(server)
    assert tokens(server) == []
    server.config.write_text(yaml.safe_dump(settings))
    server.start()
    try:
        headers = {"authorization": f"Bearer {server.printed_token}"}
        assert server.client.get("/v1/validations", headers=headers).status_code == 200
    finally:
        server.stop()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server as it is started for the first time, with data for the first experiment."""
    folder = tmp_path_factory.mktemp("server")
    write_data(folder, 4, 3)
    (folder / "experiment.yaml").write_text(yaml.safe_dump(experiment()))
    allow = {"hosts": ["bon.example", "labels.example:8443"]}
    with serving(folder, auth=True, ray_address="127.0.0.1:1", allow=allow) as running:
        yield running


def submitted(server, command):
    done = subprocess.run(
        ["bash", "-c", command], cwd=server.folder, capture_output=True, text=True, timeout=60,
        env={**os.environ, "BON_TOKEN": server.printed_token}, check=False,
    )  # fmt: skip
    assert '"state":"queued"' in done.stdout, done.stdout + done.stderr


def test_the_request_on_the_empty_page_is_accepted(server):
    with httpx.Client(base_url=server.address) as browser:
        browser.post("/login", data={"token": server.printed_token})
        page = browser.get("/validations", headers={"accept": "text/html"}).text
    command = html.unescape(re.search("<code>(curl .*?)</code>", page)[1])
    assert command.endswith(f" {server.address}/v1/validations")
    submitted(server, command)


def test_so_is_that_of_the_documentation(server):
    text = (ROOT / "docs" / "service.md").read_text()
    command = re.search(r"(curl --data-binary (?:.*\\\n)*.*)", text)[1]
    submitted(server, command.replace("http://127.0.0.1:8321", server.address))


def test_a_proxy_that_rewrites_host_is_named_with_the_fix(server):
    token = server.printed_token
    headers = {"origin": "https://other.example"}
    answer = server.client.post("/login", data={"token": token}, headers=headers)
    assert answer.status_code == 403
    error = answer.json()["error"]
    assert "Origin is 'https://other.example', Host '127.0.0.1:" in error["message"]
    assert "must pass the Host header on (examples/deploy)" in error["fix"]
    for origin, status in (
        ("https://bon.example", 303),
        ("https://labels.example:8443", 303),
        ("https://bon.example:8443", 403),
        ("http://bon.example", 403),
        (server.address.replace("http:", "https:"), 403),
        (server.address[:-1], 403),
        ("null", 403),
        ("https://bon.example.evil.example", 403),
        ("https://evil.example/bon.example", 403),
        ("https://bon.example@evil.example", 403),
    ):
        answer = server.client.post("/login", data={"token": token}, headers={"origin": origin})
        assert answer.status_code == status, origin


def cpu_seconds(server):
    """What the server and its processes have computed."""
    process = psutil.Process(server.process.pid)
    times = [each.cpu_times() for each in (process, *process.children(recursive=True))]
    return sum(each.user + each.system for each in times)


def test_ready_means_that_every_online_model_is_loaded(tmp_path):
    online = {"backend": "process", "rewarders": ["mini-scalar-b"]}
    with serving(tmp_path, online=online) as server:
        first = server.client.get("/readyz")
        assert (first.status_code, first.json()["checks"]["online"]) == (503, False)
        deadline = time.monotonic() + 120
        while server.client.get("/readyz").status_code == 503:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        before = cpu_seconds(server)
        body = {"rewarder": "mini-scalar-b", "candidates": ["a", "b"]}
        body["messages"] = [{"role": "user", "content": "Which?"}]
        assert server.client.post("/v1/score", json=body).status_code == 200
        assert cpu_seconds(server) - before < 10
        assert [each.port for each in listeners(server.process.pid)] == [server.port]


def test_a_model_that_cannot_load_is_never_ready(tmp_path):
    broken = {"name": "broken", "kind": "scalar", "model": str(tmp_path / "nowhere")}
    online = {"backend": "process", "rewarders": [HEAD, broken]}
    with serving(tmp_path, online=online) as server:
        deadline = time.monotonic() + 60
        while "not loaded: broken" not in (tmp_path / "server.log").read_text():
            assert time.monotonic() < deadline
            time.sleep(0.2)
        assert server.client.get("/readyz").status_code == 503
