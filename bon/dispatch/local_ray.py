"""A local Ray: on loopback only, behind a token, in a private folder, gone when this process is.

Ray listens on every interface, runs code for whoever connects, lets every user of the machine
write to its session (where a planted port is sent the token), outlives a killed driver by a
minute and takes a minute to notice a dead control service (GCS). `ray.init` has no setting for
that, so its node is started here as `ray.init` starts one.
"""

import os
import resource
import secrets
import shutil
import subprocess
import sys
import tempfile
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import psutil
import ray
from ray._private import worker as ray_worker
from ray._private.node import Node
from ray._private.parameter import RayParams
from ray._raylet import AuthenticationTokenLoader, Config  # type: ignore[attr-defined]

from bon.core.errors import BonError
from bon.dispatch import sentinel

_ENVIRONMENT = {
    "GLOO_SOCKET_IFNAME": "lo",  # torch.distributed listens on other interfaces otherwise
    "NCCL_SOCKET_IFNAME": "lo",
    "VLLM_HOST_IP": "127.0.0.1",
    # One heap for all threads of a worker: with one a thread, small models on a CPU spend an
    # eighth of their time on new pages (docs/measurements/engines.md).
    "MALLOC_ARENA_MAX": "1",
    # Keep freed memory instead of returning it to the system.
    "MALLOC_MMAP_THRESHOLD_": str(256 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
    # Ray's default is 15: a busy program leaves models a thirtieth of the core that they share.
    "RAY_worker_niceness": "0",
}
"""Set in Ray's processes where the user has not set it."""
_TOKEN = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN")
_VITAL = {"gcs_server": "GCS", "raylet": "raylet"}
_MIN_FREE = 50 << 20
_MIN_ADDRESS_SPACE = 12 << 30
_LONGEST = 24 if sys.platform == "darwin" else 28
"""Characters of the parent of Ray's folder: the paths of its sockets may have 103, on Linux 107."""


def check_limits() -> None:
    """Raise BonError where Ray would wait a minute for processes that cannot start."""
    address_space, file_size = (
        resource.getrlimit(limit)[0] for limit in (resource.RLIMIT_AS, resource.RLIMIT_FSIZE)
    )
    if 0 <= address_space < _MIN_ADDRESS_SPACE:
        problem = f"the limit on address space, {address_space >> 20:,} MiB, is too small for Ray"
        raise BonError(problem, "lift it: ulimit -v unlimited")
    store = min(psutil.virtual_memory().total * 3 // 10, 200 << 30)  # Ray's default, one file
    if 0 <= file_size < store:
        problem = f"the limit on the size of a file, {file_size >> 20:,} MiB, is too small for "
        problem += f"Ray's object store, {store >> 20:,} MiB"
        raise BonError(problem, "lift it: ulimit -f unlimited")
    parent = _parent()
    if len(str(parent)) > _LONGEST:
        problem = f"the path {parent} (RAY_TMPDIR) is too long for Ray's sockets"
        raise BonError(problem, f"set RAY_TMPDIR to one of at most {_LONGEST} characters")
    if parent.is_dir() and shutil.disk_usage(parent).free < _MIN_FREE:
        raise BonError(f"the disk that holds {parent} is full", "free space, or set RAY_TMPDIR")


class _HeadNode(Node):  # type: ignore[misc]
    """A node without an API server, which no parameter leaves out."""

    def start_api_server(self, **_: Any) -> None:
        """Start none."""


class LocalRay:
    """The processes of a local Ray, from construction to `stop`."""

    def __init__(self, options: dict[str, Any]) -> None:
        """Start Ray and connect to it; a failed start raises Ray's error and leaves nothing."""
        parent = _parent()
        parent.mkdir(parents=True, exist_ok=True)
        self._folder = tempfile.mkdtemp(prefix="bon-", dir=parent)
        self._has_own_token = _set_token()
        self._node: Any = None
        self._vital: dict[str, psutil.Process] = {}
        self._sentinel = psutil.Popen(
            [sys.executable, "-I", sentinel.__file__, self._folder],
            stdin=subprocess.PIPE,  # closes with this process, however it ends
            start_new_session=True,
        )
        self._since = self._sentinel.create_time()
        parameters = RayParams(
            node_ip_address="127.0.0.1",
            temp_dir=f"{self._folder}/r",  # Ray opens the folder of this name to everyone
            include_log_monitor=False,
            no_monitor=True,
            env_vars={k: v for k, v in _ENVIRONMENT.items() if k not in os.environ},
            # Do not wait for a worker per CPU.
            _system_config={"prestart_worker_first_driver": False},
        )
        try:
            self._node = _HeadNode(parameters, head=True, shutdown_at_exit=False)
            ray_worker._global_node = self._node  # else 127.0.0.1 becomes an outer address
            ray.init(address=self._node.gcs_address, **options)
            children = {child.name(): child for child in psutil.Process().children()}
            self._vital = {name: children[name] for name in _VITAL}
        except BaseException:
            self.stop(lost=True)
            raise

    def dead(self) -> str:
        """Return the name of a vital process that has died, or ""."""
        for name, process in self._vital.items():
            with suppress(psutil.NoSuchProcess):
                if process.status() != psutil.STATUS_ZOMBIE and process.is_running():
                    continue
            return _VITAL[name]
        return ""

    def stop(self, *, lost: bool = False) -> None:
        """End Ray; a `lost` one, which would not answer, is killed first."""
        self._sentinel.kill()
        self._sentinel.communicate()
        if lost:
            sentinel.kill_session(self._folder, self._since)
        with suppress(Exception) if lost else nullcontext():
            ray.shutdown()
            if self._node is not None:
                self._node.kill_all_processes(check_alive=False)
        sentinel.kill_session(self._folder, self._since)
        shutil.rmtree(self._folder, ignore_errors=True)
        if self._has_own_token:
            for key in _TOKEN:
                os.environ.pop(key, None)
            with suppress(Exception):
                _reload_token()


def _parent() -> Path:
    """Return where the private folders of local Rays are made."""
    usual = tempfile.gettempdir()
    short = usual if len(usual) <= _LONGEST else "/tmp"
    return Path(os.environ.get("RAY_TMPDIR") or short).resolve()  # as processes list their files


def _set_token() -> bool:
    """Make Ray ask for a token of this process, unless the user has chosen a mode."""
    if any(key in os.environ for key in _TOKEN):
        return False
    os.environ.update(zip(_TOKEN, ("token", secrets.token_hex(32)), strict=True))
    _reload_token()
    return True


def _reload_token() -> None:
    Config.initialize("")  # Ray read its environment when it was imported
    AuthenticationTokenLoader.instance().reset_cache()
