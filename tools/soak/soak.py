"""Runs that are killed, stopped, starved of disk and changed, and must come out as if not.

    python tools/soak/soak.py --minutes 15 --seed 0

Each series takes one experiment (echo engine, a local Ray of its own) through disturbances drawn
from the seed, lets it end, and compares every row and results.json with an undisturbed run.
Prints what was done and what it cost; exits 1 where a row, a number or a process is not as it
should be.
"""

import argparse
import copy
import ctypes
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from bon.core.errors import BonError  # noqa: E402
from bon.storage.store import Store  # noqa: E402
from tests.conftest import echo_experiment, write_pairs, write_questions  # noqa: E402
from tests.processes import Process, descendants, end_process, name  # noqa: E402

ORPHAN_SECONDS = 10
STUCK_SECONDS = 300
ROWS = {
    "candidates": "key, question, policy, text, answer, outcome, seed, logprob, error",
    "judgements": "key, rewarder, item, first, second, vote, outcome, score, text, error",
}
CLOCK = {"seconds", "directory", "started", "finished", "created", "date"}
CLOCK |= {"state"}  # of the database: another with every commit
CLOCK |= {"latency", "costs"}  # what makes a run slow enough to be hit; what it then cost
PRIVATE = "BON_SOAK_PRIVATE"
FAKETIME = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)
SLEEP = """\
#define _GNU_SOURCE
#include <errno.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
/* With a monotonic clock that is left alone, faketime 0.9.10 fails to sleep by it. */
int clock_nanosleep(clockid_t clock, int flags, const struct timespec *until,
                    struct timespec *left) {
  return syscall(SYS_clock_nanosleep, clock, flags, until, left) ? errno : 0;
}
"""


