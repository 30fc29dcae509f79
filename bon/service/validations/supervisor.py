"""Starts, watches, stops and adopts the processes of validations."""

import json
import logging
import os
import shutil
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bon.core.files import write_atomic
from bon.core.module_path import module_command
from bon.core.processes import Process, find
from bon.service.settings import Settings
from bon.service.validations.job import LOG, OUTCOME, PROCESS, REQUEST, read_json
from bon.service.validations.jobs import Jobs, Validation

log = logging.getLogger("bon.service")
TICK_SECONDS = 0.25
ADOPT_SECONDS = 5.0
KILL_SECONDS = 5.0


@dataclass
class _Child:
    """A validation's process; `popen` reaps it if this server started it."""

    process: Process
    popen: subprocess.Popen[bytes] | None
    interrupted: float | None = None
    late: bool = False

    def ended(self) -> bool:
        if self.popen is not None:
            return self.popen.poll() is not None
        return not self.process.alive()


class Supervisor:
    """A thread that moves validations between states."""

    def __init__(self, settings: Settings, jobs: Jobs) -> None:
        self._settings = settings
        self._jobs = jobs
        self._children: dict[str, _Child] = {}
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="supervisor", daemon=True)

    def start(self) -> None:
        """Adopt an earlier server's processes and start the thread."""
        self._adopt()
        self._thread.start()

    def stop(self) -> None:
        """Interrupt all processes; their validations are queued for the next start."""
        self._stopping.set()
        self._wake.set()
        self._thread.join()
        for signal, seconds in (
            (Process.interrupt, self._settings.grace_seconds),
            (Process.kill, KILL_SECONDS),
        ):
            deadline = time.monotonic() + seconds
            for child in self._children.values():
                signal(child.process)
            while self._children and time.monotonic() < deadline:
                self._collect()
                time.sleep(0.05)

    def wake(self) -> None:
        """Check the queue at once."""
        self._wake.set()

    def alive(self) -> bool:
        """Whether the thread runs; without it nothing would start."""
        return self._thread.is_alive()

    def directory(self, key: str) -> Path:
        """Return the run directory of a validation."""
        return self._settings.runs / key

    def remove(self, validation: Validation) -> None:
        """Delete a finished validation and its files."""
        self._jobs.delete(validation.id)
        shutil.rmtree(self.directory(validation.id), ignore_errors=True)

    def _loop(self) -> None:
        while not self._stopping.is_set():
            try:
                self._collect()
                self._cancel()
                self._stop_late()
                self._start_queued()
            except Exception:  # A full disk must not end the supervision for good.
                log.exception("supervisor")
                time.sleep(1)
            self._wake.wait(TICK_SECONDS)
            self._wake.clear()

    def _start_queued(self) -> None:
        while len(self._children) < self._settings.max_running:
            queued = self._jobs.next_queued()
            started = queued and self._jobs.start(queued.id)
            if not started:
                return
            self._children[started.id] = self._launch(started)

    def _launch(self, validation: Validation) -> _Child:
        directory = self.directory(validation.id)
        directory.mkdir(parents=True, exist_ok=True)
        request = {
            "attempt": validation.attempt,
            "experiment": with_network(validation.experiment, self._settings),
            "base": str(self._settings.files),
            "retry_errors": validation.retry_errors,
        }
        write_atomic(directory / REQUEST, json.dumps(request))
        (directory / OUTCOME).unlink(missing_ok=True)
        with (directory / LOG).open("ab") as output:
            popen = subprocess.Popen(
                module_command(
                    "bon.service.validations.job", str(directory), str(validation.attempt)
                ),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, "PYTHONUNBUFFERED": "1", "COLUMNS": "120"},
            )
        process = find(popen.pid) or Process(popen.pid, -1, "")
        log.info("started %s", validation.id, extra={"validation": validation.id, "pid": popen.pid})
        return _Child(process, popen)

    def _cancel(self) -> None:
        for validation in self._jobs.in_state("cancelling"):
            child = self._children.get(validation.id)
            if child is None:
                self._jobs.finish(validation.id, "cancelled")
            else:
                self._end(child)

    def _stop_late(self) -> None:
        """Stop validations that have reached their time limit."""
        longest = 3600 * self._settings.limits.hours
        for validation in self._jobs.in_state("running"):
            child = self._children.get(validation.id)
            if child is not None and time.time() - (validation.started or 0) > longest:
                child.late = True
                self._end(child)

    def _end(self, child: _Child) -> None:
        """Interrupt a process; kill it after the grace period."""
        if child.interrupted is None:
            child.interrupted = time.monotonic()
            child.process.interrupt()
        elif time.monotonic() - child.interrupted > self._settings.grace_seconds:
            child.process.kill()

    def _collect(self) -> None:
        for key, child in list(self._children.items()):
            if child.ended():
                del self._children[key]
                self._settle(key, late=child.late)
                self._wake.set()

    def _settle(self, key: str, *, late: bool = False) -> None:
        """Record how a process ended."""
        validation = self._jobs.get(key)
        if validation is None or validation.state not in ("running", "cancelling"):
            return
        outcome = read_json(self.directory(key) / OUTCOME) or {}
        if outcome.get("attempt") != validation.attempt:
            outcome = {"state": "crashed", "error": "its process was killed"}
        ended = outcome["state"]
        if ended in ("done", "failed"):
            self._jobs.finish(key, ended, outcome["error"])
        elif late:
            hours = f"{self._settings.limits.hours:g} hours"
            self._jobs.finish(key, "failed", f"it took longer than {hours}; resume it to go on")
        elif validation.state == "cancelling":
            self._jobs.finish(key, "cancelled")
        elif ended == "cancelled":  # interrupted by a server that stopped, not by a user
            self._jobs.crashed(key, counts=False)
        elif validation.crashes + 1 >= self._settings.max_crashes:
            reason = f"{outcome['error']} ({validation.crashes + 1} times); see its log"
            self._jobs.finish(key, "failed", reason)
        else:
            self._jobs.crashed(key, counts=True)
        log.info("ended %s", key, extra={"validation": key, "outcome": ended})

    def _adopt(self) -> None:
        """Adopt processes that outlived the server; queue the other validations again."""
        for validation in self._jobs.in_state("running", "cancelling"):
            child = self._find_child(validation)
            if child is not None:
                self._children[validation.id] = child
                log.info("adopted %s", validation.id, extra={"validation": validation.id})
                continue
            outcome = read_json(self.directory(validation.id) / OUTCOME)
            if outcome and outcome.get("attempt") == validation.attempt:
                self._settle(validation.id)
            else:  # It died with its server, which is not its fault.
                self._jobs.crashed(validation.id, counts=False)

    def _find_child(self, validation: Validation) -> _Child | None:
        directory = self.directory(validation.id)
        # A process started just before the server died may not have written its file yet.
        deadline = time.monotonic() + ADOPT_SECONDS
        while True:
            record = read_json(directory / PROCESS)
            if record and record["attempt"] == validation.attempt:
                process = Process(record["pid"], record["ticks"], record["boot"])
                return _Child(process, None) if process.alive() else None
            young = time.time() - (validation.started or 0) < 2 * ADOPT_SECONDS
            if not young or time.monotonic() > deadline:
                return None
            time.sleep(0.1)


def with_network(experiment: dict[str, Any], settings: Settings) -> dict[str, Any]:
    """Return the experiment with the server's Ray cluster and network settings."""
    network = {
        "address": settings.ray_address,
        "listen_beyond_loopback": settings.listen_beyond_loopback,
    }
    network = {key: value for key, value in network.items() if value}
    return {**experiment, "cluster": {**experiment.get("cluster", {}), **network}}
