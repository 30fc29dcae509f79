"""Starts, watches and stops the processes of validations, which end with their server."""

import json
import logging
import os
import signal
import subprocess
import threading
import time
from contextlib import suppress
from dataclasses import dataclass

from bon.core.files import write_atomic
from bon.dispatch.module_path import module_command
from bon.service.settings import Settings
from bon.service.validations.job import LOG, OUTCOME, REQUEST, read_json
from bon.service.validations.jobs import Jobs, Validation

log = logging.getLogger("bon.service")
TICK_SECONDS = 0.25
GRACE_SECONDS, KILL_SECONDS = 30.0, 5.0
"""From an interrupt to the kill, and from there to the end."""
MAX_CRASHES = 3
"""Of one validation's process; then it has failed."""


@dataclass
class _Child:
    """A validation's process."""

    process: subprocess.Popen[bytes]
    interrupted: float | None = None
    late: bool = False

    def interrupt(self) -> None:
        """Stop the process so that it keeps what it has."""
        self.process.send_signal(signal.SIGINT)

    def kill(self) -> None:
        """Kill its process group."""
        if self.process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)


class Supervisor:
    """A thread that moves validations between states."""

    def __init__(self, settings: Settings, jobs: Jobs) -> None:
        self._settings, self._jobs = settings, jobs
        self._children: dict[str, _Child] = {}
        self._wake, self._stopping = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._loop, name="supervisor", daemon=True)

    @property
    def pids(self) -> list[int]:
        """The processes of validations, which see to their own listeners."""
        return [child.process.pid for child in list(self._children.values())]

    def start(self) -> None:
        """Queue again what an earlier server left running, and start the thread."""
        for validation in self._jobs.in_state("running", "cancelling"):
            self._jobs.crashed(validation.id, counts=False)  # it ended with its server
        self._thread.start()

    def stop(self) -> None:
        """Interrupt all processes; their validations are queued for the next start."""
        self._stopping.set()
        self._wake.set()
        self._thread.join()
        for end, seconds in ((_Child.interrupt, GRACE_SECONDS), (_Child.kill, KILL_SECONDS)):
            deadline = time.monotonic() + seconds
            for child in self._children.values():
                end(child)
            while self._children and time.monotonic() < deadline:
                self._collect()
                time.sleep(0.05)

    def wake(self) -> None:
        """Check the queue at once."""
        self._wake.set()

    def alive(self) -> bool:
        """Whether the thread runs; without it nothing would start."""
        return self._thread.is_alive()

    def _loop(self) -> None:
        while not self._stopping.is_set():
            try:
                self._collect()
                self._end()
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
        directory, attempt = self._settings.runs / validation.id, validation.attempt
        directory.mkdir(parents=True, exist_ok=True)
        # The server's Ray cluster and network settings.
        network = {
            "address": self._settings.ray_address,
            "listen_beyond_loopback": self._settings.listen_beyond_loopback,
        }
        cluster = {key: value for key, value in network.items() if value}
        cluster = {**validation.experiment.get("cluster", {}), **cluster}
        request = {
            "attempt": attempt,
            "experiment": {**validation.experiment, "cluster": cluster},
            "base": str(self._settings.files),
            "retry_errors": validation.retry_errors,
        }
        write_atomic(directory / REQUEST, json.dumps(request))
        (directory / OUTCOME).unlink(missing_ok=True)
        with (directory / LOG).open("ab") as output:
            process = subprocess.Popen(
                module_command("bon.service.validations.job", str(directory), str(attempt)),
                stdin=subprocess.PIPE,  # closes with this server, however it ends
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, "PYTHONUNBUFFERED": "1", "COLUMNS": "120"},
            )
        extra = {"validation": validation.id, "pid": process.pid}
        log.info("started %s", validation.id, extra=extra)
        return _Child(process)

    def _end(self) -> None:
        """Interrupt what is cancelled or has reached its time limit; kill it after the grace."""
        longest = 3600 * self._settings.limits.hours
        for validation in self._jobs.in_state("running", "cancelling"):
            child, cancelled = self._children.get(validation.id), validation.state == "cancelling"
            late = not cancelled and time.time() - (validation.started or 0) > longest
            if child is None and cancelled:
                self._jobs.finish(validation.id, "cancelled")
            if child is None or not (late or cancelled):
                continue
            child.late = child.late or late
            if child.interrupted is None:
                child.interrupted = time.monotonic()
                child.interrupt()
            elif time.monotonic() - child.interrupted > GRACE_SECONDS:
                child.kill()

    def _collect(self) -> None:
        for key, child in list(self._children.items()):
            if child.process.poll() is not None:
                del self._children[key]
                self._settle(key, late=child.late)
                self._wake.set()

    def _settle(self, key: str, *, late: bool = False) -> None:
        """Record how a process ended."""
        validation = self._jobs.get(key)
        if validation is None or validation.state not in ("running", "cancelling"):
            return
        outcome = read_json(self._settings.runs / key / OUTCOME) or {}
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
        elif validation.crashes + 1 >= MAX_CRASHES:
            reason = f"{outcome['error']} ({validation.crashes + 1} times); see its log"
            self._jobs.finish(key, "failed", reason)
        else:
            self._jobs.crashed(key, counts=True)
        log.info("ended %s", key, extra={"validation": key, "outcome": ended})
