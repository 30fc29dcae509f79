"""A paid run whose power, endpoint, raylet, clock or memory fails: what was billed and counted.

    python tools/soak/money.py images endpoint raylet clock driver worker load

Each scene runs `bon run` on a local Ray and pays an endpoint over HTTP at $1 a completion. images:
the driver is killed, and its run and ledger are opened as power loss may leave them, their
write-ahead logs cut at 300 random bytes. driver, worker: its address space is limited to what it
has and 1 MiB. After the others the same command is given until it ends with 0. load: eight clients
ask `bon serve` for 40 minutes; its resident memory is printed once a minute.
"""

import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import yaml

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from bon.core.errors import BonError  # noqa: E402
from bon.core.ledger import LEDGER, Ledger, spent_by_spec  # noqa: E402
from bon.storage.database import DATABASE, damage_of  # noqa: E402
from bon.storage.store import Store  # noqa: E402
from tests.conftest import write_questions  # noqa: E402
from tests.engines.fake_endpoint import DROPPED, Billing, FakeEndpoint  # noqa: E402
from tests.processes import descendants, end_process, name  # noqa: E402
from tests.running.test_caps import paid_experiment  # noqa: E402
from tests.service import test_online_money as online  # noqa: E402
from tools.soak.soak import _clock, count, die_with_parent  # noqa: E402

QUESTIONS, N, IMAGES, LOAD_MINUTES = 60, 3, 300, 40


class Scene:
    """A folder with a paid experiment, its endpoint, and the driver that is started there."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.run, self.clock = folder, folder / "run", _clock(folder)
        self.billing, self.down, self.sent = Billing(), False, [(0, 0)]
        self.endpoint = self.listen(0)
        write_questions(folder / "questions.jsonl", QUESTIONS)
        raw = paid_experiment(self.endpoint.url, 1000, None)
        raw["policies"][0]["n"] = N
        raw["cluster"] |= {"batch": 2, "in_flight": 2}
        (folder / "e.yaml").write_text(yaml.safe_dump(raw))

    def listen(self, port: int) -> FakeEndpoint:
        """Start the endpoint."""
        endpoint = FakeEndpoint(self.reply, 0.5, port)
        threading.Thread(target=endpoint.serve_forever, args=(0.05,), daemon=True).start()
        return endpoint

    def reply(self, number: int, body: dict[str, Any]) -> Any:
        """Bill a request; note how long the ledger's log was when it came, at least."""
        answer = self.billing(number, body)
        log = self.run / f"{LEDGER}-wal"
        with self.billing.lock:
            self.sent.append((log.stat().st_size if log.exists() else 0, int(self.billing.bill)))
        return (DROPPED, {}, b"") if self.down else answer

    def start(self, **more: str) -> subprocess.Popen[str]:
        """Start the driver and wait until it has some rows."""
        command = [sys.executable, "-m", "bon", "run", "e.yaml", "--out", "run"]
        there = {k: v for k, v in os.environ.items() if not k.startswith(("RAY_", "BON_"))}
        with (self.folder / "log").open("a") as log:
            return subprocess.Popen(
                command, cwd=self.folder, stdout=log, stderr=log, text=True,
                env={**there, "PYTHONPATH": str(ROOT), **more}, preexec_fn=die_with_parent,
            )  # fmt: skip

    def until(self, rows: int, driver: subprocess.Popen[str]) -> None:
        """Wait until there are so many rows, or the driver has ended."""
        while count(self.run) < rows and driver.poll() is None:
            time.sleep(0.05)

    def kill(self, driver: subprocess.Popen[str], *names: str) -> None:
        """kill -9 of what is so named below the driver; of all of it without names."""
        below = [each for each in descendants([driver.pid]) if name(each).startswith(names or "")]
        if not names:
            driver.kill()
            driver.wait()
        for each in below:
            end_process(each)

    def finish(self, what: str, driver: subprocess.Popen[str]) -> None:
        """Wait, resume until it ends with 0, and print the account."""
        codes = [driver.wait(600)]
        while codes[-1] and len(codes) < 5:
            codes.append(self.start().wait(600))
        counted = sum(spent_by_spec(self.run / LEDGER).values())
        twice = sum(max(0, sold - N) for sold in self.billing.sold.values())
        text = (self.folder / "log").read_text()
        print(
            f"{what}: exit codes {codes}, {count(self.run)} rows, billed {self.billing.bill:g}, "
            f"counted {counted:g}, completions bought twice {twice}, "
            f"tracebacks {text.count('Traceback')}, damage {damage_of(self.run) or 'none'}"
        )
        print("".join(f"    | {line[:200]}\n" for line in text.splitlines() if "bon:" in line))


