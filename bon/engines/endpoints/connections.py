"""HTTP connections to one endpoint: a client per place in flight, kept for later requests."""

import asyncio
import json
from functools import cached_property
from typing import Any

import httpx

_CODING = ("content-encoding", "content-length", "transfer-encoding")
MAX_REPLY_BYTES = 64 * 2**20


class ReplyTooLargeError(httpx.TransportError):
    """A reply is longer than any completion, once it is decompressed."""


class Connections:
    """As many as are in flight at once: a pool's work grows with the square of its connections."""

    def __init__(self, key: str, timeout: float) -> None:
        self._headers = {
            "User-Agent": f"bon (python-httpx/{httpx.__version__})",
            "Accept": "application/json",
            "Content-Type": "application/json",
        }
        if key:
            self._headers["Authorization"] = f"Bearer {key}"
        self._timeout = timeout
        self._idle: list[httpx.AsyncClient] = []

    async def post(self, url: str, body: dict[str, Any]) -> httpx.Response:
        """Return the whole reply, whatever its status, within the time limit.

        Raises:
            httpx.TransportError: also where the reply is too large or takes too long.
        """
        content = json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        # The one used last: its connection is the likeliest to be open.
        client = self._idle.pop() if self._idle else self._new()
        try:
            async with asyncio.timeout(self._timeout):
                response = await _read(client, url, content.encode())
        except BaseException as error:
            await client.aclose()
            if isinstance(error, TimeoutError):
                raise httpx.ReadTimeout(f"no whole reply within {self._timeout:g} s") from None
            raise
        self._idle.append(client)
        return response

    async def close(self) -> None:
        """Close all."""
        idle, self._idle = self._idle, []
        await asyncio.gather(*(client.aclose() for client in idle))

    @cached_property
    def _context(self) -> Any:
        return httpx.create_ssl_context()  # slow to make

    def _new(self) -> httpx.AsyncClient:
        # Below the limit of the whole request: what cannot be reached has cost nothing.
        limits = httpx.Timeout(self._timeout, connect=min(10.0, 0.9 * self._timeout))
        return httpx.AsyncClient(verify=self._context, headers=self._headers, timeout=limits)


async def _read(client: httpx.AsyncClient, url: str, content: bytes) -> httpx.Response:
    """Return the response with its body, decompressed and no larger than it may be."""
    body = bytearray()
    async with client.stream("POST", url, content=content) as response:
        async for piece in response.aiter_bytes():
            body += piece
            if len(body) > MAX_REPLY_BYTES:
                raise ReplyTooLargeError(f"the reply is larger than {MAX_REPLY_BYTES >> 20} MiB")
    headers = [(key, value) for key, value in response.headers.multi_items() if key not in _CODING]
    return httpx.Response(response.status_code, headers=headers, content=bytes(body))
