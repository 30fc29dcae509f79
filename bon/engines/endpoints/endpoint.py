"""Talking to a paid or shared HTTP endpoint: how many requests at once, retries, what it costs."""

import asyncio
import heapq
import itertools
import json
import os
import random
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any, ClassVar, NoReturn
from urllib.parse import urlsplit

import httpx

from bon.core.errors import BonError
from bon.engines.endpoints.budget import Charge, budget, stop
from bon.engines.metering import turn

_TRANSIENT = {408, 409, 425, 429, 500, 502, 503, 504, 529}
_NO_MONEY = {"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"}
_LONGEST_WAIT = 120.0
_LONG_WAIT = 10.0
CLOSE_SECONDS = 5.0
MAX_REPLY_BYTES = 64 * 2**20


_VARIANT = re.compile(r":(?:latest|free|nitro|floor|exacto|online|extended|beta)$")  # OpenRouter
_VENDOR, _BEDROCK = re.compile(r"(?:[a-z-]+\.)?([a-z-]+)\.(?=[a-z])"), re.compile(r"-v\d+:\d+$")
# us.anthropic.NAME-v1:0
_MONTH, _DAY = r"(?:0[1-9]|1[0-2])", r"(?:[0-2]\d|3[01])"
_SNAPSHOT = re.compile(
    rf"[-@](20\d\d-?{_MONTH}-?{_DAY}|{_MONTH}-20\d\d|2\d{_MONTH}(?:{_DAY})?|{_MONTH}{_DAY}"
    r"|0\d\d|latest|default)$"
)


_ssl_context = cache(httpx.create_ssl_context)  # slow to make
_url = cache(httpx.URL)


class EndpointError(RuntimeError):
    """The endpoint refused this request or stayed unable to answer it."""


class Unreadable(EndpointError):  # noqa: N818
    """A reply was paid for and holds nothing to read: its item fails, and is not bought again."""

    final: ClassVar[bool] = True


class Unanswered(EndpointError):  # noqa: N818
    """No try of a request was answered: its item is not to blame (`core.errors.UNANSWERED`)."""


class _TransientError(Exception):
    """Worth another try; `after` is what Retry-After asked for."""

    def __init__(self, message: str, after: float | None = None, down: bool = False) -> None:
        super().__init__(message)
        self.after = after
        self.down = down


class AdaptiveLimit:
    """Requests in flight: one more after each success, a fifth fewer when the endpoint objects.

    A cool-down follows each cut, so that a burst of refusals cuts once. Waiting requests are served
    by turn (see metering), and in order of arrival within one.
    """

    def __init__(self, start: int, most: int, cooldown: float = 1.0) -> None:
        self.limit = float(start)
        self.most, self.cooldown = most, cooldown
        self.in_flight = 0
        self._quiet_until = 0.0
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._arrivals = itertools.count()

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Wait for a place and hold it."""
        if self._waiting or self.in_flight >= int(self.limit):
            place = asyncio.get_running_loop().create_future()
            heapq.heappush(self._waiting, (turn(), next(self._arrivals), place))
            try:
                await place
            except asyncio.CancelledError:
                if place.done() and not place.cancelled():  # it was granted in the same moment
                    self._leave()
                raise
        else:
            self.in_flight += 1
        try:
            yield
        finally:
            self._leave()

    def grow(self) -> None:
        """Raise the limit: a request succeeded."""
        if self.limit < self.most and time.monotonic() >= self._quiet_until:
            self.limit = min(self.limit + 1, self.most)
            self._wake()

    def shrink(self) -> None:
        """Lower the limit: the endpoint refused a request, or failed."""
        now = time.monotonic()
        if now >= self._quiet_until:
            self.limit = max(self.limit * 0.8, 1.0)
            self._quiet_until = now + self.cooldown

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
class EngineTotals:
    """Requests, tokens and money of one engine since it was loaded.

    `cached_tokens` of the input were read from the endpoint's prefix cache, as far as it says so.
    `estimated` replies came without a usable `usage` and were counted here.
    """

    spent: float = 0.0
    requests: int = 0
    retries: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    estimated: int = 0

    def report(self) -> dict[str, Any]:
        """Return the totals for info() and the run's record."""
        rate = round(self.cached_tokens / max(1, self.input_tokens), 3)
        return asdict(self) | ({"prefix_hit_rate": rate} if self.cached_tokens else {})


