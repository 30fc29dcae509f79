"""When a connection counts as lost, without a Ray."""

import time
from types import SimpleNamespace

import pytest

from bon.dispatch import connection
from bon.dispatch.connection import ClusterState, Connection, RayLost
from bon.dispatch.nodes import Node
from bon.experiment.config import ClusterConfig


@pytest.fixture
def local_connection(monkeypatch):
    """A connection to a local Ray that is well."""
    monkeypatch.setattr(connection, "connect", lambda *_, **__: None)
    monkeypatch.setattr(connection, "_local", SimpleNamespace(dead=lambda: ""))
    poll = SimpleNamespace(state=state(), refusal=None)
    monkeypatch.setattr(connection, "_Poll", lambda _: poll)
    here = SimpleNamespace(get_node_id=lambda: "here")
    ray = SimpleNamespace(is_initialized=lambda: False, get_runtime_context=lambda: here)
    monkeypatch.setattr(connection, "ray", ray)
    return Connection(ClusterConfig(), quiet=True)


def state():
    return ClusterState(time.monotonic(), {"here": Node(1.0)})


@pytest.mark.parametrize(("seconds", "lost"), [(-3600, True), (-30, False), (3600 * 24, False)])
def test_a_clock_that_is_set_back_ends_a_local_ray(local_connection, monkeypatch, seconds, lost):
    now = time.time
    monkeypatch.setattr(connection.time, "time", lambda: now() + seconds)
    local_connection._checked = 0.0
    if not lost:
        local_connection.check()
        return
    with pytest.raises(RayLost, match=r"the clock was set back by 3,\d+ seconds"):
        local_connection.check()
