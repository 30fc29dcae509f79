"""ray_configs/: every file is read by what will read it, as far as that can be done here."""

import json
import os
import re
import subprocess
import time
from pathlib import Path

import pytest
import yaml

from bon.dispatch.nodes import Node, check_width
from bon.experiment.cards import load_policy, load_rewarder
from bon.experiment.config import Experiment
from bon.service.online.selector import Selector
from bon.service.settings import read_settings

ROOT = Path(__file__).parents[2]
CONFIGS = ROOT / "ray_configs"


def test_every_yaml_file_is_read_somewhere_here():
    result = {str(path.relative_to(CONFIGS)) for path in CONFIGS.rglob("*.yaml")}
    kuberay = {f"kuberay/{name}.yaml" for name in ("rayjob", "tensor-parallel", "networkpolicy")}
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
    assert config["docker"]["image"].endswith("/bon:gpu")  # of a registry
    volume = config["docker"]["run_options"][2].removeprefix("-v ").split(":")[0]
    assert any(
        "nfs4" in command and volume in command for command in config["initialization_commands"]
    )


def test_the_image_has_the_cuda_of_its_lock():
    base = re.search(r"nvidia/cuda:(\d+\.\d+)", (CONFIGS / "docker/Dockerfile.gpu").read_text())
    lock = (CONFIGS / "docker/gpu.lock").read_text()
    assert base[1] == re.search(r"^cuda-toolkit==(\d+\.\d+)", lock, re.MULTILINE)[1]


def documents(name):
    result = list(yaml.safe_load_all((CONFIGS / "kuberay" / name).read_text()))
    return {document["kind"]: document for document in result}


JOBS = ("rayjob", "tensor-parallel")


@pytest.mark.parametrize("name", JOBS)
def test_the_ray_jobs(name):
    result = documents(f"{name}.yaml")
    cluster = result["RayJob"]["spec"]["rayClusterSpec"]
    check_pods(cluster)
    experiment = yaml.safe_load(result["ConfigMap"]["data"]["experiment.yaml"])
    checked = Experiment.model_validate(experiment)
    assert result["RayJob"]["spec"]["entrypoint"].startswith("bon run ")
    claims = re.findall(r"claimName: ([\w-]+)", (CONFIGS / "kuberay" / f"{name}.yaml").read_text())
    assert set(claims) == {result["PersistentVolumeClaim"]["metadata"]["name"]}
    (group,) = cluster["workerGroupSpecs"]
    (container,) = group["template"]["spec"]["containers"]
    node = Node(*(int(container["resources"]["limits"][of]) for of in ("cpu", "nvidia.com/gpu")))
    widest = 0
    models = [load_policy(card, CONFIGS).card for card in checked.policies]
    for card in (*models, *(load_rewarder(card, CONFIGS).card for card in checked.rewarders)):
        check_width(card.name, card.placement, [node])
        widest = max(widest, card.placement.gpus)
        vllm_args = card.engine_args.get("engine_args", {})
        assert card.placement.gpus == vllm_args.get("tensor_parallel_size", 1)
    assert widest == node.gpus


POLICY = documents("networkpolicy.yaml")["NetworkPolicy"]["spec"]
CLOSED = POLICY["podSelector"]["matchLabels"]


@pytest.mark.parametrize("name", JOBS)
def test_the_network_policy_admits_no_pod_by_what_it_calls_itself(name):
    """Labels of pods count within namespaces whose pods are the operator's and this job's."""
    nodes, operator = POLICY["ingress"]
    assert nodes == {"from": [{"podSelector": POLICY["podSelector"]}]}
    (source,) = operator["from"]
    assert source["namespaceSelector"]["matchLabels"] == {
        "kubernetes.io/metadata.name": "kuberay-system"
    }
    assert {8265, 52365} == {port["port"] for port in operator["ports"]}
    policy, job = documents("networkpolicy.yaml"), documents(f"{name}.yaml")
    own = policy["Namespace"]["metadata"]["name"]
    for document in (policy["NetworkPolicy"], *job.values()):
        assert document["metadata"]["namespace"] == own
    assert job["RayJob"]["spec"]["submissionMode"] == "HTTPMode"  # by the operator itself