Book = Callable[[dict[str, Any]], Charge]
"""Reads the price of a reply and what it bought."""


class Endpoint:
    """POSTs JSON to one base URL, politely and persistently."""

    def __init__(
        self,
        base_url: str,
        api_key_env: str | None,
        timeout: float,
        retries: int,
        limit: AdaptiveLimit,
        cap: float | None = None,
        wait: float = 1.0,
    ) -> None:
        """`cap` is the most dollars that may be spent here."""
        self.url = base_url.rstrip("/")
        self.host = urlsplit(base_url).hostname or ""
        self._key = os.environ.get(api_key_env, "").strip() if api_key_env else ""
        if api_key_env and not self._key:
            problem = f"no key for {self.host}: the environment variable {api_key_env} is not set"
            fix = f"export {api_key_env}=... (or api_key_env: null where none is needed)"
            raise BonError(problem, fix)
        self._timeout, self._retries, self._wait = timeout, retries, wait
        self._cap = cap
        self._sent: set[asyncio.Task[dict[str, Any]]] = set()
        self.limit, self.totals = limit, EngineTotals()
        # One client per place in flight: a pool's work grows with the square of its connections.
        self._idle: list[httpx.AsyncClient] = []
        self._wait_reason, self._waits_until = "", 0.0

    @property
    def wait_reason(self) -> str:
        """Why requests wait for a long time, if they do."""
        return self._wait_reason if time.monotonic() < self._waits_until else ""

    async def post(
        self,
        path: str,
        body: dict[str, Any],
        most: float = 0.0,
        book: Book = lambda _: Charge(0.0),
    ) -> dict[str, Any]:
        """Return the reply's JSON, after as many tries as are allowed. `path` may be a whole URL.

        most: the most that the request can cost, in US dollars, which is reserved before each
        attempt. book: reads what the reply did cost.
        """
        url = path if path.startswith("http") else self.url + path
        for attempt in range(1, self._retries + 2):
            try:
                return await self._attempt(url, body, most, book)
            except _TransientError as error:
                failed = error
            if attempt <= self._retries:
                self.totals.retries += 1
                # What the endpoint asks for, or exponentially longer; never in step with others.
                longest = min(self._wait * 2.0**attempt, _LONGEST_WAIT)
                pause = random.uniform(longest / 2, longest)
                if failed.after is not None:
                    pause = min(failed.after, _LONGEST_WAIT) + random.uniform(0, self._wait)
                if max(pause, failed.after or 0.0) >= _LONG_WAIT:
                    self._note_wait(failed, pause)
                await asyncio.sleep(pause)
        tries = f"after {self._retries + 1} tries"
        if failed.down:
            fix = "start the server or correct base_url; finished work is kept"
            raise BonError(f"{self.url} cannot be reached {tries}: {failed}", fix)
        raise Unanswered(f"{self.host} failed {tries}: {failed}")

    def _note_wait(self, failed: _TransientError, pause: float) -> None:
        asks = "" if failed.after is None else f" asks to wait {failed.after:,.0f} seconds"
        tries = f"{self._retries + 1} tries, at most {_LONGEST_WAIT:.0f} seconds apart"
        self._wait_reason = f"{self.host}{asks} ({failed}): {tries}"
        self._waits_until = max(self._waits_until, time.monotonic() + pause)

    async def close(self) -> None:
        """Close connections, once what was sent is settled."""
        if self._sent:
            await asyncio.wait(self._sent, timeout=CLOSE_SECONDS)
        idle, self._idle = self._idle, []
        await asyncio.gather(*(client.aclose() for client in idle))

    async def _attempt(
        self, url: str, body: dict[str, Any], most: float, book: Book
    ) -> dict[str, Any]:
        """Make one attempt. One that may cost money goes on when nobody waits any more."""
        sent = asyncio.Event()
        if not most:
            return await self._once(url, body, most, book, sent)
        task = asyncio.create_task(self._once(url, body, most, book, sent))
        self._sent.add(task)
        task.add_done_callback(self._forget)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not sent.is_set():
                task.cancel()
            raise

    def _forget(self, task: asyncio.Task[dict[str, Any]]) -> None:
        self._sent.discard(task)
        if not task.cancelled():
            task.exception()  # retrieved: where nobody waits any more, nobody is told

    async def _once(
        self, url: str, body: dict[str, Any], most: float, book: Book, sent: asyncio.Event
    ) -> dict[str, Any]:
        """Send a request; what it may cost is reserved, and settled whatever becomes of it."""
        async with self.limit.slot():
            try:
                async with budget().reserve(most, self._timeout, self._cap) as charge:
                    sent.set()
                    try:
                        reply = await self._answer(url, body, book, charge)
                    finally:
                        self.totals.spent += charge.dollars
            except BonError as error:
                stop(error)  # before those that wait for this one's place go out
                raise
        self.limit.grow()
        return reply

    async def _answer(
        self, url: str, body: dict[str, Any], book: Book, charge: Charge
    ) -> dict[str, Any]:
        """Return the JSON that answers a request, with what is known of its cost in `charge`."""

        def charged(known: Charge) -> None:
            charge.dollars, charge.replies = known.dollars, known.replies

        try:
            response, content = await self._exchange(url, body)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError) as error:
            charge.dollars = 0.0  # nothing was sent
            self.limit.shrink()
            raise _TransientError(self._named(error), down=True) from None
        except httpx.RequestError as error:
            self.limit.shrink()
            raise _TransientError(self._named(error)) from None
        reply = _json_object(content)
        alone = reply and reply.get("error") and not {"choices", "data"} & reply.keys()
        if alone or not response.is_success:  # some say in the body alone that they refuse
            charged(book(reply) if reply and reply.get("usage") else Charge(0.0))
            words = content.decode(response.encoding or "utf-8", "replace")
            self._refuse(url, response, reply or {}, words)
        if reply is None:
            kind = response.headers.get("content-type", "no type").partition(";")[0]
            raise Unreadable(f"{self.host}: the reply ({kind}) is not a JSON object")
        charged(book(reply))
        return reply

    async def _exchange(self, url: str, body: dict[str, Any]) -> tuple[httpx.Response, bytes]:
        """Return a reply's head and its content, decompressed, no longer than any completion."""
        content = json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        received = bytearray()
        # The one used last: its connection is the likeliest to be open.
        client = self._idle.pop() if self._idle else self._new_client()
        try:
            async with (
                asyncio.timeout(self._timeout),
                client.stream("POST", _url(url), content=content.encode()) as response,
            ):
                async for piece in response.aiter_bytes():
                    received += piece
                    if len(received) > MAX_REPLY_BYTES:
                        size = f"{MAX_REPLY_BYTES >> 20} MiB"
                        raise Unreadable(f"{self.host}: the reply is larger than {size}")
        except BaseException as error:
            await client.aclose()
            if isinstance(error, TimeoutError):
                raise httpx.ReadTimeout(f"no whole reply within {self._timeout:g} s") from None
            raise
        self._idle.append(client)
        return response, bytes(received)

    def _new_client(self) -> httpx.AsyncClient:
        headers = {
            "User-Agent": f"bon (python-httpx/{httpx.__version__})",
            "Accept": "application/json",
            "Content-Type": "application/json",
        } | ({"Authorization": f"Bearer {self._key}"} if self._key else {})
        # Below the limit of the whole request: what cannot be reached has cost nothing.
        timeout = httpx.Timeout(self._timeout, connect=min(10.0, 0.9 * self._timeout))
        return httpx.AsyncClient(verify=_ssl_context(), headers=headers, timeout=timeout)

    def _refuse(
        self, url: str, response: httpx.Response, reply: dict[str, Any], text: str
    ) -> NoReturn:
        """Raise what a refusal means, with its status and the endpoint's own words on one line."""
        status, words = response.status_code, reply or text
        error = reply.get("error")
        if response.is_success:
            code = error.get("code") if isinstance(error, dict) else None
            status = code if type(code) is int and 400 <= code < 600 else status
        for name in ("error", "message", "detail"):
            words = words.get(name, words) if isinstance(words, dict) else words
        text = " ".join(("" if words is reply else str(words)).split())
        reason = self._clean(f"HTTP {status} {text[:300]}".strip())
        if response.is_redirect:
            problem = f"{url} redirects to {response.headers.get('location', 'nowhere')!r}"
            raise BonError(problem, "set base_url to the address that answers")
        codes = {error.get("code"), error.get("type")} if isinstance(error, dict) else {error}
        if status == 402 or any(code in _NO_MONEY for code in codes if isinstance(code, str)):
            fix = "add credit and run the same command: paid replies are kept"
            raise BonError(f"{self.host} has no credit left for this key: {reason}", fix)
        if status in _TRANSIENT:
            self.limit.shrink()
            raise _TransientError(reason, _retry_after(response))
        if status in (401, 403):
            fix = "check the key in the variable that api_key_env names, and what it may use"
            raise BonError(f"{self.host} refused the key: {reason}", fix)
        if status == 404:
            raise BonError(f"{url}: {reason}", "check base_url and model")
        raise EndpointError(f"{self.host} refused the request: {reason}")

    def _named(self, error: httpx.RequestError) -> str:
        return self._clean(f"{type(error).__name__} {error}".strip())

    def _clean(self, text: str) -> str:
        # Some endpoints quote the key that they refuse.
        return text.replace(self._key, "***") if self._key else text


