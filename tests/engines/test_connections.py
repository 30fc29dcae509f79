"""What reaches the endpoint, and by which way."""

import asyncio
import gzip
import json
from typing import Any

import pytest
from fake_endpoint import FakeEndpoint, Reply, ordinary, serve
from hypothesis import given
from hypothesis import strategies as st

from bon.engines.connections import Connections, DataUrl, as_json

BODY = {"messages": [{"role": "user", "content": "q"}]}
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS
    | st.binary(max_size=9).map(lambda data: DataUrl(f"data:image/png;base64,{data.hex()}")),
    lambda each: st.lists(each, max_size=4) | st.dictionaries(TEXTS, each, max_size=4),
)


@given(st.dictionaries(TEXTS, VALUES, max_size=4))
def test_images_in_a_body_are_the_json_that_they_would_be_as_strings(body: dict[str, Any]) -> None:
    plain = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    assert as_json(body) == plain.encode()


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
