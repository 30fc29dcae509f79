"""A cluster of two nodes on one machine: one dies under a validation, or joins it."""

import pytest

from tests.service.conftest import wait_for
from tests.service.server import serving, write_data
from tests.service.test_killed import slow, wait_until
from tests.service.test_validations import rows

pytestmark = [pytest.mark.slow, pytest.mark.ray, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def head():
    """A head that takes no work."""
    from ray.cluster_utils import Cluster

    nodes = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False}
    )
    yield nodes
    nodes.shutdown()


@pytest.fixture
def cluster(tmp_path, head):
    """The head alone; data for a server in tmp_path."""
    write_data(tmp_path, 16, 8)
    yield head
    for node in list(head.worker_nodes):
        head.remove_node(node)
    head.wait_for_nodes(60)  # Ray places workers on a removed node until it notices


@pytest.mark.long
def test_the_node_that_runs_a_validation_is_killed(tmp_path, cluster):
    nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
    with serving(tmp_path, ray_address=cluster.address, max_running=1) as server:
        client = server.client
        key = client.post("/v1/validations", json=slow(0.2)).json()["id"]

        def count():
            return client.get(f"/v1/validations/{key}").json()["counts"]["candidates"]

        wait_until(lambda: count() > 4)
        busy = next(node for node in nodes if _has_workers(node))
        cluster.remove_node(busy, allow_graceful=False)
        wait_for(client, key, "done", seconds=300)
        calm = client.post("/v1/validations", json=slow(0)).json()["id"]
        wait_for(client, calm, "done", seconds=200)
        runs = tmp_path / "data" / "runs"
        assert rows(runs / key) == rows(runs / calm)


@pytest.mark.long
def test_a_node_goes_and_there_is_no_room_for_its_worker(tmp_path, cluster):
    """Ray would wait for room for ever; the other worker does the work of both."""
    nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
    with serving(tmp_path, ray_address=cluster.address) as server:
        key = server.client.post("/v1/validations", json=wide(0.5)).json()["id"]
        wait_until(lambda: all(_has_workers(node) for node in nodes))
        path = f"/v1/validations/{key}"
        wait_until(lambda: server.client.get(path).json()["counts"]["candidates"] > 4)
        cluster.remove_node(nodes[1], allow_graceful=False)
        done = wait_for(server.client, key, "done", seconds=300)
        assert done["counts"]["candidates"] == 64
        assert done["counts"]["errors"] == 0


def wide(latency):
    """Everything on two workers."""
    result = slow(latency)
    for card in [*result["policies"], *result["rewarders"]]:
        card["placement"] = {"group": "all", "cpus": 1, "actors": 2}
    return result


def test_a_node_that_joins_later_is_used(tmp_path, cluster):
    """Two actors are asked for and there is room for one, until another node comes."""
    first = cluster.add_node(num_cpus=1)
    with serving(tmp_path, ray_address=cluster.address) as server:
        key = server.client.post("/v1/validations", json=wide(1.0)).json()["id"]
        wait_until(lambda: _has_workers(first))
        second = cluster.add_node(num_cpus=1)
        wait_until(lambda: _has_workers(second))
        wait_for(server.client, key, "running")
        server.client.post(f"/v1/validations/{key}/cancel")
        wait_for(server.client, key, "cancelled")


def _has_workers(node):
    """Whether a node's raylet has a busy worker of ours among its processes."""
    import psutil

    for raylet in node.all_processes["raylet"]:
        for child in psutil.Process(raylet.process.pid).children(recursive=True):
            if child.name().startswith("ray::Host"):
                return True
    return False