def test_every_ray_that_ships_asks_for_a_token():
    for name in JOBS:
        cluster = documents(f"{name}.yaml")["RayJob"]["spec"]["rayClusterSpec"]
        assert cluster["authOptions"] == {"mode": "token"}
    launcher = yaml.safe_load((CONFIGS / "ray-cluster.yaml").read_text())
    commands = [*launcher["head_start_ray_commands"], *launcher["worker_start_ray_commands"]]
    starts = [command for command in commands if "ray start" in command]
    assert len(starts) == 2
    assert all("RAY_AUTH_MODE=token ray start" in command for command in starts)
    assert "auth_token" in str(launcher["file_mounts"])
    for name in ("gpu-node.yaml", "cluster.yaml", "ray-cluster.yaml"):
        assert "RAY_AUTH_MODE=token" in (CONFIGS / name).read_text()


def check_pods(cluster):
    """Pods are those of the policy, mounted volumes exist, what is requested is what is limited."""
    groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    for group in groups:
        pod = group["template"]["spec"]
        assert group["template"]["metadata"]["labels"].items() >= CLOSED.items()
        assert pod["securityContext"]["runAsNonRoot"]
        assert not pod["automountServiceAccountToken"]
        names = {volume["name"] for volume in pod["volumes"]}
        for container in [*pod["containers"], *pod.get("initContainers", [])]:
            assert {mount["name"] for mount in container["volumeMounts"]} <= names
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            resources = container.get("resources", {})
            assert resources.get("requests") == resources.get("limits")


STUBS = {
    "scontrol": "echo node1",
    "srun": 'echo "srun $*" >> "$NOTES"; while [ "$1" != -w ]; do shift; done; shift 2; exec "$@"',
    "hostname": "echo 127.0.0.1",
    "ray": 'echo "ray $* $RAY_AUTH_MODE $RAY_AUTH_TOKEN $(stat -c %a $BON_RAY_FOLDER)" >> $NOTES; '
    'case $1 in start) sleep 3;; status) echo " node_1";; esac',
    "bon": 'echo "bon $* $RAY_AUTH_MODE $RAY_AUTH_TOKEN" >> "$NOTES"',
    "sleep": "exec /bin/sleep 1",
}


def test_the_slurm_script(tmp_path):
    """Ray has a token of the job and a folder that only its user enters, and leaves nothing."""
    script = CONFIGS / "slurm.sh"
    assert script.stat().st_mode & 0o100
    for name, text in STUBS.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{text}\n")
        (tmp_path / name).chmod(0o755)
    job = f"test-{os.getpid()}"
    environment = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}", "NOTES": str(tmp_path / "notes"),
        "SLURM_JOB_ID": job, "SLURM_JOB_NODELIST": "node1", "SLURM_CPUS_PER_TASK": "1",
    }  # fmt: skip
    tokens = set()
    for _ in range(2):
        subprocess.run([script, "e.yaml"], env=environment, check=True, capture_output=True)
        notes = (tmp_path / "notes").read_text().splitlines()
        (tmp_path / "notes").unlink()
        (start,) = [line for line in notes if line.startswith("ray start")]
        (step,) = [line for line in notes if line.startswith("srun") and "ray start" in line]
        assert "--cpus-per-task=1" in step.split("ray start")[0]
        (run,) = [line for line in notes if line.startswith("bon run")]
        assert f"--temp-dir /tmp/bon-{job}/ray" in start
        *_, mode, token, folder = start.split()
        assert (mode, folder) == ("token", "700")
        assert run.split()[-2:] == [mode, token]
        tokens.add(token)
        deadline = time.monotonic() + 60
        while Path(f"/tmp/bon-{job}").exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not Path(f"/tmp/bon-{job}").exists()
    assert len(tokens) == 2
    assert all(len(token) == 64 for token in tokens)


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
