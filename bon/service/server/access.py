"""Authentication: bearer tokens with roles, and browser sessions, hashed at rest.

A token is `bon_ID_SECRET`; its secret has 256 random bits, so a plain SHA-256 cannot be reversed
and the time of a comparison reveals nothing.
"""

import hashlib
import hmac
import re
import secrets
import time
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.types import Scope

from bon.core.errors import BonError
from bon.service.settings import ROLES, Role, Settings
from bon.service.validations.jobs import Jobs

_INCLUDED: dict[Role, tuple[Role, ...]] = {
    # Annotators must not see which model wrote what, and readers write no labels.
    "annotate": ("annotate",),
    "read": ("read",),
    "submit": ("annotate", "read", "submit"),
    "admin": ROLES,
}
SESSION_SECONDS = 12 * 3600
LOOPBACK = ("localhost", "127.0.0.1", "::1")
FIRST = "admin"
"""The name of the token that a new server creates for itself."""

# A proxy forwards the requests of others: behind one, no request is local.
_FORWARDED = re.compile(
    r"forwarded|via|x-(?:original-)?forwarded(?:-.*)?|x-envoy-.*|cf-.*|.*client-?ip|.*real-ip"
)
_HOST = re.compile(r"(?:\[([0-9a-fA-F:.]+)\]|([\w.-]+))(?::\d{1,5})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Identity:
    """Who sent a request; `token` is empty for the local user of a server without tokens."""

    name: str
    role: Role
    token: str = ""

    def may(self, role: Role) -> bool:
        """Whether the identity's role includes this one."""
        return role in _INCLUDED[self.role]


LOCAL = Identity("local", "admin")


class Tokens:
    """The tokens of one server."""

    def __init__(self, jobs: Jobs, secret: bytes) -> None:
        self.jobs = jobs
        self._secret = secret

    def add(self, name: str, role: str, expires: float | None = None, by: str = "bon serve") -> str:
        """Create a token, which only this call returns; `expires` is in seconds since the epoch."""
        if role not in ROLES:
            raise BonError(f"no role {role!r}", f"use one of {', '.join(ROLES)}")
        if not 1 <= len(name) <= 100 or not name.isprintable():
            fix = "1 to 100 printable characters"
            raise BonError(f"{name!r} is not a valid name for a token", fix)
        key, secret = secrets.token_hex(4), secrets.token_urlsafe(32)
        with self.jobs.write():
            if self.jobs.rows("SELECT 1 FROM tokens WHERE name = ?", name):
                raise BonError(f"there is a token named {name!r}", "revoke it, or choose another")
            row = (key, name, role, _digest(secret), time.time(), expires)
            self.jobs.rows("INSERT INTO tokens VALUES (?, ?, ?, ?, ?, ?)", *row)
            self.jobs.audit(by, "", "add token", f"{name} ({role})")
        return f"bon_{key}_{secret}"

    def listed(self) -> list[tuple[str, str, float, float | None]]:
        """Return (name, role, created, expires) of every token, oldest first."""
        return self.jobs.rows("SELECT name, role, created, expires FROM tokens ORDER BY created")

    def revoke(self, name: str, by: str = "bon serve") -> None:
        """Delete a token and every session opened with it."""
        with self.jobs.write():
            deleted = self.jobs.rows("DELETE FROM tokens WHERE name = ? RETURNING id", name)
            if not deleted:
                raise BonError(f"no token named {name!r}", "bon token list")
            self.jobs.rows("DELETE FROM sessions WHERE token = ?", *deleted[0])
            self.jobs.audit(by, "", "revoke token", name)

    def any(self) -> bool:
        """Whether the server has a token that has not expired."""
        query = "SELECT 1 FROM tokens WHERE expires IS NULL OR expires > ?"
        return bool(self.jobs.rows(query, time.time()))

    def check(self, token: str) -> Identity | None:
        """Return the identity of a token that exists and has not expired."""
        head, _, rest = token.partition("_")
        key, _, secret = rest.partition("_")
        where = "id = ? AND (expires IS NULL OR expires > ?)"
        query = f"SELECT name, role, digest FROM tokens WHERE {where}"
        rows = self.jobs.rows(query, key, time.time())
        row: Any = rows[0] if rows else ("", "", _digest(""))
        valid = hmac.compare_digest(_digest(secret), row[2])
        return Identity(row[0], row[1], key) if head == "bon" and rows and valid else None

    def session(self, identity: Identity, uid: str = "") -> str:
        """Return a cookie that stands for the identity's token until it expires or is ended.

        It is bound to the `client_uid`: browsers send the cookies of 127.0.0.1 to every port there,
        also to the server of another user.
        """
        cookie, now = secrets.token_urlsafe(32), time.time()
        self.jobs.rows("DELETE FROM sessions WHERE until < ?", now)
        row = (_digest(cookie + uid), identity.token, now + SESSION_SECONDS)
        self.jobs.rows("INSERT INTO sessions VALUES (?, ?, ?)", *row)
        return cookie

    def check_session(self, cookie: str, uid: str = "") -> Identity | None:
        """Return the identity of a user's session that has not ended, if its token is valid."""
        query = (
            "SELECT tokens.name, tokens.role, tokens.id FROM sessions "
            "JOIN tokens ON tokens.id = sessions.token "
            "WHERE sessions.digest = ? AND until >= ?2 AND (expires IS NULL OR expires > ?2)"
        )
        rows = self.jobs.rows(query, _digest(cookie + uid), time.time())
        return Identity(*rows[0]) if rows else None

    def end_session(self, cookie: str, uid: str = "") -> None:
        """Invalidate a cookie and every copy of it."""
        self.jobs.rows("DELETE FROM sessions WHERE digest = ?", _digest(cookie + uid))

    def valid(self, token: str) -> bool:
        """Whether a token, named by its id, exists and has not expired."""
        query = "SELECT 1 FROM tokens WHERE id = ? AND (expires IS NULL OR expires > ?)"
        return bool(self.jobs.rows(query, token, time.time()))

    def sign(self, purpose: str, text: str) -> str:
        """Return a signature that only this server can make."""
        return hmac.new(self._secret, f"{purpose}:{text}".encode(), "sha256").hexdigest()


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


# ------------------------------------------------------------------ requests


def identify(auth: bool, tokens: Tokens, scope: Scope) -> Identity | None:
    """Return the identity of a request; None for an unknown one. `auth`: tokens are required."""
    headers = Headers(scope=scope)
    sent = headers.getlist("authorization")
    if len(sent) > 1:  # a proxy and this server might read different ones
        return None
    scheme, _, token = "".join(sent).partition(" ")
    identity = None
    if scheme.lower() == "bearer" and token:
        identity = tokens.check(token.strip())
    elif cookie := session_cookie(scope):
        identity = tokens.check_session(cookie, client_uid(scope))
    if identity is None and not auth:
        loopback = hostname(headers.get("host", "")) in LOOPBACK
        if loopback and not any(map(_FORWARDED.fullmatch, headers)):
            return LOCAL  # whatever key was sent: OpenAI's clients always send one
    return identity


def check_access(settings: Settings, tokens: Tokens) -> None:
    """Require tokens, except on loopback with `auth: false`."""
    if not settings.auth and settings.host not in LOOPBACK:
        problem = f"{settings.host} can be reached from other machines, which would need no token"
        raise BonError(problem, "leave out --no-auth (`auth: false`), or listen on 127.0.0.1")
    if settings.auth and settings.host not in LOOPBACK and not tokens.any():
        fix = f"bon token add NAME --role admin --data {settings.data}"
        raise BonError(f"nobody could use the server on {settings.host}: it has no token", fix)


def first_token(settings: Settings, tokens: Tokens) -> str | None:
    """Create the operator's token for a new server on loopback; None if it needs or has one."""
    if not settings.auth or settings.host not in LOOPBACK or tokens.any():
        return None
    return tokens.add(FIRST, "admin")


def hostname(host: str) -> str:
    """Return the name in a Host header without its port; "" if the header is malformed."""
    match = _HOST.fullmatch(host)
    return "" if match is None else (match[1] or match[2]).lower()


def cookie_name(scope: Scope) -> str:
    """Return the session cookie's name, with the port: a host's cookies are those of all ports."""
    return f"bon_session_{(scope.get('server') or ('', ''))[1]}"


def session_cookie(scope: Scope) -> str:
    """Return the session cookie; "" without one."""
    return cookie_parser(Headers(scope=scope).get("cookie", "")).get(cookie_name(scope), "")


def client_uid(scope: Scope) -> str:
    """Return the user at the other end of a loopback connection, by Linux; "" for all others."""
    ends = [scope.get("client"), scope.get("server")]
    try:
        (ip, _), _ = pairs = [(ip_address(host), port) for host, port in filter(None, ends)]
        table = Path("/proc/net/tcp6" if ip.version == 6 else "/proc/net/tcp")
        rows = table.read_text(encoding="ascii").splitlines() if ip.is_loopback else []
    except (ValueError, OSError):
        return ""
    wanted = [f"{_hex(ip.packed)}:{port:04X}" for ip, port in pairs]
    return next((row.split()[7] for row in rows if row.split()[1:3] == wanted), "")


def _hex(packed: bytes) -> str:
    words = (packed[i : i + 4][::-1] for i in range(0, len(packed), 4))
    return b"".join(words).hex().upper()