def do_endpoint(scene: Scene) -> None:
    """The endpoint dies with what it works on, and comes back on the same port."""
    driver = scene.start()
    scene.until(60, driver)
    scene.down = True
    scene.endpoint.shutdown()
    scene.endpoint.server_close()
    code = driver.wait(600)
    scene.down, scene.endpoint = False, scene.listen(scene.endpoint.server_address[1])
    print(f"endpoint: the run ended with {code} at {count(scene.run)} rows")
    scene.finish("endpoint", scene.start())


def do_raylet(scene: Scene) -> None:
    driver = scene.start()
    scene.until(60, driver)
    scene.kill(driver, "raylet")
    scene.finish("raylet", driver)


def do_clock(scene: Scene) -> None:
    """The time of day jumps while requests are out; the monotonic clock goes on."""
    file = scene.folder / "clock"
    file.write_text("+0d")
    faked = {"LD_PRELOAD": scene.clock, "FAKETIME_TIMESTAMP_FILE": str(file)}
    faked |= {"FAKETIME_CACHE_DURATION": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    driver = scene.start(**faked)
    for rows, jump in ((30, "+400d"), (70, "-30m"), (100, "-400d"), (130, "+3h")):
        scene.until(rows, driver)
        (scene.folder / "new").write_text(jump)
        (scene.folder / "new").replace(file)
    scene.finish("clock", driver)


def do_memory(scene: Scene, what: str) -> None:
    driver = scene.start()
    scene.until(60, driver)
    below = [each.pid for each in descendants([driver.pid]) if name(each).startswith("ray::Host")]
    for pid in [driver.pid] if what == "driver" else below:
        process = psutil.Process(pid)
        limit = process.memory_info().vms + (1 << 20)
        process.rlimit(psutil.RLIMIT_AS, (limit, limit))
    scene.finish(what, driver)


def do_images(scene: Scene) -> None:
    """Every image opens, keeps a prefix of the rows, and counts all that had been asked by then."""
    driver = scene.start()
    scene.until(120, driver)
    scene.kill(driver)
    sent, rows, drawn = sorted(scene.sent), count(scene.run), random.Random(0)
    results: dict[str, int] = {}
    logs = {each: (scene.run / f"{each}-wal").read_bytes() for each in (DATABASE, LEDGER)}
    kept = list[int]()
    for _ in range(IMAGES):
        image = scene.folder / "image"
        image.mkdir()
        cut = {}
        for each, log in logs.items():
            shutil.copy2(scene.run / each, image / each)
            cut[each] = drawn.randrange(len(log) + 1)
            (image / f"{each}-wal").write_bytes(log[: cut[each]])
        asked = max(dollars for size, dollars in sent if size <= cut[LEDGER])
        try:
            with Store(image) as store:
                kept.append(store.count("candidates"))
            ledger = Ledger(image / LEDGER)
            counted = ledger.committed()
            ledger.close()
            what = damage_of(image) or ("counted less" if counted < asked else "opened")
        except BonError as error:
            what = f"refused: {error}"
        results[what] = results.get(what, 0) + 1
        shutil.rmtree(image)
    sizes = {each: len(log) for each, log in logs.items()}
    print(f"images: {results}; logs of {sizes} bytes; {rows} rows, kept {min(kept)} to {max(kept)}")
    scene.finish("images", scene.start())


def do_load(scene: Scene) -> None:
    end, statuses = time.monotonic() + 60 * LOAD_MINUTES, Counter[int]()
    limits = {"dollars_per_owner": 1e9, "dollars": 1e9}

    def ask(url: str, number: int) -> None:
        while time.monotonic() < end:
            number += 8
            statuses[online.ask(url, str(number))] += 1

    with online.serving(scene.folder, scene.endpoint.url, limits) as url:
        clients = [threading.Thread(target=ask, args=(url, each)) for each in range(8)]
        for client in clients:
            client.start()
        server = next(each for each in psutil.Process().children() if "serve" in each.cmdline())
        while time.monotonic() < end:
            time.sleep(60)
            print(f"load: {server.memory_info().rss >> 20} MiB, {dict(statuses)}", flush=True)
        for client in clients:
            client.join()
    counted = sum(spent_by_spec(scene.folder / "data" / LEDGER).values())
    print(f"load: billed {scene.billing.bill:g}, counted {counted:g}")


def main() -> None:
    """Each scene that is named, in a folder of its own."""
    scenes: dict[str, Callable[[Scene], None]] = {
        "images": do_images, "endpoint": do_endpoint, "raylet": do_raylet, "clock": do_clock,
        "driver": lambda scene: do_memory(scene, "driver"),
        "worker": lambda scene: do_memory(scene, "worker"),
        "load": do_load,
    }  # fmt: skip
    for what in sys.argv[1:]:
        with tempfile.TemporaryDirectory(prefix="bon-money-") as folder:
            scenes[what](Scene(Path(folder)))


if __name__ == "__main__":
    main()
