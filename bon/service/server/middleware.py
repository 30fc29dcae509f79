"""ASGI middleware: hosts, origins, sizes, rates, request ids, security headers, access log.

Rates and shares per client keep any client from taking the server from the others.
"""

import asyncio
import ipaddress
import logging
import re
import time
import uuid
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bon.service.errors import CLOSING, ApiError, error_response, no_token
from bon.service.server.access import LOOPBACK, Identity, Tokens, hostname, identify
from bon.service.server.logs import request_id
from bon.service.settings import Limits, Settings

log = logging.getLogger("bon.access")
BODY_SECONDS = 60.0
LOGGED_CHARS = 300
PROBES = ("/healthz", "/readyz")
"""Probes know an address and no host name."""
SAFE = ("GET", "HEAD", "OPTIONS")
FORMS = ("/login", "/logout")
"""Forms of the pages, which need no token: a session may have expired."""
FORM_BYTES, FORM_SECONDS = 4096, 10.0
"""Of a body without a token."""
HEADER_BYTES = 32 * 1024
"""Of a request's line and headers; proxies take 8 to 64 KiB."""
EXPERIMENT_BYTES = 256 * 1024
"""Of a body that holds no images; a hundred cards fill a tenth."""
BODY_VALUES = 100_000
"""Commas and brackets of a larger body: what parsing and validating it costs."""
BODY_BYTES, BODIES = 32 * 1024**2, 8
"""Of the body of an online request; so many may be in memory at once, of all requests."""
MAX_BUCKETS = 10_000
DISCARDED_BYTES = 65_536
ONLINE = ("/get_reward", "/v1/score", "/v1/chat/completions")
"""Routes whose bodies may hold images."""
TOKEN_SHARE, ANONYMOUS_SHARE, BYTES_SHARE = 0.8, 0.2, 0.5
"""Of the connections: for one token, and for all clients without one; of body bytes: per token."""
_SIGNATURE = re.compile("[0-9a-f]*-?[0-9a-fA-F]{64}")
"""In a link to a report, which it opens for whoever reads it."""
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")

# The pages load their own script, style and pictures and nothing else, from nowhere else.
PAGE_CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
    "manifest-src 'none'"
)
_HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # Under `no-referrer` browsers send `Origin: null` with the pages' own forms, too.
    "referrer-policy": "same-origin",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
}


class RateLimiter:
    """A token bucket per client, refilled by the minute; the oldest buckets are forgotten."""

    def __init__(self, per_minute: int) -> None:
        self._rate, self._size = per_minute / 60, max(1.0, per_minute / 6)
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, client: str) -> float:
        """Return 0 if the request may proceed, else the seconds until it might."""
        if self._rate == 0:
            return 0.0
        now = time.monotonic()
        level, then = self._buckets.pop(client, (self._size, now))
        level = min(self._size, level + (now - then) * self._rate)
        allowed = level >= 1
        self._buckets[client] = (level - 1 if allowed else level, now)
        if len(self._buckets) > MAX_BUCKETS:
            self._buckets.popitem(last=False)
        return 0.0 if allowed else max(1.0, (1 - level) / self._rate)


