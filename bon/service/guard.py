"""What stands before every route: hosts, origins, sizes, rates, request ids, headers, the log."""

import asyncio
import json
import logging
import re
import time
import uuid
from collections.abc import Callable
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bon.service.access import LOOPBACK, hostname
from bon.service.logs import request_id
from bon.service.metrics import Metrics
from bon.service.settings import Settings
from bon.service.shares import Held, Rates, Shares
from bon.service.tokens import Identity

log = logging.getLogger("bon.access")
BODY_SECONDS = 60.0
LOGGED_CHARS = 300
UNLIMITED = ("/healthz", "/readyz", "/metrics")
NAMELESS = ("/healthz", "/readyz")
"""Asked by probes, which know an address and no name."""
SAFE = ("GET", "HEAD", "OPTIONS")
FORMS = ("/login", "/logout")
"""The forms of the pages, which need no token: a session may have run out."""
FORM_BYTES = 4096
REWARDS = ("/get_reward", "/rerank", "/v1/rerank", "/v2/rerank", "/v1/score", "/classify")
"""What trainers call; those that can send no header have their token before it, /t/TOKEN/..."""
ONLINE = (*REWARDS, "/v1/rank", "/v1/best-of-n", "/v1/chat/completions")
"""What may bring images."""
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
        self._shares = Shares(settings.limits)
        self._hosts = {*LOOPBACK, settings.host.lower(), *settings.allow.hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        _take_token(scope)
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

        held: Held | None = None
        self._metrics.open_requests.inc()
        try:
            refusal = self._refused(scope, headers)
            if refusal is not None:
                await _send(answer, *refusal)
            elif scope["path"] in UNLIMITED:
                await self._app(scope, receive, answer)
            elif (held := self._shares.open(_who(scope))) is None:
                await _send(answer, *self._rejected("open", "too many requests are open", 5))
            elif scope["method"] in SAFE:
                await self._app(scope, receive, answer)
            elif isinstance(body := await self._body(scope, receive, held), bytes):
                await self._app(scope, _replay(body, receive), answer)
            else:
                await _send(answer, *body)
        except Exception:
            log.exception("unhandled")
            if status == 500:
                await _send(answer, *_refusal(500, "something went wrong here", ""))
        finally:
            if held is not None:
                self._shares.close(held)
            self._metrics.open_requests.dec()
            self._write_down(scope, status, time.perf_counter() - started)
            request_id.reset(token)

    def _refused(self, scope: Scope, headers: Headers) -> "_Refusal | None":
        """What is wrong with a request, as far as its head tells."""
        path, limits = scope["path"], self._settings.limits
        hosts = headers.getlist("host")
        host = hostname(hosts[0]) if len(hosts) == 1 else ""
        if not (host in self._hosts or "*" in self._hosts or path in NAMELESS):
            # A name that was made to point at this machine must not let a page in.
            return _refusal(
                421, f"this server is not {host[:100]!r}", "allow.hosts lists its names"
            )
        size = len(scope["query_string"]) + sum(len(k) + len(v) for k, v in scope["headers"])
        if size + len(path) > limits.header_bytes:
            return _refusal(431, f"the headers are larger than {limits.header_bytes} bytes", "")
        identity = self._identify(headers)
        scope["identity"] = identity
        if path not in UNLIMITED:
            # A token that does not exist has no bucket of its own to hide in.
            address = str((scope.get("client") or ("unknown",))[0])
            wait = self._rates.wait(identity.token if identity and identity.token else address)
            if wait > 0:
                return self._rejected("rate", "too many requests", wait)
        return None if scope["method"] in SAFE else self._refused_change(scope, headers, identity)

    def _refused_change(
        self, scope: Scope, headers: Headers, identity: Identity | None
    ) -> "_Refusal | None":
        """What is wrong with a request that has a body, before any of it is read."""
        if identity is None and scope["path"] not in FORMS:
            return _refusal(401, *NO_TOKEN)
        origin = headers.get("origin")
        foreign = origin and origin.partition("://")[2] != headers.get("host", "")
        if foreign or headers.get("sec-fetch-site") in ("cross-site", "same-site"):
            return _refusal(403, "requests from other sites are refused", "")
        length = headers.get("content-length", "0")
        if not length.isdigit():
            return _refusal(400, "content-length is not a number", "")
        most = self._most(scope)
        return _too_large(most) if int(length) > most else None

    def _most(self, scope: Scope) -> int:
        """Bytes that the body of a request may have."""
        limits = self._settings.limits
        if scope["path"] in FORMS:
            return FORM_BYTES
        return limits.body_bytes if scope["path"] in ONLINE else limits.experiment_bytes

    async def _body(self, scope: Scope, receive: Receive, held: Held) -> "bytes | _Refusal":
        """The whole body, or why not."""
        limits, most = self._settings.limits, self._most(scope)
        seconds = BODY_SECONDS if held.who else limits.head_seconds
        parts: list[bytes] = []
        more = True
        try:
            async with asyncio.timeout(seconds):
                while more:
                    message = await receive()
                    parts.append(message.get("body", b""))
                    more = message["type"] == "http.request" and message.get("more_body", False)
                    room = self._shares.add(held, len(parts[-1]))
                    if held.size > most:
                        return _too_large(most)
                    if not room:
                        return self._rejected("bytes", "too much is being sent at once", 5)
        except TimeoutError:
            return _refusal(408, f"the body did not come within {seconds:g} s", "")
        body = b"".join(parts)
        if len(body) > limits.experiment_bytes and _values(body) > limits.body_values:
            return _refusal(413, "the body holds too many values", "send less")
        return body

    def _rejected(self, reason: str, message: str, seconds: float) -> "_Refusal":
        """Refuse what there is no room for now."""
        self._metrics.rejected.labels(reason).inc()
        return _refusal(429, message, f"wait {seconds:.0f} s", retry=seconds)

    def _write_down(self, scope: Scope, status: int, seconds: float) -> None:
        # The template of the route, never the path: its labels must stay few.
        route = getattr(scope.get("route"), "path", "") or "other"
        self._metrics.requests.labels(scope["method"], route, str(status)).inc()
        self._metrics.request_seconds.labels(route).observe(seconds)
        log.info(
            "%s %s", scope["method"], scope["path"][:LOGGED_CHARS],
            extra={"status": status, "seconds": round(seconds, 4), "route": route},
        )  # fmt: skip


def _who(scope: Scope) -> str:
    identity: Identity | None = scope["identity"]
    return identity.name if identity else ""


def _take_token(scope: Scope) -> None:
    """Move a token in the path to the headers, before anything can write the path down."""
    _, mark, token, rest = (*scope["path"].split("/", 3), "", "", "")[:4]
    if mark == "t" and f"/{rest}" in REWARDS:
        scope["path"], scope["raw_path"] = f"/{rest}", f"/{rest}".encode()
        kept = [(key, value) for key, value in scope["headers"] if key != b"authorization"]
        scope["headers"] = [*kept, (b"authorization", f"Bearer {token}".encode())]


_Refusal = tuple[int, dict[str, Any], float]


def error_body(message: str, fix: str = "", kind: str = "invalid_request_error") -> dict[str, Any]:
    """The one form of errors here; it is also the OpenAI form, with the fix beside it."""
    found: dict[str, Any] = {"message": message, "type": kind, "param": None, "code": None}
    return {"error": {**found, "fix": fix, "request_id": request_id.get()}}


NO_TOKEN = ("a token is needed", "send `Authorization: Bearer TOKEN` (bon token add)")


def _too_large(most: int) -> _Refusal:
    return _refusal(413, f"the body is larger than {most} bytes", "send less")


def _values(body: bytes) -> int:
    """About how many values are in a JSON body: what parsing and checking it costs."""
    return sum(body.count(mark) for mark in (b",", b"[", b"{"))


def _refusal(status: int, message: str, fix: str, retry: float = 0.0) -> _Refusal:
    return status, error_body(message, fix), retry


async def _send(send: Send, status: int, body: dict[str, Any], retry: float) -> None:
    data = json.dumps(body).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(data))]
    if retry:
        headers.append((b"retry-after", b"%d" % max(1, round(retry))))
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if status in (401, 403, 408, 413, 429, 431):
        headers.append((b"connection", b"close"))  # what is still being sent is not read
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
    # Under `no-referrer` browsers send `Origin: null` with the pages' own forms, too.
    headers.setdefault("referrer-policy", "same-origin")
    headers.setdefault("cache-control", "no-store")
    headers.setdefault("cross-origin-opener-policy", "same-origin")
    headers.setdefault("cross-origin-resource-policy", "same-origin")
    headers.setdefault("content-security-policy", "default-src 'none'; frame-ancestors 'none'")
