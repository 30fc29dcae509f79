"""The online models in Ray actors."""

import threading
import time

import pytest

from tests.service.server import serving
from tests.service.test_online import CARDS, OPTIONS, asks

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def cards(latency=0.0):
    place = {"group": "all", "cpus": 0.1}
    result = {}
    for room in ("policies", "rewarders"):
        result[room] = [
            {**row, "placement": place, "engine_args": {**row["engine_args"], "latency": latency}}
            for row in CARDS[room]
        ]
    return result


def wait_ready(client, seconds=200):
    deadline = time.monotonic() + seconds
    while not client.get("/readyz").json()["ready"]:
        assert time.monotonic() < deadline
        time.sleep(0.5)


BODY = {"messages": asks(), "options": OPTIONS, "best_of": 4}


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """Replies of a server that holds the models in its own process."""
    online = {**cards(), "backend": "process"}
    with serving(tmp_path_factory.mktemp("process"), online=online) as server:
        return [best_of_n(server, rewarder) for rewarder in ("judge", "critic", "head")]


def best_of_n(server, rewarder):
    body = {**BODY, "model": f"bon/policy/{rewarder}"}
    reply = server.client.post("/v1/chat/completions", json=body).json()
    return reply["choices"], reply["bon"]["candidates"]


def test_ray_answers_as_one_process_does_and_sheds_load(tmp_path, ray_address, expected):
    scaling = {"max_ongoing_requests": 2, "max_queued_requests": 2}
    online = {**cards(latency=0.3), "scaling": scaling}
    with serving(tmp_path, online=online, ray_address=ray_address) as served:
        wait_ready(served.client)
        assert [best_of_n(served, name) for name in ("judge", "critic", "head")] == expected
        answers = []

        def ask(number):
            body = {"rewarder": "head", "messages": asks(str(number)), "candidates": ["a", "b"]}
            answers.append(served.client.post("/v1/score", json=body))

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(24)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        statuses = [answer.status_code for answer in answers]
        assert set(statuses) == {200, 429}, statuses
        assert all("retry-after" in row.headers for row in answers if row.status_code == 429)
        ask("afterwards")
        assert answers[-1].status_code == 200