class Soak:
    """One folder, one undisturbed run in it, and the counts of everything done so far."""

    def __init__(self, folder: Path, seed: int, say: Callable[[str], None] = print) -> None:
        self.folder = folder
        self.rng = random.Random(seed)
        self.say = say
        self.done: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self._process: subprocess.Popen[str] | None = None
        self._faked = False
        self._clock = _clock(folder)
        self._small = _mount(folder / "small")
        write_questions(folder / "questions.jsonl", 40)
        write_pairs(folder / "pairs.jsonl", 9)
        self.run_to_end(folder / "calm", _experiment(latency=0.0))
        self._calm = contents(folder / "calm")

    def close(self) -> None:
        """Nothing of this stays behind."""
        self._end()
        if self._small:
            subprocess.run(["umount", "-l", str(self._small)], check=False)

    # -- a series ------------------------------------------------------------------------

    def series(self, kinds: list[str]) -> None:
        """One run through these disturbances, then to its end, and compared."""
        run = (self._small or self.folder) / "run"
        shutil.rmtree(run, ignore_errors=True)
        for kind in kinds:
            self._make_ready(run)
            getattr(self, f"do_{kind.replace(' ', '_')}")(run)
            self.done[kind] += 1
            self.say(f"{time.strftime('%H:%M:%S')} {kind}; {count(run)} rows")
        self._end()
        self.run_to_end(run, _experiment(latency=0.0))
        self._compare(contents(run))

    def _make_ready(self, run: Path) -> None:
        """Until a driver has come further than the last one and still works."""
        for _ in range(5):
            if self._process is not None and self._process.poll() is not None:
                if self._finish() == 0:  # it had no more to do: a new run
                    shutil.rmtree(run)
                else:
                    self.faults["ended by itself"] += 1
            if self._process is None:
                self._start(run)
            self._wait_for_progress(run)
            time.sleep(self.rng.uniform(0.0, 2.0))
            if self._process.poll() is None:
                return
        raise SystemExit("soak: the driver does not stay up")

    def run_to_end(self, run: Path, experiment: dict[str, Any]) -> None:
        """Until the command has ended with 0; more than one try is a fault."""
        for _ in range(3):
            self._write(experiment)
            self._launch(run)
            if self._finish() == 0:
                return
            self.faults["ends that needed another try"] += 1
        raise SystemExit("soak: the undisturbed command does not end with 0")

    def _compare(self, found: dict[str, Any]) -> None:
        for table in ROWS:
            there, calm = found[table], self._calm[table]
            self.faults["rows lost"] += len(calm.keys() - there.keys())
            self.faults["rows doubled"] += len(there.keys() - calm.keys())
            changed = [key for key in calm.keys() & there.keys() if calm[key] != there[key]]
            self.faults["rows changed"] += len(changed)
            for key in changed[:2]:
                self.say(f"changed: {calm[key]} -> {there[key]}")
        if found["results"] != self._calm["results"]:
            self.faults["results.json changed"] += 1
            self.say("changed: " + _first_difference(self._calm["results"], found["results"]))

    # -- what is done to it --------------------------------------------------------------

    def do_driver(self, run: Path) -> None:
        """kill -9 of the driver; what it started must follow."""
        assert self._process is not None
        left = descendants([self._process.pid])
        self._process.kill()
        self._finish(killed=True)
        end = time.monotonic() + ORPHAN_SECONDS
        while (left := [each for each in left if each.alive()]) and time.monotonic() < end:
            time.sleep(0.1)
        self.faults["orphans"] += len(left)
        for each in left:
            self.say(f"orphan: {each.pid} {name(each)}")
            end_process(each)

    def do_worker(self, run: Path) -> None:
        """kill -9 of a worker."""
        for each in self._named("ray::Host"):
            end_process(each)
            return

    def do_raylet(self, run: Path) -> None:
        """kill -9 of the raylet."""
        for each in self._named("raylet"):
            end_process(each)

    def do_gcs(self, run: Path) -> None:
        """kill -9 of the control service."""
        for each in self._named("gcs_server"):
            end_process(each)

    def do_stop(self, run: Path) -> None:
        """SIGSTOP of one of them, and SIGCONT after a while."""
        assert self._process is not None
        others = self._named("raylet", "gcs_server", "ray::Host")
        chosen = self.rng.choice([self._process.pid, *(each.pid for each in others)])
        with suppress(ProcessLookupError):
            os.kill(chosen, signal.SIGSTOP)
            time.sleep(self.rng.uniform(1.0, 12.0))
            os.kill(chosen, signal.SIGCONT)

    def do_full_disk(self, run: Path) -> None:
        """No byte left where the run lies, until the driver has said so."""
        assert self._small is not None
        filler = self._small / "filler"
        with suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(65536))
        self._finish(killed=True, seconds=60)
        filler.unlink()

    def do_torn_write(self, run: Path) -> None:
        """Power fails: the end of the write-ahead log is not on the disk, or is rubbish."""
        self.do_driver(run)
        log = run / "run.sqlite-wal"
        if log.exists() and log.stat().st_size:
            size = log.stat().st_size
            with log.open("r+b") as file:
                if self.rng.random() < 0.5:
                    file.truncate(size - self.rng.randrange(1, min(size, 5000)))
                else:
                    file.seek(size - self.rng.randrange(1, min(size, 3000)))
                    file.write(self.rng.randbytes(500))

    def do_clock(self, run: Path) -> None:
        """Another time of day from one moment to the next, for the driver and all of its Ray."""
        if not self._faked:
            self.do_driver(run)
            self._start(run, faked=True)
            self._wait_for_progress(run)
        self._set_clock(self.rng.choice(["+400d", "+3h", "-30m", "-400d"]))
        self._wait_for_progress(run)

    # -- processes -----------------------------------------------------------------------

    def _start(self, run: Path, *, faked: bool = False) -> None:
        """The command again, with the experiment changed as a person would between two."""
        experiment = _experiment(latency=0.3)
        if self.rng.random() < 0.4:
            experiment["policies"][0]["n"] = self.rng.choice([2, 3])
            self.done["experiment changed"] += 1
        if self.rng.random() < 0.4:
            del experiment["rewarders"][self.rng.randrange(3)]
            self.done["experiment changed"] += 1
        self._write(experiment)
        self._launch(run, faked=faked)

    def _set_clock(self, jump: str) -> None:
        (self.folder / "clock.new").write_text(jump, encoding="ascii")
        (self.folder / "clock.new").replace(self.folder / "clock")

    def _launch(self, run: Path, *, faked: bool = False) -> None:
        self._end()
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("RAY_", "BON_"))}
        environment["PYTHONPATH"] = str(ROOT)
        self._faked = faked
        if faked:
            self._set_clock("+0d")
            environment |= {"LD_PRELOAD": self._clock, "FAKETIME_CACHE_DURATION": "1"}
            environment |= {"FAKETIME_TIMESTAMP_FILE": str(self.folder / "clock")}
            environment |= {"FAKETIME_DONT_FAKE_MONOTONIC": "1"}  # as where a person sets it
        with (self.folder / "log.txt").open("a", encoding="utf-8") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "bon", "run", "e.yaml", "--out", str(run)],
                cwd=self.folder, env=environment, stdout=log, stderr=log, text=True,
                preexec_fn=die_with_parent,
            )  # fmt: skip

    def _finish(self, why: str = "", *, killed: bool = False, seconds: float = 240) -> int:
        """Wait for the driver's end, look at what it said, and forget it."""
        process = self._process
        assert process is not None
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.faults["hung"] += 1
            self._end()
            return -1
        self._process = None
        log = self.folder / "log.txt"
        text = log.read_text(encoding="utf-8", errors="replace")
        for mark in ("Traceback", "*** SIG", "(raylet)", "Check failed"):
            if mark in text:
                self.faults["tracebacks"] += 1
                self.say(text[-3000:])
                break
        with (self.folder / "all.txt").open("a", encoding="utf-8") as every:
            every.write(text)
        log.unlink()
        if code and not killed:
            self.say(f"ended with {code}: {text.strip().splitlines()[-1:]}")
        return code

    def _end(self) -> None:
        if self._process is not None:
            left = descendants([self._process.pid])
            self._process.kill()
            self._process.wait()
            for each in left:
                end_process(each)
            self._process = None
            (self.folder / "log.txt").unlink(missing_ok=True)

    def _named(self, *prefixes: str) -> list[Process]:
        assert self._process is not None
        found = descendants([self._process.pid])
        return [each for each in found if name(each).startswith(prefixes)]

    def _wait_for_progress(self, run: Path) -> None:
        """Until more rows are committed than when it was started, or it has ended."""
        before, end = count(run), time.monotonic() + STUCK_SECONDS
        while time.monotonic() < end:
            if self._process is None or self._process.poll() is not None or count(run) > before:
                return
            time.sleep(0.1)
        self.faults[f"no progress for {STUCK_SECONDS} s"] += 1

    def _write(self, experiment: dict[str, Any]) -> None:
        text = yaml.safe_dump(experiment)
        (self.folder / "e.yaml").write_text(text, encoding="utf-8")

    def kinds(self) -> list[str]:
        """What can be done on this machine; says what cannot."""
        found = ["driver", "driver", "worker", "worker", "raylet", "gcs", "stop", "torn write"]
        if self._small:
            found.append("full disk")
        else:
            self.say("skipped: full disk (needs root and unshare, for a small tmpfs)")
        if self._clock:
            found.append("clock")
        else:
            self.say("skipped: clock jumps (apt-get install faketime gcc)")
        return found

    def summary(self) -> str:
        """What was done and what it cost, as a table in Markdown."""
        names = ("rows lost", "rows doubled", "rows changed", "results.json changed")
        wanted = [*names, "orphans", "tracebacks", "hung"]
        rows = [("done", "times"), ("---", "---:"), *sorted(self.done.items())]
        counts = {key: self.faults[key] for key in [*wanted, *self.faults]}
        rows += [("**cost**", ""), *counts.items()]
        return "\n".join(f"| {left} | {right} |" for left, right in rows)


