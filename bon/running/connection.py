"""The connection to Ray: made with patience, watched, and made again when Ray is lost.

The death of a node, a raylet or the control service (GCS) says nothing about the items that
were worked on: whoever dispatches them is told by `RayLost`, and sends them again.
"""

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import ray
from ray._private import worker as ray_worker
from ray.core.generated.gcs_pb2 import GcsNodeInfo
from tenacity import Retrying, stop_after_attempt, stop_after_delay, wait_exponential

from bon.core.errors import BonError, Unavailable, one_line
from bon.running.local_ray import LocalRay, imports_as_here
from bon.running.saying import say

STARTS = 3
RESTARTS = 3
LOOK_SECONDS = 0.25
PULSE_SECONDS = 2.0
SILENT_SECONDS = 8.0
LOST_SECONDS = 30.0  # Ray ends its driver after 60 seconds without a GCS
RETURN_SECONDS = 120.0
CLOCK_SECONDS = 60.0
Say = Callable[[str], None]

_local: LocalRay | None = None
"""A process has one Ray."""


class RayLost(Exception):  # noqa: N818 - nobody's fault, and not the end
    """Ray is gone, and with it every worker and all that was in flight; says what happened."""


@dataclass(frozen=True)
class Seen:
    """What the cluster said: when it was asked, which nodes live, and what they have in all."""

    at: float = 0.0
    nodes: frozenset[str] = frozenset()
    resources: dict[str, float] = field(default_factory=dict)


def connect(
    address: str | None,
    say: Say = lambda _: None,
    *,
    patience: float = 0.0,
    environments: bool = True,
) -> None:
    """Start a local Ray, or connect to the cluster at `address`.

    A local one that does not start is tried STARTS times, a cluster for `patience` seconds;
    with `environments` its actors may ask for a runtime environment.
    Raises BonError where the address is wrong, else Unavailable.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    enough = stop_after_delay(patience) if address else stop_after_attempt(STARTS)
    where = address or "on this machine"

    def again(state: Any) -> None:
        say(f"Ray {where} is not there yet ({_reason(state.outcome.exception())}); trying again")

    try:
        Retrying(stop=enough, wait=wait_exponential(max=10), before_sleep=again, reraise=True)(
            _connect, address, environments
        )
    except Exception as error:  # Ray raises all kinds, a bare Exception among them
        if address and not patience:
            fix = "check --ray-address, or leave it out to run on this machine"
            raise BonError(f"cannot reach Ray {where}: {_reason(error)}", fix) from None
        raise Unavailable(
            f"cannot {'reach' if address else 'start'} Ray {where}: {_reason(error)}",
            "run the same command again when the cluster is back"
            if address
            else "run the same command again when this machine has less to do; if it still fails, "
            "look for room on the disk of /tmp/ray and for free memory",
        ) from None


def disconnect(*, lost: bool = False) -> None:
    """Let go of the Ray that `connect` reached or started."""
    global _local
    local, _local = _local, None
    if local is None:
        ray.shutdown()
    else:
        local.stop(lost=lost)


def own_ray(address: str | None) -> bool:
    """Whether the work will run on a Ray of our own, on this machine."""
    return address is None and not ray.is_initialized()


@contextmanager
def connected(
    address: str | None, *, quiet: bool = False, environments: bool = True
) -> Iterator["Connection"]:
    """A local Ray of our own, the cluster at `address`, or the one that this process has."""
    with _exact_exit():
        connection = Connection(address, quiet=quiet, environments=environments)
        try:
            yield connection
        finally:
            connection.close()


class Connection:
    """A Ray that is watched: whether it answers, which nodes it has, and whether it is lost."""

    def __init__(
        self, address: str | None, *, quiet: bool = False, environments: bool = True
    ) -> None:
        self._address = address
        self._environments = environments
        self._quiet = quiet
        self._owned = not ray.is_initialized()
        self._losses = 0
        self._told = False
        self._looked = self._awake = 0.0
        self._open()

    @property
    def local(self) -> bool:
        """Whether it is a Ray of our own, on this machine."""
        return _local is not None

    @property
    def seen(self) -> Seen:
        """What the cluster said last."""
        return self._pulse.seen

    def check(self) -> None:
        """Raise RayLost where Ray is gone; say so where it has not answered for a while."""
        now = time.monotonic()
        if now - self._looked < LOOK_SECONDS:
            return
        if now - self._looked > SILENT_SECONDS:
            self._awake = now  # this process itself was stopped, or busy: nobody could answer
        self._looked = now
        dead = _local.dead() if _local else ""
        if dead:
            raise RayLost(f"Ray's {dead} process has died")
        back = self._ahead - (time.time() - now)
        if self.local and back > CLOCK_SECONDS:  # some of its waits are as long as that now
            raise RayLost(f"the clock was set back by {back:,.0f} seconds")
        silent = now - max(self.seen.at, self._awake)
        if silent > LOST_SECONDS:
            raise RayLost(f"Ray has not answered for {silent:.0f} seconds")
        if self._home not in self.seen.nodes and self.seen.at > self._awake:
            raise RayLost("Ray's node on this machine has died")
        if silent > SILENT_SECONDS and not self._told:
            self.say(f"Ray has not answered for {silent:.0f} seconds; waiting")
        self._told = silent > SILENT_SECONDS

    def find_out(self, seconds: float = 3.0) -> None:
        """Raise RayLost if Ray turns out to be gone: what failed may have failed for that."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._looked = time.monotonic() - LOOK_SECONDS
            self.check()
            time.sleep(LOOK_SECONDS)

    def works(self) -> None:
        """Work has come back: a loss after this is a new one."""
        self._losses = 0

    def again(self, lost: RayLost) -> None:
        """Another Ray for one that is lost; Unavailable where none can be had."""
        self._losses += 1
        ours = self._owned and self._losses <= RESTARTS
        if ours:
            how = "connecting again" if self._address else "starting it again"
            self.say(f"{lost}; {how}, and what was under way is asked again")
        self._close(lost=True)
        if not ours:
            times = f" {self._losses} times without any work done in between" if self._owned else ""
            fix = "run the same command again: what was computed is kept, and nothing was filed"
            raise Unavailable(f"{lost}{times}", fix)
        self._open()

    def say(self, text: str) -> None:
        """One line for a person."""
        say(text, quiet=self._quiet)

    def close(self) -> None:
        """Let go of Ray."""
        self._close(lost=bool(_local and _local.dead()))

    def _open(self) -> None:
        if self._owned:
            patience = RETURN_SECONDS if self._losses else 0.0
            connect(self._address, self.say, patience=patience, environments=self._environments)
        self._home = str(ray.get_runtime_context().get_node_id())
        self._pulse = _Pulse()
        self._looked = self._awake = time.monotonic()
        self._ahead = time.time() - self._looked
        self._told = False

    def _close(self, *, lost: bool) -> None:
        self._pulse.ended.set()
        if self._owned and ray.is_initialized():
            disconnect(lost=lost)


