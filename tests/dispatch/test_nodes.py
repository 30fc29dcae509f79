"""What fits on the nodes of a cluster: a worker on one node, a share of a GPU on one GPU."""

import pytest
import yaml
from typer.testing import CliRunner

from bon.commands.main import app
from bon.core.errors import BonError
from bon.dispatch.nodes import Node, check_width, has_room
from bon.experiment.config import Placement

TWO = {"a": Node(8, 2), "b": Node(8, 2)}


def place(gpus: float = 0, cpus: float = 1) -> Placement:
    return Placement(gpus=gpus, cpus=cpus)


@pytest.mark.parametrize(("nodes", "workers", "gpus", "room"), [
    ({"a": Node(8, 2)}, [("a", 0.6)], 0.6, True),
    ({"a": Node(8, 2)}, [("a", 0.6), ("a", 0.6)], 0.6, False),  # .8 are free, on two GPUs
    ({"a": Node(8, 2)}, [("a", 0.6), ("a", 0.6)], 0.4, True),
    ({"a": Node(8, 2)}, [("a", 0.3), ("a", 0.3)], 1, True),  # Ray fills a GPU first
    (TWO, [], 3, False),  # four in all
    (TWO, [("a", 1), ("b", 1)], 2, False),
    (TWO, [("a", 2)], 2, True),
    (TWO, [("", 2)], 2, True),  # Ray looks for its node
    (TWO, [("", 2), ("b", 1)], 2, False),
    (TWO, [("gone", 2)], 2, True),
])  # fmt: skip
def test_room_is_that_of_one_node(nodes, workers, gpus, room) -> None:
    placed = [(node, place(each)) for node, each in workers]
    assert has_room(nodes, placed, place(gpus)) is room


def test_processors_are_those_of_one_node_too() -> None:
    assert not has_room(TWO, [], place(cpus=9))
    assert not has_room(TWO, [("a", place(cpus=5)), ("b", place(cpus=4))], place(cpus=5))


@pytest.mark.parametrize(("nodes", "placement", "problem"), [
    ([Node(8, 2)] * 2, place(4), "4 GPU per actor, and the largest of Ray's 2 nodes has 2"),
    ([Node(8, 0)], place(1), "1 GPU per actor, and Ray has 0"),
    ([Node(8, 2)], place(1, 9), "9 CPU per actor, and Ray has 8"),
    ([Node(2, 4), Node(64)], place(2, 16), "2 GPU and 16 CPU per actor, and no node has both"),
])  # fmt: skip
def test_a_worker_that_no_node_can_hold_is_refused(nodes, placement, problem) -> None:
    with pytest.raises(BonError) as refused:
        check_width("big", placement, nodes)
    assert refused.value.message == f"big: needs {problem}"


def test_a_part_of_a_second_gpu_is_refused_with_its_place(make_experiment, tmp_path) -> None:
    experiment = make_experiment()
    experiment["policies"][0]["placement"] = {"gpus": 1.5}
    (tmp_path / "e.yaml").write_text(yaml.safe_dump(experiment))
    refused = CliRunner().invoke(app, ["plan", str(tmp_path / "e.yaml")])
    assert isinstance(refused.exception, BonError)
    assert "above one, GPUs are whole -> set 1 or 2" in str(refused.exception)


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_run_on_a_cluster_names_the_model_that_is_wider_than_any_node(
    make_experiment, tmp_path
) -> None:
    """Four GPUs on two nodes are no node of four: it does not wait for one."""
    from ray.cluster_utils import Cluster

    nodes = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 2, "num_gpus": 2, "include_dashboard": False},
    )
    try:
        nodes.add_node(num_cpus=2, num_gpus=2)
        experiment = make_experiment()
        experiment["policies"][0]["placement"] = {"gpus": 4}
        (tmp_path / "e.yaml").write_text(yaml.safe_dump(experiment))
        command = ["run", str(tmp_path / "e.yaml"), "--out", str(tmp_path / "run")]
        command += ["--set", "cluster.listen_beyond_loopback=true"]  # the nodes are of this process
        refused = CliRunner().invoke(app, [*command, "--ray-address", nodes.address])
    finally:
        nodes.shutdown()
    assert isinstance(refused.exception, BonError), refused.output
    assert "policy: needs 4 GPU per actor, and the largest of Ray's 2 nodes has 2" in str(
        refused.exception
    )
