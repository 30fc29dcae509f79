"""A server in this process over a data directory of its own; validations run as they would."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from bon.service.app import create_app
from bon.service.server.state import open_service
from bon.service.settings import Settings
from tests.conftest import echo_experiment
from tests.service.server import idle, write_data

Serve = Callable[..., Any]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever asks for a Ray is a Ray test."""
    for item in items:
        if "ray_address" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.ray)


def make_settings(folder: Path) -> Settings:
    """Settings with data in the folder, and no Ray."""
    write_data(folder, 12, 9)
    limits = {"requests_per_minute": 0}
    return Settings(data=folder / "data", miniature=False, auth=False, limits=limits)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Those of a test."""
    return make_settings(tmp_path)


@pytest.fixture
def client(settings: Settings) -> Iterator[TestClient]:
    """A client of a server that starts no validation."""
    with idle(settings) as test_client:
        yield test_client


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A client of such a server, which no test of the module changes."""
    with idle(make_settings(tmp_path_factory.mktemp("shared"))) as test_client:
        yield test_client


@pytest.fixture
def running(settings: Settings, ray_address: str) -> Iterator[TestClient]:
    """A client of a whole server, on the session's Ray."""
    with (
        open_service(settings.model_copy(update={"ray_address": ray_address})) as service,
        TestClient(create_app(service), base_url="http://localhost") as test_client,
    ):
        yield test_client


def experiment(**changes: Any) -> dict[str, Any]:
    """An experiment that ends in a second, with no interval worth reading."""
    return {**echo_experiment(), "analysis": {"bootstrap": 100}, **changes}


def wait_for(client: TestClient, key: str, *states: str, seconds: float = 200) -> dict[str, Any]:
    """The validation, once it is in one of these states."""
    deadline = time.monotonic() + seconds
    while True:
        result = client.get(f"/v1/validations/{key}").json()
        if result["state"] in states:
            return result
        if result["state"] == "failed" or time.monotonic() > deadline:
            log = client.get(f"/v1/validations/{key}/log").text
            raise AssertionError(f"{result['state']}: {result['error']}\n{log}")
        time.sleep(0.1)