class Shares:
    """Open requests and the bytes of their bodies, per owner ("" without a token)."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._open, self._bytes = Counter[str](), Counter[str]()

    @contextmanager
    def open(self, owner: str) -> Iterator[Callable[[int], bool]]:
        """Count a request; yield a function that counts bytes of its body while they fit.

        Raises ApiError if the owner has as many requests open as allowed.
        """
        share = TOKEN_SHARE if owner else ANONYMOUS_SHARE
        if self._open[owner] >= self._limits.connections * share:
            raise _too_much("too many requests are open", 5)
        size = 0

        def fits(more: int) -> bool:
            nonlocal size
            size += more
            self._bytes[owner] += more
            limit = BODIES * BODY_BYTES
            return self._bytes[owner] <= limit * BYTES_SHARE and self._bytes.total() <= limit

        self._open[owner] += 1
        try:
            yield fits
        finally:
            self._open[owner] -= 1
            self._bytes[owner] -= size


class Guard:
    """ASGI middleware around the whole application."""

    def __init__(self, app: ASGIApp, settings: Settings, tokens: Tokens) -> None:
        self._app, self._tokens, self._auth = app, tokens, settings.auth
        self._root = settings.root_path
        self._rates = RateLimiter(settings.limits.requests_per_minute)
        self._shares = Shares(settings.limits)
        self._named = {name.lower() for name in settings.allow.hosts} - {"*"}
        named = (hostname(name) or name for name in self._named)
        self._hosts = {*LOOPBACK, settings.host.lower(), *named, *settings.allow.hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        # Proxies that strip the prefix, and those that keep it.
        if self._root and f"{scope['path']}/".startswith(f"{self._root}/"):
            scope["path"] = scope["path"][len(self._root) :] or "/"
        scope["identity"] = None
        headers = Headers(scope=scope)
        name = headers.get("x-request-id", "")
        name = name if _REQUEST_ID.fullmatch(name) else uuid.uuid4().hex[:16]
        token = request_id.set(name)
        started = time.perf_counter()
        status = 0

        async def reply(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                response_headers = MutableHeaders(scope=message)
                response_headers["x-request-id"] = name
                for key, value in _HEADERS.items():
                    response_headers.setdefault(key, value)
            await send(message)

        try:
            await self._handle(scope, headers, receive, reply)
        except ApiError as error:
            response = error_response(error)
            if error.status in CLOSING:  # what is still being sent is not read
                response.headers["connection"] = "close"
            await response(scope, receive, reply)
        except Exception:
            log.exception("unhandled")
            if not status:
                failure = ApiError(500, "internal error")
                await error_response(failure)(scope, receive, reply)
        finally:
            self._record(scope, status or 500, time.perf_counter() - started)
            request_id.reset(token)

    async def _handle(self, scope: Scope, headers: Headers, receive: Receive, send: Send) -> None:
        try:
            self._check_head(scope, headers)
        except ApiError:  # a proxy loses the refusal if the connection closes on a small body
            size = headers.get("content-length", "")
            if size.isdecimal() and 0 < int(size) <= DISCARDED_BYTES:
                with suppress(TimeoutError):
                    async with asyncio.timeout(1):
                        while (await receive()).get("more_body"):
                            pass
            raise
        identity: Identity | None = scope["identity"]
        if scope["path"] in PROBES:
            await self._answer(scope, receive, send)
            return
        with self._shares.open(identity.name if identity else "") as fits:
            if scope["method"] not in SAFE:
                body = await self._body(scope, receive, fits)
                receive = _after(body, receive)
            await self._answer(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the application, whose paths begin with the root path (ASGI)."""
        scope["root_path"], scope["path"] = self._root, self._root + scope["path"]
        await self._app(scope, receive, send)

    def _check_head(self, scope: Scope, headers: Headers) -> None:
        """Refuse a request that its head alone shows to be invalid, before any of its body."""
        path = scope["path"]
        hosts = headers.getlist("host")
        host = hostname(hosts[0]) if len(hosts) == 1 else ""
        if not (host in self._hosts or "*" in self._hosts or path in PROBES):
            # A name that was made to point at this machine must not let a page in.
            raise ApiError(421, f"this server is not {host[:100]!r}", "allow.hosts lists its names")
        size = len(scope["query_string"]) + sum(len(k) + len(v) for k, v in scope["headers"])
        if size + len(path) > HEADER_BYTES:
            raise ApiError(431, f"the headers are larger than {HEADER_BYTES} bytes")
        identity = scope["identity"] = identify(self._auth, self._tokens, scope)
        if path not in PROBES:
            # A token that does not exist has no bucket of its own to hide in.
            client = identity.token if identity and identity.token else _address(scope)
            wait = self._rates.wait(client)
            if wait > 0:
                raise _too_much("too many requests", wait)
        if scope["method"] in SAFE:
            return
        if identity is None and path not in FORMS:
            raise no_token()
        origin = headers.get("origin")
        scheme = headers.get("x-forwarded-proto", scope["scheme"])
        # A name that the operator lists is this server's, also behind a proxy that rewrites Host.
        own = {f"{scheme}://{headers.get('host', '')}", *(f"https://{n}" for n in self._named)}
        foreign = origin and origin not in own
        if foreign or headers.get("sec-fetch-site") in ("cross-site", "same-site"):
            problem = f"Origin is {origin!r}, Host {headers.get('host', '')!r} over {scheme}"
            fix = (
                "a proxy must pass the Host header on (examples/deploy) and X-Forwarded-Proto, or "
            )
            fix += "list the NAME or NAME:PORT that browsers use over https in allow.hosts"
            raise ApiError(403, f"requests from other sites are refused: {problem}", fix)
        length = headers.get("content-length", "0")
        if not length.isdigit():
            raise ApiError(400, "content-length is not a number")
        if int(length) > (most := self._max_bytes(path)):
            raise _too_large(most)

    def _max_bytes(self, path: str) -> int:
        """The bytes that a request's body may have."""
        if path in FORMS:
            return FORM_BYTES
        return BODY_BYTES if path in ONLINE else EXPERIMENT_BYTES

    async def _body(self, scope: Scope, receive: Receive, fits: Callable[[int], bool]) -> bytes:
        """Read the whole body within the limits."""
        most = self._max_bytes(scope["path"])
        seconds = BODY_SECONDS if scope["identity"] else FORM_SECONDS
        body, more = bytearray(), True
        try:
            async with asyncio.timeout(seconds):
                while more:
                    message = await receive()
                    body += (chunk := message.get("body", b""))
                    more = message["type"] == "http.request" and message.get("more_body", False)
                    if len(body) > most:
                        raise _too_large(most)
                    if not fits(len(chunk)):
                        raise _too_much("too much is being sent at once", 5)
        except TimeoutError:
            raise ApiError(408, f"the body did not come within {seconds:g} s") from None
        # About the number of JSON values: what parsing and validating them costs.
        values = sum(body.count(mark) for mark in (b",", b"[", b"{"))
        if len(body) > EXPERIMENT_BYTES and values > BODY_VALUES:
            raise ApiError(413, "the body holds too many values", "send less")
        return bytes(body)

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", "") or "other"
        scope["app"].state.metrics.requests.labels(route, status).observe(seconds)
        who = scope["identity"].name if scope["identity"] else "-"
        extra = {"status": status, "seconds": round(seconds, 4), "route": route, "identity": who}
        path = _SIGNATURE.sub("-", scope["path"])[:LOGGED_CHARS]
        log.info("%s %s", scope["method"], path, extra={**extra, "client": _address(scope)})


def _address(scope: Scope) -> str:
    """The client's address; a proxy's own unless uvicorn trusts it (FORWARDED_ALLOW_IPS)."""
    try:
        return str(ipaddress.ip_address((scope.get("client") or ("",))[0]))
    except ValueError:
        return "unknown"


def _too_much(message: str, seconds: float) -> ApiError:
    return ApiError(429, message, f"wait {seconds:.0f} s", retry=seconds)


def _too_large(most: int) -> ApiError:
    return ApiError(413, f"the body is larger than {most} bytes", "send less")


def _after(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that yields a body that was read already first."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def first() -> Message:
        return messages.pop() if messages else await receive()

    return first
