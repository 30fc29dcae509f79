"""Talking to a paid or shared HTTP endpoint: how many requests at once, retries, what it costs."""

import asyncio
import heapq
import itertools
import os
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx

from bon.core.errors import BonError, SpendingCapReached
from bon.engines.connections import Connections
from bon.engines.metering import note_cached, turn

_TRANSIENT = {408, 409, 425, 429, 500, 502, 503, 504, 529}
_LONGEST_WAIT = 120.0


class EndpointError(RuntimeError):
    """The endpoint refused this request or stayed unable to answer it."""


class _TransientError(Exception):
    """Worth another try; `after` is what Retry-After asked for."""

    def __init__(self, message: str, after: float | None = None, down: bool = False) -> None:
        super().__init__(message)
        self.after = after
        self.down = down


class AdaptiveLimit:
    """Requests in flight: one more after each success, a fifth fewer when the endpoint objects.

    After a cut there is a cool-down, so that a burst of refusals, all caused by the same crowding,
    cuts once. Who waits is served by turn (see metering), and in order of arrival within one.
    """

    def __init__(self, start: int, least: int, most: int, cooldown: float = 1.0) -> None:
        self.limit = float(start)
        self.least, self.most, self.cooldown = least, most, cooldown
        self.in_flight = 0
        self._quiet_until = 0.0
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._arrivals = itertools.count()

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Wait for a place and hold it."""
        await self._enter()
        try:
            yield
        finally:
            self._leave()

    def grow(self) -> None:
        """A request succeeded."""
        if self.limit < self.most and time.monotonic() >= self._quiet_until:
            self.limit = min(self.limit + 1, self.most)
            self._wake()

    def shrink(self) -> None:
        """The endpoint said that it is too much, or failed."""
        now = time.monotonic()
        if now >= self._quiet_until:
            self.limit = max(self.limit * 0.8, self.least)
            self._quiet_until = now + self.cooldown

    async def _enter(self) -> None:
        if not self._waiting and self.in_flight < int(self.limit):
            self.in_flight += 1
            return
        place = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (turn(), next(self._arrivals), place))
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():  # it was given in the same moment
                self._leave()
            raise

    def _leave(self) -> None:
        self.in_flight -= 1
        self._wake()

    def _wake(self) -> None:
        """Give the places that there are to those whose turn it is, and wake no others."""
        while self._waiting and self.in_flight < int(self.limit):
            *_, place = heapq.heappop(self._waiting)
            if not place.done():
                self.in_flight += 1
                place.set_result(None)


@dataclass
class Ledger:
    """Tokens and money spent on one model. Prices are per million tokens.

    `cached_tokens` of the input were read from the endpoint's prefix cache, as far as it says so.
    """

    input_price: float = 0.0
    output_price: float = 0.0
    cap: float | None = None
    spent: float = 0.0
    requests: int = 0
    retries: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    _here: float = field(default=0.0, repr=False)

    def check(self, in_flight: int) -> None:
        """Refuse what the cap does not allow, requests on their way counted at the mean cost."""
        expected = in_flight * self._here / self.requests if self.requests else 0.0
        if self.cap is not None and self.spent + expected >= self.cap:
            raise SpendingCapReached(
                f"spending cap of {self.cap:g} reached: {self.spent:.4f} spent, "
                f"{expected:.4f} on its way",
                "raise spending_cap and run the same command again; it goes on where it stopped",
            )

    def add(self, usage: dict[str, Any]) -> float:
        """Book one answer; its cost comes back."""
        sent, received = (int(usage.get(f"{k}_tokens") or 0) for k in ("prompt", "completion"))
        cost = (sent * self.input_price + received * self.output_price) / 1e6
        self.requests += 1
        self.input_tokens += sent
        kept = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")
        note_cached(sent, kept)
        self.cached_tokens += int(kept or 0)
        self.output_tokens += received
        self.spent += cost
        self._here += cost
        return cost

    def report(self) -> dict[str, Any]:
        """For info() and the run's record."""
        found = {key: value for key, value in asdict(self).items() if not key.startswith("_")}
        if self.cached_tokens:
            found["prefix_hit_rate"] = round(self.cached_tokens / max(1, self.input_tokens), 3)
        return found


