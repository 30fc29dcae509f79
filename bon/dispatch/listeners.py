"""TCP listeners of this process and its descendants that other machines can reach.

Libraries open ports of their own, some of which run code for whoever connects.
"""

import ipaddress
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass

import psutil

from bon.core.errors import BonError


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


def listeners(pid: int | None = None) -> Iterator[Listener]:
    """Yield the listeners of a process (this one by default) and of its descendants."""
    root = psutil.Process(pid)
    for process in (root, *root.children(recursive=True)):
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            for socket in process.net_connections(kind="tcp"):
                if socket.status == psutil.CONN_LISTEN:
                    yield Listener(process.name(), process.pid, socket.laddr.ip, socket.laddr.port)


def refuse_listeners(setting: str, *, allowed_ports: Collection[int] = ()) -> None:
    """Raise BonError for a listener beyond loopback; `setting` is what would allow it."""
    for listener in listeners():
        if not listener.loopback and listener.port not in allowed_ports:
            raise BonError(
                f"{listener}, where other machines can reach it",
                f"close it, or bind it to 127.0.0.1; {setting}: true permits it",
            )
