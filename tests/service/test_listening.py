"""A server ends once more than its own port can be reached, whatever holds its models."""

import subprocess

import pytest

from tests.dispatch.test_listeners import BON, OPENS, OWN, planted
from tests.service.server import Server, serving
from tests.service.test_online import asks
from tests.service.test_serve import cards, wait_ready

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(600)]
SCORE = {"rewarder": "head", "messages": asks(), "candidates": ["a", "b"]}


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
