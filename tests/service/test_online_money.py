"""A server's money online: 40 clients at once, clients that hang up, and restarts."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from bon.core.ledger import LEDGER, spent_by_spec
from tests.engines.fake_endpoint import Billing, serve
from tests.service import server
from tests.service.test_serve import wait_ready

CARD: dict[str, Any] = {
    "name": "judge",
    "kind": "pointwise",
    "engine": "openai",
    "model": "m",
    "prompt": {"text": "{{ prompt }}|{{ response }}"},
    "score": {"pattern": r"Score: (\d)", "range": [0, 9]},
    "sampling": {"temperature": 1.0, "max_tokens": 10},
    "cost": {"input_per_million": 0.0, "output_per_million": 100_000.0},
}


@contextmanager
def serving(folder: Path, url: str, limits: dict[str, float], **online: Any) -> Iterator[str]:
    """Run `bon serve` with a judge at $1 a call; yield its address."""
    args = {"base_url": url, "api_key_env": None, "retry_wait": 0.01, **online.pop("args", {})}
    online = {"rewarders": [{**CARD, "engine_args": args}], "backend": "process", **online}
    limits = {**limits, "requests_per_minute": 0}
    with server.serving(folder, limits=limits, online=online) as running:
        wait_ready(running.client)
        yield running.address


def ask(url: str, name: str, seconds: float = 60) -> int:
    """Send two candidates; return the status, 0 for a client that hung up."""
    body = {
        "rewarder": "judge",
        "messages": [{"role": "user", "content": name}],
        "candidates": [f"{name} one", f"{name} two"],
    }
    try:
        return httpx.post(f"{url}/v1/score", json=body, timeout=seconds).status_code
    except httpx.TimeoutException:
        return 0


def counted(folder: Path) -> float:
    return sum(spent_by_spec(folder / "data" / LEDGER).values())


def settled(folder: Path, billing: Billing) -> None:
    """What was in flight becomes known."""
    for _ in range(100):
        if counted(folder) == billing.bill:
            break
        time.sleep(0.1)
    assert counted(folder) == billing.bill


@pytest.mark.ray
def test_no_crowd_spends_more_than_its_owner_may(tmp_path: Path) -> None:
    """In Ray actors; tests/test_billing_histories.py is of the server's own process."""
    billing = Billing(text="Score: 7")
    with serve(billing, delay=0.3) as endpoint:
        with serving(tmp_path, endpoint.url, {"dollars_per_owner": 5}, backend="ray") as url:
            with ThreadPoolExecutor(40) as crowd:
                statuses = list(crowd.map(lambda i: ask(url, f"q{i}"), range(40)))
            assert 1 <= billing.bill <= 5
            assert set(statuses) <= {200, 402}
            assert 402 in statuses
            settled(tmp_path, billing)
        bill = billing.bill
        with serving(tmp_path, endpoint.url, {"dollars_per_owner": 5}, backend="ray") as url:
            statuses = [ask(url, f"again {i}") for i in range(3)]
            assert billing.bill <= 5
            assert 402 in statuses
            assert billing.bill >= bill
            settled(tmp_path, billing)


def test_a_client_that_hangs_up_pays_for_what_it_had_asked(tmp_path: Path) -> None:
    billing = Billing(text="Score: 7")
    with (
        serve(billing, delay=1.0) as endpoint,
        serving(tmp_path, endpoint.url, {"dollars_per_owner": 5}) as url,
    ):
        assert {ask(url, f"q{i}", seconds=0.5) for i in range(6)} <= {0, 402}
        settled(tmp_path, billing)
        assert 1 <= billing.bill <= 5
        bought = billing.bill
        ask(url, "q0")  # what was bought for the first that hung up is not bought again
        settled(tmp_path, billing)
        assert billing.bill <= 5
        assert set(billing.sold.values()) == {1}
        assert billing.bill >= bought


def test_a_model_s_cap_outlives_the_server(tmp_path: Path) -> None:
    billing = Billing(text="Score: 7")
    limits = {"dollars_per_owner": 100}
    with serve(billing) as endpoint:
        for _ in range(2):
            with serving(tmp_path, endpoint.url, limits, args={"spending_cap": 7}) as url:
                statuses = [ask(url, f"q{i} {time.monotonic()}") for i in range(6)]
                assert 402 in statuses
                assert billing.bill <= 7
                settled(tmp_path, billing)
