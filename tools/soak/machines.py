"""A cluster's head that dies and memory that runs out, while a run works: what is said, and when.

    python tools/soak/machines.py gcs head gone item outside

gcs: the control service of a head that `ray start` began is killed, and the head is started again
after 20 seconds; head: all of it is killed, and started again; gone: it stays away. item: an item
of a rewarder takes 4 GiB in a worker that Ray's memory monitor watches; outside: another process
takes them. Each run then goes on to its end and is compared with an undisturbed one.
"""

import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from bon.storage.store import Store  # noqa: E402
from tests.conftest import echo_experiment, write_pairs, write_questions  # noqa: E402
from tests.processes import descendants, end_process, name  # noqa: E402
from tools.soak.soak import contents, count, die_with_parent  # noqa: E402

AWAY = 20.0
HEADROOM = 0.1  # of the machine's memory, above what is used, is what the monitor allows
TAKE = "import time; held = [bytearray(b'x') * (64 << 20) for _ in range(64)]; time.sleep(12)"
HUNGRY = """
import time
from bon.rewarders.base import Rewarder, Verdict

class Hungry(Rewarder):
    arity = "one"

    async def judge(self, item, shown, seeds):
        if "picture 3." in item.prompt:
            held = [bytearray(b"x") * (64 << 20) for _ in range(64)]
            time.sleep(5)
        return [Verdict("scored", score=1.0)] * len(seeds)
"""


class Scene:
    """A folder with an experiment, the processes started in it, and a clock."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.began = time.monotonic()
        self._mine: list[subprocess.Popen[str]] = []
        self._port = _free_port()
        write_questions(folder / "questions.jsonl", 40)
        write_pairs(folder / "pairs.jsonl", 9)

    def say(self, *words: Any) -> None:
        """A line with the seconds since the last event."""
        print(f"{time.monotonic() - self.began:6.1f} s ", *words, flush=True)

    def event(self, text: str) -> None:
        """From here on the clock counts."""
        self.began = time.monotonic()
        self.say(text)

    def run(self, out: str, *, latency: float = 0.3, clustered: bool, **more: str) -> Any:
        """`bon run`, whose lines are printed with their time."""
        experiment = echo_experiment(latency=latency)
        experiment |= {"cluster": {"batch": 2, "in_flight": 2}, "analysis": {"bootstrap": 100}}
        if clustered:
            experiment["cluster"]["address"] = f"127.0.0.1:{self._port}"
        if (self.folder / "hungry.py").exists():
            own = {"name": "hungry", "kind": "python", "python": "hungry:Hungry", "engine": "echo"}
            experiment["rewarders"].append(own)
        (self.folder / "e.yaml").write_text(yaml.safe_dump(experiment), encoding="utf-8")
        run = self._start(sys.executable, "-m", "bon", "run", "e.yaml", "--out", out, **more)
        threading.Thread(target=self._follow, args=(run,), daemon=True).start()
        return run

    def head(self) -> Any:
        """A Ray of its own, as an administrator starts it."""
        ray = str(Path(sys.executable).with_name("ray"))
        address = [f"--port={self._port}", "--node-ip-address=127.0.0.1"]
        options = ["--num-cpus=2", "--include-dashboard=false", f"--temp-dir={self.folder}/ray"]
        head = self._start(ray, "start", "--head", "--block", *address, *options)
        while not any(name(each) == "raylet" for each in descendants([head.pid])):
            time.sleep(0.2)
        time.sleep(5)
        return head

    def end(self, process: Any) -> None:
        """kill -9 of a process and all below it."""
        left = descendants([process.pid])
        process.kill()
        process.wait()
        for each in left:
            end_process(each)

    def close(self) -> None:
        """Nothing stays."""
        for process in self._mine:
            self.end(process)

    def _start(self, *command: str, **more: str) -> subprocess.Popen[str]:
        there = {k: v for k, v in os.environ.items() if not k.startswith(("RAY_", "BON_"))}
        started = subprocess.Popen(
            command, cwd=self.folder, text=True, preexec_fn=die_with_parent,
            env={**there, "PYTHONPATH": str(ROOT), "RAY_USAGE_STATS_ENABLED": "0", **more},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        self._mine.append(started)
        return started

    def _follow(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self.say("|", line.rstrip()[:300])


def remote(scene: Scene, what: str) -> None:
    """The head of a cluster dies, and comes back or not."""
    head = scene.head()
    threading.Thread(target=lambda: list(head.stdout), daemon=True).start()
    scene.run("calm", latency=0.0, clustered=True).wait(240)
    run = scene.run("run", clustered=True)
    _until(lambda: count(scene.folder / "run") >= 20)
    if what == "gcs":
        for each in descendants([head.pid]):
            if name(each) == "gcs_server":
                end_process(each)
    else:
        scene.end(head)
    scene.event(f"{what}: killed at {count(scene.folder / 'run')} rows")
    if what != "gone":
        time.sleep(AWAY)
        scene.say(f"rows meanwhile: {count(scene.folder / 'run')}")
        scene.end(head)
        head = scene.head()
        scene.say("started again")
    scene.say(f"the run ended with {run.wait(300)} at {count(scene.folder / 'run')} rows")
    if what == "gone":
        head = scene.head()
    scene.say(f"the next one: {scene.run('run', latency=0.0, clustered=True).wait(240)}")
    calm, found = contents(scene.folder / "calm"), contents(scene.folder / "run")
    scene.say({part: "equal" if calm[part] == found[part] else "DIFFERENT" for part in calm})


def memory(scene: Scene, what: str) -> None:
    """Ray's memory monitor kills workers, for what an item takes or another process."""
    if what == "item":
        (scene.folder / "hungry.py").write_text(HUNGRY, encoding="utf-8")
    fields = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    total, free = (int(fields[key].split()[0]) for key in ("MemTotal", "MemAvailable"))
    limit = {"RAY_memory_usage_threshold": f"{1 - free / total + HEADROOM:.3f}"}
    limit["RAY_memory_monitor_refresh_ms"] = "100"
    run = scene.run("run", clustered=False, **limit)
    _until(lambda: count(scene.folder / "run") >= 20)
    scene.event(what)
    if what == "outside":
        subprocess.run([sys.executable, "-c", TAKE], check=True)
        scene.say(f"gone again; {count(scene.folder / 'run')} rows")
    scene.say(f"the run ended with {run.wait(400)}")
    with Store(scene.folder / "run", readonly=True) as store:
        for table, model in (("candidates", "policy"), ("judgements", "rewarder")):
            told = f"SELECT {model}, outcome, COUNT(*), MAX(error) FROM {table} GROUP BY 1, 2"
            for row in store.query(told):
                scene.say(*row)
        scene.say("failed:", store.meta("failed"))


def _until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 200
    while not true():
        assert time.monotonic() < end, "it does not get so far"
        time.sleep(0.1)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def main() -> None:
    """Each scene that is named, in a folder of its own."""
    for what in sys.argv[1:]:
        with tempfile.TemporaryDirectory(prefix="bon-machines-") as folder:
            scene = Scene(Path(folder))
            try:
                (memory if what in ("item", "outside") else remote)(scene, what)
            finally:
                scene.close()


if __name__ == "__main__":
    main()
