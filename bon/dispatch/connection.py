"""The connection to Ray: made patiently, watched, and made again when Ray is lost.

The death of a node, a raylet or the control service (GCS) says nothing about the items in flight:
the dispatcher learns of it by `RayLost` and sends them again.
"""

import errno
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import ray
from ray._private import worker as ray_worker
from ray.core.generated.gcs_pb2 import GcsNodeInfo
from ray.job_config import JobConfig

from bon.core.console import say
from bon.core.errors import BonError, Unavailable, one_line
from bon.dispatch.listeners import Watch, allowed
from bon.dispatch.local_ray import LocalRay, check_limits
from bon.dispatch.module_path import cwd_first
from bon.dispatch.nodes import Node
from bon.experiment.config import ClusterConfig

MAX_STARTS = 3
MAX_RESTARTS = 3
CHECK_SECONDS = 0.25
POLL_SECONDS = 2.0
SILENT_SECONDS = 8.0
LOST_SECONDS = 30.0  # Ray ends its driver after 60 seconds without a GCS
RECONNECT_SECONDS = 120.0
MAX_CLOCK_STEP_SECONDS = 60.0
_LASTING = {
    errno.EACCES, errno.EDQUOT, errno.EFBIG, errno.ENOMEM, errno.ENOSPC, errno.ENOTDIR, errno.EROFS
}  # fmt: skip
"""Errors that another attempt does not mend: no room, memory or permission."""

_local: LocalRay | None = None
"""The local Ray of this process, if any."""


class RayLost(Exception):  # noqa: N818 - work goes on with another Ray
    """Ray is gone, with every worker and everything in flight; the message says how."""


@dataclass(frozen=True)
class ClusterState:
    """The living nodes of the cluster by id, as of `at` (monotonic clock)."""

    at: float = 0.0
    nodes: Mapping[str, Node] = field(default_factory=dict)


def connect(
    address: str | None, report: Callable[[str], None] = lambda _: None, *, patience: float = 0.0
) -> None:
    """Start a local Ray, or connect to the cluster at `address`.

    A local Ray is tried MAX_STARTS times, a cluster for `patience` seconds; `report` receives
    every failed attempt. Raises BonError for a wrong address, else Unavailable.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    where = address or "on this machine"
    if address is None:
        check_limits()

    started = time.monotonic()
    for attempt in count(1):
        try:
            return _connect(address)
        except Exception as error:  # Ray raises all kinds, a bare Exception among them
            failure = error
        again = time.monotonic() < started + patience if address else attempt < MAX_STARTS
        lasting = isinstance(failure, MemoryError) or getattr(failure, "errno", 0) in _LASTING
        if lasting or not again:
            break
        report(f"Ray {where} is not up yet ({one_line(failure, 200)}); trying again")
        time.sleep(min(2 ** (attempt - 1), 10))
    reason = f"cannot {'reach' if address else 'start'} Ray {where}: {one_line(failure, 200)}"
    if address and not patience:
        raise BonError(reason, "check --ray-address, or leave it out to run on this machine")
    cause = "the cluster is back" if address else "this machine has less to do"
    room = "" if address else "; if it still fails, free memory and disk space"
    raise Unavailable(reason, f"run the same command again when {cause}{room}")


def disconnect(*, lost: bool = False) -> None:
    """Disconnect from the Ray that `connect` reached, and end a local one."""
    global _local
    local, _local = _local, None
    if local is None:
        ray.shutdown()
    else:
        local.stop(lost=lost)


def starts_local_ray(address: str | None) -> bool:
    """Whether connecting will start a Ray on this machine."""
    return address is None and not ray.is_initialized()


def connected(config: ClusterConfig, *, quiet: bool = False) -> "closing[Connection]":
    """Connect to the Ray of this process, the configured cluster, or a new local Ray."""
    return closing(Connection(config, quiet=quiet))


class Connection:
    """A watched connection to Ray."""

    def __init__(self, config: ClusterConfig, *, quiet: bool = False) -> None:
        self._address, self._closed = config.address, not config.listen_beyond_loopback
        self._quiet, self._owned = quiet, not ray.is_initialized()
        self._checked = self.awake = self._clock_offset = 0.0
        self._reported_silence = False
        self.losses = 0  # since work last came back
        self._open()

    @property
    def local(self) -> bool:
        """Whether this process started the Ray."""
        return _local is not None

    @property
    def state(self) -> ClusterState:
        """The last reported state of the cluster."""
        return self._poll.state

    def check(self) -> None:
        """Raise RayLost if Ray is gone, BonError if a process of ours listens beyond loopback.

        Reports that Ray has been silent for a while.
        """
        now = time.monotonic()
        if now - self._checked < CHECK_SECONDS:
            return
        if now - self._checked > SILENT_SECONDS:
            self.awake = now  # this process itself was stopped or busy
        self._checked = now
        if self._poll.refusal is not None:
            raise self._poll.refusal
        if _local and (dead := _local.dead()):
            raise RayLost(f"Ray's {dead} process has died")
        clock_step = self._clock_offset - (time.time() - now)
        if self.local and clock_step > MAX_CLOCK_STEP_SECONDS:  # Ray's own waits grow by that
            raise RayLost(f"the clock was set back by {clock_step:,.0f} seconds")
        silent = now - max(self.state.at, self.awake)
        if silent > LOST_SECONDS:
            raise RayLost(f"Ray has not answered for {silent:.0f} seconds")
        if self._driver_node not in self.state.nodes and self.state.at > self.awake:
            raise RayLost("Ray's node on this machine has died")
        if silent > SILENT_SECONDS and not self._reported_silence:
            self.report(f"Ray has not answered for {silent:.0f} seconds; waiting")
        self._reported_silence = silent > SILENT_SECONDS

    def diagnose(self, seconds: float = 3.0) -> None:
        """After a failure: raise RayLost if Ray turns out to be gone within `seconds`."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._checked = time.monotonic() - CHECK_SECONDS
            self.check()
            time.sleep(CHECK_SECONDS)

    def reconnect(self, lost: RayLost) -> None:
        """Replace a lost Ray; raises Unavailable where that is not possible."""
        self.losses += 1
        retry = self._owned and self.losses <= MAX_RESTARTS
        if retry:
            how = "connecting again" if self._address else "starting it again"
            self.report(f"{lost}; {how}, and its work in flight is repeated")
        self._close(lost=True)
        if not retry:
            times = f" {self.losses} times without any work done in between" if self._owned else ""
            fix = "run the same command again: what was computed is kept, and nothing was stored"
            raise Unavailable(f"{lost}{times}", fix)
        self._open()

    def report(self, line: str) -> None:
        """Print one line for the user."""
        say(line, quiet=self._quiet)

    def check_listeners(self) -> None:
        """Raise BonError if a process of ours listens beyond loopback; `check` does it late."""
        if self._owned and self._closed:
            self._watch()

    def close(self) -> None:
        """Disconnect, where this connection was not open before."""
        self._close(lost=bool(_local and _local.dead()))

    def _open(self) -> None:
        if self._owned:
            patience = RECONNECT_SECONDS if self.losses else 0.0
            self._watch = Watch("cluster.listen_beyond_loopback")
            self.check_listeners()
            connect(self._address, self.report, patience=patience)
            try:
                self.check_listeners()
            except BonError:
                disconnect()
                raise
        self._driver_node = str(ray.get_runtime_context().get_node_id())
        self._poll = _Poll(self.check_listeners)
        self._checked = self.awake = time.monotonic()
        self._clock_offset = time.time() - self._checked

    def _close(self, *, lost: bool) -> None:
        self._poll.ended.set()
        if self._owned and ray.is_initialized():
            disconnect(lost=lost)


