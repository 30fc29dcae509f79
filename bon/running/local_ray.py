"""A Ray of our own: closed to other machines and users, and gone when this process is.

Ray listens on every interface and lets whoever reaches it run code, outlives a killed driver by
a minute, and takes a minute to notice that its control service (the GCS) has died. A local one
listens on the loopback address only, asks for a token, and has its processes watched. It has
none of what Ray starts for people and clusters, which is most of what starting Ray takes.
"""

import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import ray
from ray._private import ray_constants, services
from ray._private.node import Node
from ray.job_config import JobConfig

from bon.core.modules import from_here
from bon.core.processes import Process, children, command, descendants, name
from bon.running import idle_agent, sentinel

try:
    from ray._raylet import AuthenticationTokenLoader, Config  # type: ignore[attr-defined]
except ImportError:  # a Ray before 2.52, which has no tokens
    Config = None
try:
    from ray._private.runtime_env.uv_runtime_env_hook import _get_uv_run_cmdline as run_by_uv
    from ray._raylet import (  # type: ignore[attr-defined]
        DASHBOARD_AGENT_LISTEN_PORT_NAME,
        METRICS_AGENT_PORT_NAME,
        METRICS_EXPORT_PORT_NAME,
        RUNTIME_ENV_AGENT_PORT_NAME,
        persist_port,
    )
except ImportError:  # a Ray that starts in another way: with all that it starts
    persist_port = None
else:
    _DASHBOARD_PORTS = [
        METRICS_AGENT_PORT_NAME,
        METRICS_EXPORT_PORT_NAME,
        DASHBOARD_AGENT_LISTEN_PORT_NAME,
    ]

_AS_ASKED_FOR = {"prestart_worker_first_driver": False}
"""Ray else waits at its start for a worker process per CPU, whether any will be used or not."""
_ONE_HEAP = {"MALLOC_ARENA_MAX": "1"}
"""What glibc is told in Ray's workers: what a thread frees serves all threads of its process.

Else each model's thread is given pages of its own, again and again: small models on a CPU spend an
eighth of their time on that. It counts where a process starts, so models cannot say it themselves.
"""
_NO_PORT = -1  # as Ray itself says it of a service that is not in use
VITAL = {"gcs_server": "GCS", "raylet": "raylet"}
_TOKEN = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN")
_PACKAGE = str(Path(ray.__file__).parent)


class LocalRay:
    """The processes of a local Ray, from `start` to `stop`."""

    def __init__(self, options: dict[str, Any], *, environments: bool = True) -> None:
        """Start it and connect to it; what failed to start leaves nothing behind.

        environments: actors may ask for a runtime environment. Raises whatever Ray raises.
        """
        self._token = _set_token()
        self._vital: dict[str, Process] = {}
        self._sentinel = subprocess.Popen(
            [sys.executable, "-I", "-S", sentinel.__file__, str(os.getpid())],
            stdin=subprocess.PIPE,  # closes with this process, however and whenever it ends
            start_new_session=True,
        )
        self._since = sentinel.started(self._sentinel.pid)
        try:
            fewer = _no_more_than(environments=environments or _asked_for())
            with _loopback(), fewer, _default(_ONE_HEAP):
                ray.init(
                    address="local",
                    include_dashboard=False,
                    _system_config=_AS_ASKED_FOR if persist_port else None,
                    **options,
                )
            daemons = {name(each): each for each in _daemons()}
            self._vital = {key: each for key, each in daemons.items() if key in VITAL}
        except BaseException:
            self.stop(lost=True)
            raise

    def dead(self) -> str:
        """What of it has died that it cannot live without; "" while all is well."""
        return next((VITAL[key] for key, each in self._vital.items() if not each.alive()), "")

    def stop(self, *, lost: bool = False) -> None:
        """End it; a `lost` one is killed first, since it would not answer."""
        self._sentinel.kill()
        self._sentinel.communicate()
        if lost:
            self._kill()
        with suppress(Exception) if lost else nullcontext():
            ray.shutdown()
        self._kill()
        if self._token:
            _forget_token()

    def _kill(self) -> None:
        daemons = _daemons()
        for process in [*descendants(each.pid for each in daemons), *daemons]:
            process.end()
        for pid in sentinel.session_of(os.getpid(), self._since):  # whose raylet was gone before
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _daemons() -> list[Process]:
    """What Ray has started directly under this process."""
    return [each for each in children([os.getpid()]) if _PACKAGE in command(each)]