class _Pulse:
    """Asks the cluster now and then who lives, so that nobody else has to wait for its answer."""

    def __init__(self) -> None:
        self.ended = threading.Event()
        self.seen = _look()
        threading.Thread(target=self._beat, name="bon-pulse", daemon=True).start()

    def _beat(self) -> None:
        while not self.ended.wait(PULSE_SECONDS):
            with suppress(Exception):  # no answer is what the age of the last one says
                seen = _look()
                if not self.ended.is_set():
                    self.seen = seen


def _look() -> Seen:
    # Not ray.nodes(): where another control service has taken the place of the one that is gone,
    # that ends the process with a C++ stack.
    at = time.monotonic()
    told = ray_worker.global_worker.gcs_client.get_all_node_info(timeout=SILENT_SECONDS)
    alive = [node for node in told.values() if node.state == GcsNodeInfo.ALIVE]
    resources = {
        key: float(sum(node.resources_total.get(key, 0) for node in alive))
        for key in ("CPU", "GPU")
    }
    return Seen(at, frozenset(node.node_id.hex() for node in alive), resources)


def _connect(address: str | None, environments: bool) -> None:
    global _local
    options = {"logging_level": logging.CRITICAL, "log_to_driver": False}
    with _own_signals(), imports_as_here():
        if address:
            ray.init(address=address, **options)
        else:
            _local = LocalRay(options, environments=environments)
    # What raylets and the autoscaler have to say is in their logs; a terminal, and above all
    # the output of --json, is no place for it.
    ray_worker.print_to_stdstream = _swallow


def _swallow(*_: Any, **__: Any) -> None:
    pass


@contextmanager
def _own_signals() -> Iterator[None]:
    """Keep this process's own way to end: Ray puts one in its place that dumps C++ stacks."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.getsignal(number) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            if handler is not None:  # set by Python, which alone can set it again
                signal.signal(number, handler)


@contextmanager
def _exact_exit() -> Iterator[None]:
    """What a SIGTERM handler raises leaves as it was raised; within a call of Ray it becomes 1."""
    handler = signal.getsignal(signal.SIGTERM)
    if not callable(handler) or threading.current_thread() is not threading.main_thread():
        yield
        return
    raised: list[BaseException] = []

    def heard(number: int, frame: Any) -> None:
        try:
            handler(number, frame)
        except BaseException as error:
            raised.append(error)
            raise

    signal.signal(signal.SIGTERM, heard)
    try:
        yield
    except SystemExit:
        if raised:
            raise raised[0] from None
        raise
    finally:
        signal.signal(signal.SIGTERM, handler)


def _reason(error: BaseException) -> str:
    """The first sentence of what Ray says, which may be a page."""
    return one_line(error, 200)
