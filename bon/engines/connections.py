"""HTTP connections to one endpoint, one per place in flight, and the JSON that goes over them.

What costs nothing for one request costs a quarter of the time for a hundred thousand: a client's
cookies, redirects and merged headers, and escapes looked for in a megabyte of base64. So requests
go to httpx's transports, and images into their JSON as they are.
"""

import asyncio
import json
import ssl
import uuid
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx

_MARK = uuid.uuid4().hex
_TAKES_COMPRESSED = "gzip, deflate"


class DataUrl(str):
    """An image inline. It holds nothing that JSON escapes, so it is not searched for that."""

    __slots__ = ()


class Connections:
    """As many as are in flight at once, kept for later requests."""

    def __init__(self, key: str, timeout: float) -> None:
        self._headers = {
            "User-Agent": f"bon (python-httpx/{httpx.__version__})",
            "Accept": "application/json",
            "Accept-Encoding": _TAKES_COMPRESSED,
            "Content-Type": "application/json",
        }
        if key:
            self._headers["Authorization"] = f"Bearer {key}"
        limits = httpx.Timeout(timeout, connect=min(10.0, timeout))
        self._extensions = {"timeout": limits.as_dict()}
        # A transport with one connection per place: a pool's work grows with the square of its
        # connections. All share what is slow to make, the TLS context.
        self._context: ssl.SSLContext | None = None
        self._idle: list[httpx.AsyncHTTPTransport] = []
        self._addresses: dict[str, tuple[httpx.URL, httpx.Headers]] = {}

    async def post(self, url: str, body: dict[str, Any]) -> httpx.Response:
        """The whole answer, whatever its status. Raises httpx.TransportError."""
        request = self._request(url, body)
        # The one used last: its connection is the likeliest to be open.
        transport = self._idle.pop() if self._idle else self._new(request.url)
        try:
            response = await transport.handle_async_request(request)
            await response.aread()
        except BaseException:
            await transport.aclose()
            raise
        self._idle.append(transport)
        return response

    async def close(self) -> None:
        """Close all."""
        idle, self._idle = self._idle, []
        await asyncio.gather(*(transport.aclose() for transport in idle))

    def _request(self, url: str, body: dict[str, Any]) -> httpx.Request:
        if url not in self._addresses:
            parsed = httpx.URL(url)
            host = {"Host": parsed.netloc.decode("ascii")}
            self._addresses[url] = parsed, httpx.Headers(host | self._headers)
        parsed, headers = self._addresses[url]
        return httpx.Request(
            "POST", parsed, headers=headers, content=as_json(body), extensions=self._extensions
        )

    def _new(self, url: httpx.URL) -> httpx.AsyncHTTPTransport:
        if self._context is None:
            self._context = httpx.create_ssl_context()
        return httpx.AsyncHTTPTransport(
            verify=self._context, limits=httpx.Limits(max_connections=1), proxy=_proxy(str(url))
        )


def as_json(body: dict[str, Any]) -> bytes:
    """`body` as compact JSON, every DataUrl put in as it is."""
    found: list[DataUrl] = []
    pieces = json.dumps(
        _without_urls(body, found), ensure_ascii=False, separators=(",", ":"), allow_nan=False
    ).split(_MARK)
    assert len(pieces) == len(found) + 1
    joined = [pieces[0]]
    for url, piece in zip(found, pieces[1:], strict=True):
        joined += url, piece
    return "".join(joined).encode()


def _without_urls(value: Any, found: list[DataUrl]) -> Any:
    """`value` with a mark in the place of every DataUrl; these are collected, in order."""
    if isinstance(value, DataUrl):
        found.append(value)
        return _MARK
    if isinstance(value, dict):
        return {key: _without_urls(each, found) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_without_urls(each, found) for each in value]
    return value


def _proxy(url: str) -> str | None:
    """The proxy that the environment (HTTP_PROXY, NO_PROXY and the like) names for an address."""
    parts = urlsplit(url)
    proxies = getproxies()
    found = proxies.get(parts.scheme) or proxies.get("all")
    if not found or proxy_bypass(parts.hostname or ""):
        return None
    return found if "://" in found else f"http://{found}"