class Endpoint:
    """POSTs JSON to one base URL, politely and persistently."""

    def __init__(
        self,
        base_url: str,
        api_key_env: str | None,
        timeout: float,
        retries: int,
        limit: AdaptiveLimit,
        ledger: Ledger,
        wait: float = 1.0,
    ) -> None:
        self.url = base_url.rstrip("/")
        self.host = urlsplit(base_url).hostname or ""
        self._key = ""
        if api_key_env:
            self._key = os.environ.get(api_key_env, "").strip()
            if not self._key:
                raise BonError(
                    f"no key for {self.host}: the environment variable {api_key_env} is not set",
                    f"export {api_key_env}=... (or api_key_env: null where none is needed)",
                )
        self._retries = retries
        self._wait = wait
        self.limit = limit
        self.ledger = ledger
        self._connections = Connections(self._key, timeout)

    async def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """The answer's JSON, after as many tries as are allowed. `path` may be a whole URL."""
        for attempt in range(1, self._retries + 2):
            try:
                return await self._once(path, body)
            except _TransientError as error:
                failed = error
            if attempt <= self._retries:
                self.ledger.retries += 1
                await asyncio.sleep(self._pause(failed.after, attempt))
        tries = f"after {self._retries + 1} tries"
        if failed.down:
            raise BonError(
                f"{self.url} cannot be reached {tries}: {failed}",
                "start the server or correct base_url; what was done is kept",
            )
        raise EndpointError(f"{self.host} failed {tries}: {failed}")

    async def close(self) -> None:
        """Close connections."""
        await self._connections.close()

    async def _once(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        async with self.limit.slot():
            self.ledger.check(self.limit.in_flight - 1)
            try:
                response = await self._connections.post(self._full(path), body)
            except httpx.TransportError as error:
                self.limit.shrink()
                down = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
                name = type(error).__name__
                raise _TransientError(self._clean(f"{name} {error}".strip()), down=down) from None
        if response.status_code in _TRANSIENT:
            self.limit.shrink()
            raise _TransientError(self._reason(response), _retry_after(response))
        if response.status_code in (401, 403):
            raise BonError(
                f"{self.host} refused the key: {self._reason(response)}",
                "check the key in the variable that api_key_env names, and what it may use",
            )
        if response.status_code == 404:
            raise BonError(
                f"{self._full(path)}: {self._reason(response)}", "check base_url and model"
            )
        if response.status_code >= 400:
            raise EndpointError(f"{self.host} refused the request: {self._reason(response)}")
        self.limit.grow()
        try:
            answer = response.json()
        except ValueError:
            raise _TransientError("the answer is not JSON") from None
        if not isinstance(answer, dict):
            raise EndpointError(f"{self.host}: the answer is not a JSON object")
        return answer

    def _full(self, path: str) -> str:
        return path if path.startswith("http") else self.url + path

    def _pause(self, after: float | None, attempt: int) -> float:
        """What the endpoint asked for, or exponentially longer; never in step with others."""
        if after is not None:
            return min(after, _LONGEST_WAIT) + random.uniform(0, self._wait)
        longest = min(self._wait * 2.0**attempt, _LONGEST_WAIT)
        return random.uniform(longest / 2, longest)

    def _reason(self, response: httpx.Response) -> str:
        """Status and the endpoint's own words, on one line."""
        try:
            body = response.json()
            error = body.get("error", body.get("message", body.get("detail", "")))
            text = str(error.get("message", error) if isinstance(error, dict) else error)
        except (ValueError, AttributeError):
            text = response.text
        return self._clean(f"HTTP {response.status_code} {' '.join(text.split())[:300]}".strip())

    def _clean(self, text: str) -> str:
        # Some endpoints quote the key that they refuse.
        return text.replace(self._key, "***") if self._key else text


def _retry_after(response: httpx.Response) -> float | None:
    """Seconds, from a number or a date."""
    value = response.headers.get("retry-after")
    if value is None:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (TypeError, ValueError):
        return None