@contextmanager
def _replaced(owner: Any, **values: Any) -> Iterator[None]:
    """Attributes of a module or class that are others for a while."""
    before = {key: getattr(owner, key) for key in values}
    for key, value in values.items():
        setattr(owner, key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            setattr(owner, key, value)


@contextmanager
def _default(variables: dict[str, str]) -> Iterator[None]:
    """Environment variables of what is started meanwhile, where the user has not set them."""
    ours = {key: value for key, value in variables.items() if key not in os.environ}
    os.environ.update(ours)
    try:
        yield
    finally:
        for key in ours:
            del os.environ[key]


def imports_as_here() -> AbstractContextManager[None]:
    """Workers look for modules where this process does.

    Ray else puts the current folder first in their path, whatever lies there; of a runtime
    environment with a folder of its own it knows better.
    """
    name = "_runtime_env_has_working_dir"
    if from_here() or not hasattr(JobConfig, name):
        return nullcontext()
    return _replaced(JobConfig, **{name: lambda _: True})


def _loopback() -> AbstractContextManager[None]:
    """Where Ray does not expect other nodes, everything it starts binds to 127.0.0.1 alone."""
    return _replaced(ray_constants, ENABLE_RAY_CLUSTER=False)


@contextmanager
def _no_more_than(*, environments: bool) -> Iterator[None]:
    """What runs actors, and none of the processes that Ray starts for people and clusters.

    Neither the dashboard with its agent, nor the autoscaler's monitor, nor the log's; without
    `environments` nor the agent that makes runtime environments.
    """
    if persist_port is None:
        yield
        return
    unused = {"dashboard_agent": _DASHBOARD_PORTS}
    if not environments:
        unused["runtime_env_agent"] = [RUNTIME_ENV_AGENT_PORT_NAME]
    start = services.start_ray_process

    def started(command: list[str], process_type: str, *more: Any, **options: Any) -> Any:
        if process_type == ray_constants.PROCESS_TYPE_RAYLET:
            command = _without(command, unused)
        return start(command, process_type, *more, **options)

    with (
        _replaced(Node, start_monitor=_nothing, start_log_monitor=_nothing),
        _replaced(Node, start_api_server=_nothing),
        _replaced(services, start_ray_process=started),
    ):
        yield


def _without(command: list[str], unused: dict[str, list[str]]) -> list[str]:
    """A raylet's command with stand-ins for these agents, whose ports it then need not wait for."""
    told = dict(part[2:].partition("=")[::2] for part in command if part.startswith("--"))
    for port in [port for ports in unused.values() for port in ports]:
        persist_port(told["session_dir"], told["node_id"], port, _NO_PORT)
    # The session tells the sentinel whose they are.
    stand_in = [sys.executable, "-I", "-S", idle_agent.__file__, told["session_dir"]]
    agents = {f"--{agent}_command": subprocess.list2cmdline(stand_in) for agent in unused}
    kept = [part for part in command if part.partition("=")[0] not in agents]
    return [*kept, *(f"{option}={line}" for option, line in agents.items())]


def _nothing(*_: Any, **__: Any) -> None:
    pass


def _asked_for() -> bool:
    """Whether whoever started this process has Ray run its workers in an environment."""
    told = ("RAY_RUNTIME_ENV_HOOK", "RAY_JOB_CONFIG_JSON_ENV_VAR")
    return any(key in os.environ for key in told) or bool(run_by_uv())


def _set_token() -> bool:
    """Have Ray ask for a token of this process's own, unless the user has chosen otherwise."""
    if Config is None or any(key in os.environ for key in _TOKEN):
        return False
    os.environ.update(zip(_TOKEN, ("token", secrets.token_hex(32)), strict=True))
    _read_token()
    return True


def _forget_token() -> None:
    for key in _TOKEN:
        os.environ.pop(key, None)
    with suppress(Exception):
        _read_token()


def _read_token() -> None:
    Config.initialize("")  # Ray has read its environment when it was imported
    AuthenticationTokenLoader.instance().reset_cache()
