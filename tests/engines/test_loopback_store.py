"""torch.distributed's store, as vLLM makes it, is bound to loopback."""

import os
import subprocess
import sys

import pytest

MADE = """
from socket import create_server
from torch import distributed, ones
from bon.dispatch.listeners import listeners
from bon.engines.loopback_store import register

register()
for _ in range(2):
    with create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    distributed.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=0, world_size=1)
    assert port in {listener.port for listener in listeners()}
    assert all(listener.loopback for listener in listeners()), [*map(str, listeners())]
    total = ones(2)
    distributed.all_reduce(total)
    distributed.destroy_process_group()
"""


@pytest.mark.slow
@pytest.mark.model
def test_a_store_with_an_address_of_loopback_listens_there_alone():
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo"}
    subprocess.run([sys.executable, "-c", MADE], env=environment, check=True, timeout=200)
