"""kill -9 of the server, of a validation's process and of a Ray worker: nothing is lost."""

import time

import psutil
import pytest

from tests.processes import raylet_of
from tests.service.conftest import experiment, wait_for
from tests.service.server import serving, write_data
from tests.service.test_validations import rows


def slow(latency):
    result = experiment(cluster={"batch": 2, "in_flight": 1})
    for model in [*result["policies"], *result["rewarders"]]:
        model["engine_args"] = {**model["engine_args"], "latency": latency}
    return result


def wait_until(condition, seconds=120):
    deadline = time.monotonic() + seconds
    while not (result := condition()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.1)
    return result


def job_of(server):
    """The process of the one validation that runs."""
    (job,) = psutil.Process(server.process.pid).children()
    return job


def workers_of(ray_address):
    """The workers with models of the Ray at this address."""
    below = raylet_of(ray_address).children(recursive=True)
    return [process for process in below if process.name().startswith("ray::Host")]


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_nothing_is_lost_and_nothing_is_run_twice(tmp_path, ray_address):
    write_data(tmp_path, 24, 12)
    with serving(tmp_path, ray_address=ray_address) as server:
        client = server.client
        calm = client.post("/v1/validations", json=slow(0)).json()["id"]
        wait_for(client, calm, "done", seconds=200)
        hunted = client.post("/v1/validations", json=slow(0.3)).json()["id"]
        waiting = client.post("/v1/validations", json=slow(0)).json()["id"]

        def count():
            result = client.get(f"/v1/validations/{hunted}").json()["counts"]
            return result["candidates"] + result["judgements"]

        wait_until(lambda: count() > 4)
        job = job_of(server)
        server.kill()
        job.wait(20)  # it ends with its server
        server.start()
        wait_until(lambda: client.get(f"/v1/validations/{hunted}").json()["attempt"] == 2)
        assert client.get(f"/v1/validations/{waiting}").json()["state"] == "queued"
        before = count()
        wait_until(lambda: count() > before)

        job_of(server).kill()  # the validation's own process
        wait_until(lambda: client.get(f"/v1/validations/{hunted}").json()["attempt"] == 3)
        before = count()
        wait_until(lambda: count() > before)

        workers = workers_of(ray_address)
        assert workers
        for worker in workers:  # Ray's workers, which Ray starts again
            worker.kill()
        job = job_of(server)
        server.kill()
        job.kill()  # both at once: a machine that lost its power
        server.start()
        wait_for(client, hunted, "done", seconds=300)
        wait_for(client, waiting, "done", seconds=200)
        assert client.get(f"/v1/validations/{hunted}").json()["attempt"] == 4
        # Seeds do not depend on latency or kills, so the tables are the same to the row.
        runs = tmp_path / "data" / "runs"
        assert rows(runs / hunted) == rows(runs / calm)


@pytest.mark.slow
def test_a_stopped_server_continues_its_work_later(tmp_path, ray_address):
    write_data(tmp_path, 6, 3)
    with serving(tmp_path, ray_address=ray_address) as server:
        key = server.client.post("/v1/validations", json=slow(0.3)).json()["id"]
        path = f"/v1/validations/{key}"
        wait_until(lambda: server.client.get(path).json()["counts"]["candidates"])
        server.stop()
        server.start()
        assert wait_for(server.client, key, "done", seconds=200)["counts"]["candidates"] == 24
