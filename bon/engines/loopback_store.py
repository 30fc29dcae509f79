"""torch.distributed's TCPStore on loopback: a plugin that vLLM loads in each of its processes."""

import ipaddress
import socket
from contextlib import suppress
from importlib import import_module
from typing import Any


def register() -> None:
    """Bind a store with an address of loopback to that address; torch binds it to every one."""
    from torch.distributed import TCPStore

    def store(host_name: str, port: int, **options: Any) -> TCPStore:
        with suppress(ValueError, OSError):  # a name, or a port that this process shares
            if options.get("is_master") and ipaddress.ip_address(host_name).is_loopback:
                options["master_listen_fd"] = socket.create_server((host_name, port)).detach()
        return TCPStore(host_name=host_name, port=port, **options)

    vars(import_module("torch.distributed.rendezvous"))["TCPStore"] = store
