"""TCP listeners of this process and its descendants that other machines can reach.

Libraries open ports of their own, some of which run code for whoever connects.
"""

import ipaddress
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from bon.core.errors import BonError

_lock = threading.Lock()
_allowed_ports: set[int] = set()


@dataclass(frozen=True, slots=True)
class Listener:
    """A listening TCP socket; `process` is the name of its process."""

    process: str
    pid: int
    ip: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.ip}]" if ":" in self.ip else self.ip
        return f"{self.process} (pid {self.pid}) listens on {host}:{self.port}"

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach it."""
        ip = ipaddress.ip_address(self.ip.partition("%")[0])
        if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped:
            ip = ip.ipv4_mapped
        return ip.is_loopback


def listeners(pid: int | None = None, *, without: Collection[int] = ()) -> Iterator[Listener]:
    """Yield the listeners of a process (this one by default) and of its descendants.

    Descendants in `without` are left out, with their own.
    """
    queue = [psutil.Process(pid)]
    children: dict[int, list[psutil.Process]] = {}
    for process in queue[0].children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            children.setdefault(process.ppid(), []).append(process)
    for process in queue:
        queue += [child for child in children.get(process.pid, ()) if child.pid not in without]
        yield from _of(process)


def _of(process: psutil.Process) -> Iterator[Listener]:
    with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
        for socket in process.net_connections(kind="tcp"):
            if socket.status == psutil.CONN_LISTEN:
                yield Listener(process.name(), process.pid, socket.laddr.ip, socket.laddr.port)


@contextmanager
def allowed() -> Iterator[None]:
    """Allow what this process opens in here: the nodes of a cluster reach its driver."""
    with _lock:
        before = {listener.port for listener in _of(psutil.Process())}
        yield
        _allowed_ports.update({each.port for each in _of(psutil.Process())} - before)


class Watch:
    """Refuses listeners beyond loopback; a call is cheap where none was opened since the last."""

    def __init__(self, setting: str, *, allowed_ports: Collection[int] = ()) -> None:
        """`setting` is what would allow them."""
        self._setting, self._allowed_ports = setting, allowed_ports
        self._seen: set[str] = set()

    def __call__(self, *, without: Collection[int] = ()) -> None:
        """Raise BonError for a listener of this process or its descendants."""
        tables = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
        with _lock:
            # The inodes of every listening TCP socket of this machine.
            rows = [row.split() for path in tables if path.exists() for row in path.open()]
            sockets = {row[9] for row in rows if row[3] == "0A"}
            if sockets and sockets == self._seen:
                return
            for listener in listeners(without=without):
                ports = (*self._allowed_ports, *_allowed_ports)
                if not listener.loopback and listener.port not in ports:
                    fix = f"close it, or bind it to 127.0.0.1; {self._setting}: true permits it"
                    raise BonError(f"{listener}, where other machines can reach it", fix)
            self._seen = sockets
