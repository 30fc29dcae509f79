"""A local Ray of two CPUs, until stdin closes; prints its address.

It detaches from the process that started it: its ports are not among those that a run checks.
"""

import os
import sys
from unittest.mock import patch

import ray
from ray._private.node import Node


def no_start(*_: object, **__: object) -> None:
    """Instead of processes of Ray's that no test looks at."""


if __name__ == "__main__":
    if os.fork():
        os._exit(0)
    os.environ.setdefault("RAY_raylet_start_wait_time_s", "120")  # late on a busy machine, not dead
    os.environ.setdefault("RAY_worker_niceness", "0")  # as in a local Ray of bon's
    options = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}
    unused = dict.fromkeys(("start_api_server", "start_monitor", "start_log_monitor"), no_start)
    with patch.multiple(Node, **unused):
        ray.init(address="local", num_cpus=2, **options)
    print(ray.get_runtime_context().gcs_address, flush=True)
    sys.stdin.read()
    ray.shutdown()
