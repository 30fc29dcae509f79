"""A cluster as docs/cluster.md starts it, on one machine: a head, and a node that joins."""

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import yaml

from bon.storage.store import Store

BIN = Path(sys.executable).parent
DOCS = Path(__file__).parents[2] / "docs" / "cluster.md"


def commands(folder: str, port: int) -> list[list[str]]:
    """Those of the first block, for this machine."""
    (block,) = re.findall(r"## Start a cluster.*?```bash\n(.*?)```", DOCS.read_text(), re.DOTALL)
    text = block.replace("FIRST", "127.0.0.1").replace("6379", str(port))
    lines = text.replace("~/ray-sessions", folder).splitlines()
    of_this_python = {"ray": [sys.executable, "-m", "ray.scripts.scripts"]}
    split = [shlex.split(line, comments=True) for line in lines]
    return [[*of_this_python.get(words[0], words[:1]), *words[1:]] for words in split]


def free_port() -> int:
    """One that Ray's workers do not take."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(1200)
def test_a_cluster_starts_as_documented_and_a_run_uses_both_nodes(make_experiment, tmp_path):
    experiment = make_experiment()
    experiment["policies"][0]["placement"] = {"cpus": 2}  # more than the head has
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(experiment))
    with TemporaryDirectory(dir="/tmp", prefix="bon-") as short:
        export, mkdir, head, join, status, run = commands(f"{short}/s", free_port())
        assert export[1] == "RAY_AUTH_MODE=token"
        environment = {**os.environ, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "a" * 64}
        environment |= {"PATH": f"{BIN}:{os.environ['PATH']}", "RAY_worker_niceness": "0"}

        def call(words: list[str]) -> "subprocess.CompletedProcess[str]":
            return subprocess.run(
                words, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
            )

        def start(words: list[str], cpus: int) -> "subprocess.Popen[bytes]":
            more = ["--num-cpus", str(cpus), "--block"]
            return subprocess.Popen([*words, *more], env=environment, start_new_session=True)

        assert call(mkdir).returncode == 0
        nodes = [start([*head, "--include-dashboard=false"], 1)]
        try:
            listed = ""
            end = time.monotonic() + 600
            while listed.count(" node_") < 2 and time.monotonic() < end:
                time.sleep(2)
                listed = call(status).stdout
                if listed.count(" node_") == 1 and len(nodes) == 1:
                    nodes.append(start(join, 2))
            assert listed.count(" node_") == 2, listed
            assert "3.0 CPU" in listed
            done = call([*run, "--out", "run"])
            assert done.returncode == 0, done.stderr
        finally:
            for node in reversed(nodes):
                os.killpg(node.pid, signal.SIGTERM)
                node.wait(60)
    with Store(tmp_path / "run", readonly=True) as store:
        assert store.count("candidates", "outcome != 'error'", ()) == 12 * 4