class _Poll:
    """Poll the cluster's state and listeners in a thread, so that no caller waits for them."""

    def __init__(self, check_listeners: Callable[[], None]) -> None:
        self.ended = threading.Event()
        self.refusal: BonError | None = None
        self._check_listeners = check_listeners
        self.state = _cluster_state()
        threading.Thread(target=self._run, name="bon-cluster-state", daemon=True).start()

    def _run(self) -> None:
        while not self.ended.wait(POLL_SECONDS):
            try:
                self._check_listeners()
            except BonError as error:
                self.refusal = error
            with suppress(Exception):  # the age of the last state shows it
                state = _cluster_state()
                if not self.ended.is_set():
                    self.state = state


def _cluster_state() -> ClusterState:
    # Not ray.nodes(): where another GCS has replaced a dead one, it aborts the process.
    at = time.monotonic()
    nodes = ray_worker.global_worker.gcs_client.get_all_node_info(timeout=SILENT_SECONDS)
    alive = {
        node.node_id.hex(): Node(*(node.resources_total.get(key, 0.0) for key in ("CPU", "GPU")))
        for node in nodes.values()
        if node.state == GcsNodeInfo.ALIVE
    }
    return ClusterState(at, alive)


class _SameSysPath(JobConfig):  # type: ignore[misc]
    """A job whose workers do not look for modules in the current folder first."""

    def _runtime_env_has_working_dir(self) -> bool:
        return True


def _connect(address: str | None) -> None:
    global _local
    options: dict[str, Any] = {"logging_level": logging.CRITICAL, "log_to_driver": False}
    options["job_config"] = None if cwd_first() else _SameSysPath()
    with _own_signals(), allowed() if address else nullcontext():
        if address:
            ray.init(address=address, **options)
        else:
            _local = LocalRay(options)
    # Messages of raylets and the autoscaler are in Ray's logs; they would spoil `--json`.
    ray_worker.global_worker.threads_stopped.set()
    ray_worker.global_worker.gcs_error_subscriber.close()


@contextmanager
def _own_signals() -> Iterator[None]:
    """Keep this process's signal handlers: Ray's dump C++ stacks."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            if handler is not None:  # None: not set by Python, which cannot set it again
                signal.signal(number, handler)
