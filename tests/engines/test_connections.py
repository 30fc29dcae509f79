"""What reaches the endpoint, and by which way."""

import asyncio
import gzip
import json
from typing import Any

import pytest
from fake_endpoint import FakeEndpoint, Reply, ordinary, serve

from bon.engines.endpoints.endpoint import AdaptiveLimit, Endpoint, EndpointError

BODY = {"messages": [{"role": "user", "content": "q"}]}


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_KEY", "sk-1")


def endpoint(url: str, timeout: float) -> Endpoint:
    return Endpoint(url, "TEST_KEY", timeout, 0, AdaptiveLimit(1, 1))


def posted(url: str, *bodies: dict[str, Any]) -> list[Any]:
    async def all_of_them() -> list[Any]:
        made = endpoint(url, timeout=5)
        try:
            return [await made.post("", body) for body in bodies]
        finally:
            await made.close()

    return asyncio.run(all_of_them())


def headers(server: FakeEndpoint) -> list[dict[str, str]]:
    return [{name.lower(): value for name, value in each.items()} for each in server.headers]


def test_the_environment_names_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "NO_PROXY", "no_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    with serve() as proxy, serve() as server:
        monkeypatch.setenv("http_proxy", proxy.url.removesuffix("/v1"))
        posted("http://endpoint.invalid/v1/chat", BODY)
        assert proxy.paths == ["http://endpoint.invalid/v1/chat"]
        assert headers(proxy)[0]["host"] == "endpoint.invalid"
        monkeypatch.setenv("no_proxy", "127.0.0.1,elsewhere.invalid")
        posted(f"{server.url}/chat", BODY)
        assert server.paths == ["/v1/chat"]
        assert len(proxy.paths) == 1


def test_an_answer_may_come_compressed() -> None:
    def compressed(_: int, body: dict[str, Any]) -> Reply:
        return 200, {"content-encoding": "gzip"}, gzip.compress(json.dumps(ordinary(body)).encode())

    with serve(compressed) as server:
        assert posted(server.url, BODY) == [ordinary(BODY)]
        assert "gzip" in headers(server)[0]["accept-encoding"]


def test_the_time_limit_bounds_the_whole_request() -> None:
    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
        while not writer.is_closing():
            writer.write(b" ")
            await asyncio.sleep(0.02)

    async def ask() -> None:
        server = await asyncio.start_server(drip, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        made = endpoint(f"http://127.0.0.1:{port}", timeout=0.3)
        try:
            await asyncio.wait_for(made.post("/", BODY), 20)
        finally:
            await made.close()
            server.close()

    with pytest.raises(EndpointError, match="ReadTimeout no whole reply within"):
        asyncio.run(ask())


def test_a_reply_is_limited_after_decompression() -> None:
    bomb = gzip.compress(b" " * (65 * 2**20))
    with (
        serve(lambda *_: (200, {"content-encoding": "gzip"}, bomb)) as server,
        pytest.raises(EndpointError, match="larger than 64 MiB"),
    ):
        posted(server.url, BODY)
