"""Waiting until a GPU has room: the GPU is made up, the rule and the tool's output are not."""

import asyncio
import os
import stat
import subprocess
import sys

import pytest

from bon.core.errors import BonError
from bon.dispatch import worker
from bon.dispatch.worker import Host
from bon.engines import free_gpu_memory
from bon.engines.free_gpu_memory import gpu_processes, wait_for_room
from bon.experiment.config import PolicyCard
from bon.work.setup import prepare

GIB = 2**30


class Machine:
    """GPUs whose free memory changes while one waits."""

    def __init__(self, *looks):
        self.looks, self.now = list(looks), 0.0

    def look(self):
        return self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]

    def wait(self, share, seconds=10.0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(free_gpu_memory, "free_memory", self.look)
            patch.setattr(free_gpu_memory, "gpu_processes", lambda: "process 7 python 60 GiB")
            patch.setattr(free_gpu_memory.time, "sleep", self.sleep)
            patch.setattr(free_gpu_memory.time, "monotonic", lambda: self.now)
            return wait_for_room(share, seconds)

    def sleep(self, seconds):
        self.now += seconds


def test_a_model_waits_until_what_was_there_before_is_gone():
    machine = Machine([(5 * GIB, 80 * GIB)], [(40 * GIB, 80 * GIB)], [(79 * GIB, 80 * GIB)])
    assert machine.wait(0.9) == ""
    assert machine.now == 2 * free_gpu_memory.POLL_SECONDS


def test_room_on_every_gpu_counts_and_no_more_than_is_wanted():
    half = [(79 * GIB, 80 * GIB), (30 * GIB, 80 * GIB)]
    assert Machine(half).wait(0.3) == ""
    said = Machine(half).wait(0.9, seconds=4)
    assert said == ("after 4 s GPU 1 has 30.0 of 80.0 GiB free; held by process 7 python 60 GiB")


def test_without_a_gpu_there_is_nothing_to_wait_for():
    machine = Machine([])
    assert machine.wait(0.9) == ""
    assert machine.now == 0.0


def test_who_holds_it_is_read_from_the_tool_of_the_driver(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpu_processes() == "no process that can be seen here"
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho '4711, python3, 60123 MiB'\necho '12, Xorg, 8 MiB'\n")
    tool.chmod(tool.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.defpath}")
    assert gpu_processes() == "process 4711 python3 60123 MiB; process 12 Xorg 8 MiB"


@pytest.mark.parametrize(
    ("gpus", "args", "share"),
    [
        (0, {}, 0.0),
        (1, {}, 0.9),
        (4, {}, 0.9),
        (0.5, {}, 0.45),
        (1, {"engine": "vllm", "engine_args": {"engine_args": {"gpu_memory_utilization": 0.4}}},
         0.4),
    ],
)  # fmt: skip
def test_what_a_card_wants(gpus, args, share):
    card = PolicyCard(name="p", model="m", placement={"gpus": gpus}, **args)
    assert card.gpu_memory_share == pytest.approx(share)


async def _load_two(host):
    return [await host.run(name, []) for name in ("head", "judge")]


def test_a_failed_load_says_who_holds_the_memory(make_experiment, tmp_path, monkeypatch):
    waited = []

    def wait(share):
        waited.append(share)
        return "after 120 s GPU 0 has 1.0 of 80.0 GiB free; held by process 7"

    monkeypatch.setattr(worker, "wait_for_room", wait)
    experiment = make_experiment()
    for rewarder in experiment["rewarders"]:
        rewarder["placement"] = {"gpus": 1}
    experiment["rewarders"][0]["engine_args"]["accuracy"] = 0.1  # another engine than the head's
    setup = prepare(experiment, tmp_path)
    host = Host(setup.specs())
    assert [reply.failure for reply in asyncio.run(_load_two(host))] == ["", ""]
    assert waited == [0.9]  # what this worker holds itself is no reason to wait

    def refuse(*_):
        raise BonError("model 'm' failed to load in vllm: no memory", "a smaller one")

    monkeypatch.setattr(worker, "build", refuse)
    reply = asyncio.run(Host(setup.specs()).run("head", []))
    assert reply.failure == (
        "model 'm' failed to load in vllm: no memory; after 120 s GPU 0 has 1.0 of 80.0 GiB free; "
        "held by process 7 -> a smaller one"
    )


LOADS = """
import sys
from pathlib import Path
from bon.engines.free_gpu_memory import alone_on_gpus

log, name = Path(sys.argv[1]), sys.argv[2]
print("starts", flush=True)
with alone_on_gpus():
    with log.open("a") as lines:
        lines.write(f"{name} loads\\n")
    print("loads", flush=True)
    sys.stdin.readline()
    with log.open("a") as lines:
        lines.write(f"{name} has loaded\\n")
"""


def _loading(folder, name, gpus):
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder), "CUDA_VISIBLE_DEVICES": gpus}
    process = subprocess.Popen(
        [sys.executable, "-c", LOADS, str(folder / "log"), name], env=environment, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout.readline() == "starts\n"
    return process


def test_engines_load_one_after_another_on_each_gpu(tmp_path):
    """Also after one that was killed; on other GPUs they load at the same time."""
    first = _loading(tmp_path, "first", "0,1")
    assert first.stdout.readline() == "loads\n"
    second, elsewhere = _loading(tmp_path, "second", "1"), _loading(tmp_path, "elsewhere", "2")
    assert elsewhere.stdout.readline() == "loads\n"
    assert (tmp_path / "log").read_text() == "first loads\nelsewhere loads\n"
    first.kill()
    first.wait()
    assert second.stdout.readline() == "loads\n"
    for process in (second, elsewhere):
        process.communicate("\n")
    assert "second loads\n" in (tmp_path / "log").read_text()
