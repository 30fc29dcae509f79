"""What reaches the endpoint, and by which way."""

import asyncio
import gzip
import json
from typing import Any

import httpx
import pytest
from fake_endpoint import FakeEndpoint, Reply, ordinary, serve

from bon.engines.endpoints.connections import Connections, ReplyTooLargeError

BODY = {"messages": [{"role": "user", "content": "q"}]}


def posted(url: str, *bodies: dict[str, Any]) -> list[Any]:
    async def all_of_them() -> list[Any]:
        made = Connections("sk-1", timeout=5)
        answers = [(await made.post(url, body)).json() for body in bodies]
        await made.close()
        return answers

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


def test_a_request_says_what_it_is() -> None:
    with serve() as server:
        posted(server.url, BODY, BODY)
        for sent in headers(server):
            assert sent["content-type"] == "application/json"
            assert sent["authorization"] == "Bearer sk-1"
            assert sent["user-agent"].startswith("bon ")
        assert server.connections == 1


def test_the_time_limit_bounds_the_whole_request() -> None:
    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
        while not writer.is_closing():
            writer.write(b" ")
            await asyncio.sleep(0.02)

    async def ask() -> None:
        server = await asyncio.start_server(drip, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        connections = Connections("", timeout=0.3)
        try:
            await asyncio.wait_for(connections.post(f"http://127.0.0.1:{port}/", BODY), 20)
        finally:
            await connections.close()
            server.close()

    with pytest.raises(httpx.ReadTimeout, match="no whole reply within"):
        asyncio.run(ask())


def test_a_reply_is_limited_after_decompression() -> None:
    bomb = gzip.compress(b" " * (65 * 2**20))
    with (
        serve(lambda *_: (200, {"content-encoding": "gzip"}, bomb)) as server,
        pytest.raises(ReplyTooLargeError, match="larger than 64 MiB"),
    ):
        posted(server.url, BODY)
