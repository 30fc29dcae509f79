"""What stands before every route: hosts, origins, sizes, rates, request ids, headers, the log."""

import asyncio
import json
import logging
import re
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bon.service.logs import request_id
from bon.service.metrics import Metrics
from bon.service.settings import Settings
from bon.service.tokens import Identity

log = logging.getLogger("bon.access")
LOOPBACK = ("localhost", "127.0.0.1", "::1")
BODY_SECONDS = 60.0
UNLIMITED = ("/healthz", "/readyz", "/metrics")
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")

# The pages load their own script, style and pictures and nothing else, from nowhere else.
PAGE_CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
    "manifest-src 'none'"
)


class Guard:
    """ASGI middleware around the whole application."""

    def __init__(
        self,
        app: ASGIApp,
        settings: Settings,
        metrics: Metrics,
        identify: Callable[[Headers], Identity | None],
    ) -> None:
        self._app = app
        self._settings = settings
        self._metrics = metrics
        self._identify = identify
        self._rates = Rates(settings.limits.requests_per_minute)
        self._hosts = {*LOOPBACK, settings.host.lower(), *settings.allow.hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        given = headers.get("x-request-id", "")
        name = given if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex[:16]
        token = request_id.set(name)
        started = time.perf_counter()
        status = 500

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                _finish_headers(MutableHeaders(scope=message), name)
            await send(message)

        self._metrics.open_requests.inc()
        try:
            refusal = self._refused(scope, headers)
            body: bytes | None = b""
            if refusal is None and scope["method"] not in ("GET", "HEAD", "OPTIONS"):
                body = await self._body(receive)
                if body is None:
                    most = self._settings.limits.body_bytes
                    refusal = _refusal(413, f"the body is larger than {most} bytes", "send less")
            if refusal is not None:
                await _send(answer, *refusal)
            else:
                await self._app(scope, _replay(body or b"", receive), answer)
        except Exception:
            log.exception("unhandled")
            if status == 500:
                await _send(answer, *_refusal(500, "something went wrong here", ""))
        finally:
            self._metrics.open_requests.dec()
            self._write_down(scope, status, time.perf_counter() - started)
            request_id.reset(token)

    def _refused(self, scope: Scope, headers: Headers) -> "_Refusal | None":
        host = _hostname(headers.get("host", ""))
        known = host in self._hosts or "*" in self._hosts or scope["path"] in UNLIMITED
        if not known:
            # A name that was made to point at this machine must not let a page in.
            return _refusal(
                421, f"this server is not {host[:100]!r}", "allow.hosts lists its names"
            )
        origin = headers.get("origin")
        foreign = origin and origin.partition("://")[2] != headers.get("host", "")
        if foreign and scope["method"] not in ("GET", "HEAD", "OPTIONS"):
            return _refusal(403, "requests from other sites are refused", "")
        length = headers.get("content-length", "0")
        if not length.isdigit():
            return _refusal(400, "content-length is no number", "")
        if int(length) > self._settings.limits.body_bytes:
            most = self._settings.limits.body_bytes
            return _refusal(413, f"the body is larger than {most} bytes", "send less")
        identity = self._identify(headers)
        scope["identity"] = identity
        if scope["path"] not in UNLIMITED:
            # A token that does not exist has no bucket of its own to hide in.
            address = str((scope.get("client") or ("unknown",))[0])
            wait = self._rates.wait(identity.token if identity and identity.token else address)
            if wait > 0:
                self._metrics.rejected.labels("rate").inc()
                return _refusal(429, "too many requests", f"wait {wait:.0f} s", retry=wait)
        return None

    async def _body(self, receive: Receive) -> bytes | None:
        """The whole body; None where it is too large or never comes."""
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(BODY_SECONDS):
                while True:
                    message = await receive()
                    part = message.get("body", b"")
                    size += len(part)
                    if size > self._settings.limits.body_bytes:
                        return None
                    parts.append(part)
                    if message["type"] != "http.request" or not message.get("more_body"):
                        return b"".join(parts)
        except TimeoutError:
            return None

    def _write_down(self, scope: Scope, status: int, seconds: float) -> None:
        # The template of the route, never the path: its labels must stay few.
        route = getattr(scope.get("route"), "path", "") or "other"
        self._metrics.requests.labels(scope["method"], route, str(status)).inc()
        self._metrics.request_seconds.labels(route).observe(seconds)
        log.info(
            "%s %s", scope["method"], scope["path"],
            extra={"status": status, "seconds": round(seconds, 4), "route": route},
        )  # fmt: skip


_Refusal = tuple[int, dict[str, Any], float]


class Rates:
    """A bucket for each client that refills by the minute; the oldest are forgotten."""

    def __init__(self, per_minute: int, most: int = 10_000) -> None:
        self._rate = per_minute / 60
        self._size = max(1.0, per_minute / 6)
        self._most = most
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, client: str) -> float:
        """0 where the request may go on, else seconds until it might."""
        if self._rate == 0:
            return 0.0
        now = time.monotonic()
        level, then = self._buckets.pop(client, (self._size, now))
        level = min(self._size, level + (now - then) * self._rate)
        allowed = level >= 1
        self._buckets[client] = (level - 1 if allowed else level, now)
        while len(self._buckets) > self._most:
            self._buckets.popitem(last=False)
        return 0.0 if allowed else max(1.0, (1 - level) / self._rate)


def error_body(message: str, fix: str = "", kind: str = "invalid_request_error") -> dict[str, Any]:
    """The one form of errors here; it is also the OpenAI form, with the fix beside it."""
    found: dict[str, Any] = {"message": message, "type": kind, "param": None, "code": None}
    return {"error": {**found, "fix": fix, "request_id": request_id.get()}}


def _refusal(status: int, message: str, fix: str, retry: float = 0.0) -> _Refusal:
    return status, error_body(message, fix), retry


async def _send(send: Send, status: int, body: dict[str, Any], retry: float) -> None:
    data = json.dumps(body).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(data))]
    if retry:
        headers.append((b"retry-after", b"%d" % max(1, round(retry))))
    if status == 413:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": data})


def _replay(body: bytes, receive: Receive) -> Receive:
    sent = False

    async def again() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _finish_headers(headers: MutableHeaders, name: str) -> None:
    headers["x-request-id"] = name
    headers.setdefault("x-content-type-options", "nosniff")
    headers.setdefault("x-frame-options", "DENY")
    headers.setdefault("referrer-policy", "no-referrer")
    headers.setdefault("cache-control", "no-store")
    headers.setdefault("cross-origin-opener-policy", "same-origin")
    headers.setdefault("cross-origin-resource-policy", "same-origin")
    headers.setdefault("content-security-policy", "default-src 'none'; frame-ancestors 'none'")


def _hostname(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()