def _json_object(content: bytes) -> dict[str, Any] | None:
    """Return the object that a reply holds; None where it holds something else."""
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None


def _retry_after(response: httpx.Response) -> float | None:
    value = response.headers.get("retry-after", "")
    with suppress(ValueError):
        return max(0.0, float(value))
    with suppress(TypeError, ValueError):
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    return None


def is_same_model(requested: str, served: str) -> bool:
    """Whether a model is the requested one, or a dated snapshot of it where no date was requested.

    The owner (openai/, us.anthropic.) may be missing on one side, as may the path before a folder's
    name, as vLLM serves it; case, dots for hyphens and OpenRouter's routes (:free) do not count.
    """
    if requested == served:
        return True
    (owner, name, date), other = _parts(requested), _parts(served)
    return name == other[1] and date in ("", other[2]) and (owner in ("", other[0]) or not other[0])


def _parts(name: str) -> tuple[str, str, str]:
    """Return a model's owner, its name, and its snapshot's date or number, "" where it has none."""
    path, _, name = _VARIANT.sub("", name.lower().rstrip("/")).rpartition("/")
    vendor = _VENDOR.match(name)
    owner = vendor[1] if vendor else path.rpartition("/")[2]
    if path.startswith(("/", ".", "~")) or owner == "models":  # a folder; Google's models/NAME
        owner = ""
    name = re.sub(r"[._]", "-", _BEDROCK.sub("", name[vendor.end() if vendor else 0 :]))
    snapshot = _SNAPSHOT.search(name)
    if snapshot is None:
        return owner, name, ""
    date = snapshot[1].replace("-", "")
    return owner, name[: snapshot.start()], "" if date in ("latest", "default") else date