def contents(run: Path) -> dict[str, Any]:
    """Every row by key but what depends on the clock, and the results."""
    found: dict[str, Any] = {}
    with Store(run, readonly=True) as store:
        for table, columns in ROWS.items():
            rows = store.query(f"SELECT {columns} FROM {table}")
            found[table] = {row[0]: row for row in rows}
    results = json.loads((run / "results.json").read_text(encoding="utf-8"))
    return {**found, "results": _timeless(results)}


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _timeless(v) for k, v in value.items() if k not in CLOCK}
    return [_timeless(each) for each in value] if isinstance(value, list) else value


def _first_difference(one: Any, two: Any, at: str = "results") -> str:
    if isinstance(one, dict) and isinstance(two, dict) and one.keys() == two.keys():
        for key in one:
            if one[key] != two[key]:
                return _first_difference(one[key], two[key], f"{at}.{key}")
    if isinstance(one, list) and isinstance(two, list) and len(one) == len(two):
        for place, (left, right) in enumerate(zip(one, two, strict=True)):
            if left != right:
                return _first_difference(left, right, f"{at}[{place}]")
    return f"{at}: {str(one)[:200]} -> {str(two)[:200]}"


def _experiment(latency: float) -> dict[str, Any]:
    found = copy.deepcopy(echo_experiment(latency=latency))
    found["cluster"] = {"batch": 2, "in_flight": 2}
    found["analysis"] = {"bootstrap": 100}
    return found


