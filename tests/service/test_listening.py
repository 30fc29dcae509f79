"""Who has no token reaches nothing of a server but its own port, whatever holds its models."""

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from bon.dispatch.listeners import listeners
from bon.service.server.state import open_tokens
from tests.conftest import write_pairs, write_questions
from tests.curating.labelled_items import make_bench
from tests.dispatch.test_listeners import BON, OPENS, OWN, planted
from tests.service import intruder
from tests.service.intruder import intrude
from tests.service.server import Server, serving
from tests.service.test_killed import slow, wait_until
from tests.service.test_online import asks
from tests.service.test_serve import cards, wait_ready

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(600)]
SCORE = {"rewarder": "head", "messages": asks(), "candidates": ["a", "b"]}


def beyond_loopback(server):
    return [listener for listener in listeners(server.process.pid) if not listener.loopback]


def test_a_server_on_every_address_opens_its_own_port_alone(tmp_path):
    """While it answers from one Ray, a validation runs on another and people label."""
    files = tmp_path / "data" / "files"
    files.mkdir(parents=True)
    write_questions(files / "questions.jsonl", 40)
    write_pairs(files / "pairs.jsonl", 20)
    token = open_tokens(tmp_path / "data").add("me", "admin")
    make_bench(tmp_path / "bench")
    labels = {"annotate": [str(tmp_path / "bench")]}
    with serving(tmp_path, online=cards(), auth=True, host="0.0.0.0", **labels) as server:
        client = server.client
        client.headers["authorization"] = f"Bearer {token}"
        wait_ready(client)
        answer = client.post("/v1/score", json=SCORE)
        assert answer.status_code == 200, answer.text
        key = client.post("/v1/validations", json=slow(0.3)).json()["id"]
        wait_until(lambda: client.get(f"/v1/validations/{key}").json()["counts"]["candidates"])
        assert client.get("/annotate/bench").status_code == 200
        names = [listener.process for listener in listeners(server.process.pid)]
        assert names.count("raylet") >= 2
        assert [listener.port for listener in beyond_loopback(server)] == [server.port]
        for listener in {*listeners(server.process.pid)}:
            assert not intrude(listener.ip, listener.port, tmp_path / "proof")
        assert client.get("/healthz").status_code == 200


def test_the_intruder_gets_into_a_port_that_unpickles(tmp_path):
    """So what it does is real."""
    command = [sys.executable, intruder.__file__]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as victim:
        assert intrude("127.0.0.1", int(victim.stdout.readline()), tmp_path / "proof")
        victim.kill()
    assert (tmp_path / "proof").read_text().startswith("uid=")


def test_a_server_refuses_what_else_listens(tmp_path):
    """Before anything is opened, in one line."""
    server = Server(tmp_path, online={**cards(), "backend": "process"})
    done = subprocess.run(
        [BON, "serve", "--config", server.config], cwd=tmp_path, env=planted(tmp_path, ""),
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert (done.returncode, done.stdout) == (2, "")
    assert "listens on 0.0.0.0:" in done.stderr
    assert "listen_beyond_loopback: true" in done.stderr


def test_a_server_stops_when_what_its_models_start_listens(tmp_path):
    """Ray starts its workers with an environment of the card's: what they open counts."""
    plant = planted(tmp_path, "")
    variables = {key: plant[key] for key in ("PYTHONPATH", "PLANT", "PLANT_AT")}
    online = cards()
    for card in [*online["policies"], *online["rewarders"]]:
        card["placement"] = {**card["placement"], "runtime_env": {"env_vars": variables}}
    server = Server(tmp_path, online=online)
    done = subprocess.run(
        [BON, "serve", "--config", server.config], cwd=tmp_path, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert done.stderr.splitlines()[-1].startswith("bon: python")


def test_a_server_stops_when_a_rewarder_opens_a_port_while_it_answers(tmp_path, monkeypatch):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "opens.py").write_text(OPENS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "own"), prepend=":")
    online = {"backend": "process", "rewarders": [OWN]}
    with serving(tmp_path, online=online) as server:
        wait_ready(server.client)
        answer = server.client.post("/v1/score", json={**SCORE, "rewarder": "own"})
        assert answer.status_code == 200, answer.text
        assert server.process.wait(30) == 2
    last = (tmp_path / "server.log").read_text().splitlines()[-1]
    assert " listens on 0.0.0.0:" in last
    assert "listen_beyond_loopback: true" in last


def test_a_server_and_its_models_survive_a_dead_worker(tmp_path):
    with serving(tmp_path, online=cards(latency=2.0)) as server:
        client = server.client
        wait_ready(client)
        (worker,) = [
            process
            for process in psutil.Process(server.process.pid).children(recursive=True)
            if process.name().startswith("ray::Host")
        ]
        with ThreadPoolExecutor() as pool:
            lost = pool.submit(client.post, "/v1/score", json=SCORE)
            time.sleep(1)
            worker.kill()
            assert lost.result().status_code == 503
        statuses = []

        def score():
            statuses.append(client.post("/v1/score", json=SCORE).status_code)
            return statuses[-1] == 200

        wait_until(score)
        assert set(statuses) <= {200, 503}
