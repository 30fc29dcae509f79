"""ray_configs/: every file is read by what will read it, as far as that can be done here."""

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from bon.experiment.cards import shipped
from bon.experiment.config import Experiment
from bon.service.online.selector import Selector
from bon.service.settings import read_settings

ROOT = Path(__file__).parents[2]
CONFIGS = ROOT / "ray_configs"


def test_every_yaml_file_is_read_somewhere_here():
    result = {str(path.relative_to(CONFIGS)) for path in CONFIGS.rglob("*.yaml")}
    kuberay = {f"kuberay/{name}.yaml" for name in ("rayjob", "networkpolicy")}
    assert result == kuberay | {"ray-cluster.yaml"} | {f"{name}.yaml" for name in SERVERS}


SERVERS = ("laptop", "gpu-node", "cluster")


@pytest.mark.parametrize("name", SERVERS)
def test_settings_of_a_server(name):
    settings = read_settings(CONFIGS / f"{name}.yaml")
    selector = Selector(settings.online, settings.base)
    assert selector.names()["policies"]
    assert selector.names()["rewarders"]
    assert selector.specs()


def test_the_cluster_launcher_file():
    import jsonschema
    import ray.autoscaler

    schema = json.loads((Path(ray.autoscaler.__file__).parent / "ray-schema.json").read_text())
    config = yaml.safe_load((CONFIGS / "ray-cluster.yaml").read_text())
    jsonschema.validate(config, schema)
    assert config["head_node_type"] in config["available_node_types"]


def documents(name):
    result = list(yaml.safe_load_all((CONFIGS / "kuberay" / name).read_text()))
    return {document["kind"]: document for document in result}


def test_the_ray_job():
    result = documents("rayjob.yaml")
    check_pods(result["RayJob"]["spec"]["rayClusterSpec"])
    experiment = yaml.safe_load(result["ConfigMap"]["data"]["experiment.yaml"])
    checked = Experiment.model_validate(experiment)
    assert set(checked.rewarders) <= set(shipped("rewarders"))
    assert result["RayJob"]["spec"]["entrypoint"].startswith("bon run ")


POLICY = documents("networkpolicy.yaml")["NetworkPolicy"]["spec"]
CLOSED = POLICY["podSelector"]["matchLabels"]


def test_the_network_policy_opens_every_port_to_the_nodes_alone():
    nodes, operator, submitter = POLICY["ingress"]
    assert nodes == {"from": [{"podSelector": POLICY["podSelector"]}]}
    job = documents("rayjob.yaml")
    (source,) = submitter["from"]
    assert source["podSelector"]["matchLabels"].popitem()[1] == job["RayJob"]["metadata"]["name"]
    assert {8265} == {port["port"] for port in submitter["ports"]}
    assert {8265, 52365} == {port["port"] for port in operator["ports"]}


def check_pods(cluster):
    """Pods are those of the policy, mounted volumes exist, what is requested is what is limited."""
    groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    for group in groups:
        pod = group["template"]["spec"]
        assert group["template"]["metadata"]["labels"].items() >= CLOSED.items()
        names = {volume["name"] for volume in pod["volumes"]}
        for container in [*pod["containers"], *pod.get("initContainers", [])]:
            assert {mount["name"] for mount in container["volumeMounts"]} <= names
            resources = container.get("resources", {})
            assert resources.get("requests") == resources.get("limits")


def test_the_slurm_script():
    script = CONFIGS / "slurm.sh"
    assert subprocess.run(["bash", "-n", script], check=False).returncode == 0
    assert script.stat().st_mode & 0o100


@pytest.mark.parametrize("name", ["cpu", "gpu"])
def test_dockerfiles_copy_what_is_there(name):
    text = (CONFIGS / "docker" / f"Dockerfile.{name}").read_text()
    sources = [
        source
        for line in re.findall(r"^COPY (?!--from)(.+)$", text, re.MULTILINE)
        for source in line.split()[:-1]
    ]
    missing = [source for source in sources if not (ROOT / source).exists()]
    assert missing in ([], ["README.md"])
    assert "USER bon" in text