def count(run: Path) -> int:
    """Committed rows, also of a run that has not begun."""
    if not (run / "run.sqlite").exists():
        return 0
    try:
        with Store(run, readonly=True) as store:
            return store.count("candidates") + store.count("judgements")
    except BonError:
        return 0


def _mount(folder: Path) -> Path | None:
    """A disk of 8 MB, where that may be made and will end with this process."""
    folder.mkdir()
    if PRIVATE not in os.environ:
        return None
    command = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)]
    with suppress(OSError):
        if subprocess.run(command, capture_output=True, check=False).returncode == 0:
            return folder
    return None


def _clock(folder: Path) -> str:
    """What to preload for a clock that can be set; "" where it cannot be had."""
    if not (FAKETIME and shutil.which("cc")):
        return ""
    (folder / "sleep.c").write_text(SLEEP, encoding="ascii")
    command = ["cc", "-shared", "-fPIC", "-o", str(folder / "sleep.so"), str(folder / "sleep.c")]
    built = subprocess.run(command, capture_output=True, check=False).returncode == 0
    return f"{folder / 'sleep.so'}:{FAKETIME}" if built else ""


def die_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def _mount_in_private() -> None:
    """Go on where mounts are seen by nobody else, and end with the last process there."""
    command = ["unshare", "--mount", "--propagation", "private"]
    if PRIVATE in os.environ or not shutil.which(command[0]):
        return
    if subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0:
        again = [*command, sys.executable, *sys.orig_argv[1:]]
        os.execvpe(command[0], again, {**os.environ, PRIVATE: "1"})


def main() -> int:
    """Series after series until the time is up."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--hours", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="one series of these, for example 'torn write,gcs'")
    options = parser.parse_args()
    _mount_in_private()
    end = time.monotonic() + 60 * (options.minutes if not options.hours else 60 * options.hours)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="bon-soak-") as folder:
        series = 0
        soak = Soak(Path(folder), options.seed, lambda text: print(text, flush=True))
        try:
            kinds = soak.kinds()
            while time.monotonic() < end and not (options.only and series):
                series += 1
                drawn = options.only.split(",") if options.only else soak.rng.choices(kinds, k=6)
                soak.series(drawn)
                print(f"after {series} series: {dict(soak.faults)}", flush=True)
        except KeyboardInterrupt:
            print("stopped", flush=True)
        finally:
            soak.close()
            print(f"\n{series} series, seed {options.seed}\n\n{soak.summary()}", flush=True)
    return 1 if any(soak.faults.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
