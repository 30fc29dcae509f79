"""Who asks: a bearer token, a session of the pages, or anyone, where no tokens are wanted."""

import re
from collections.abc import Callable

from starlette.datastructures import Headers

from bon.core.errors import BonError
from bon.service.settings import Settings
from bon.service.tokens import COOKIE, LOCAL, Identity, Tokens

LOOPBACK = ("localhost", "127.0.0.1", "::1")
FIRST = "admin"
"""The name of the token that a new server makes for itself."""

# A proxy hands on what others sent it: behind one, nobody is local.
_FORWARDED = re.compile(
    r"forwarded|via|x-(?:original-)?forwarded(?:-.*)?|x-envoy-.*|cf-.*|.*client-?ip|.*real-ip"
)
_HOST = re.compile(r"(?:\[([0-9a-fA-F:.]+)\]|([\w.-]+))(?::\d{1,5})?", re.ASCII)


def identify(settings: Settings, tokens: Tokens) -> Callable[[Headers], Identity | None]:
    """Headers -> who asks; None for nobody known."""

    def found(headers: Headers) -> Identity | None:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        identity = None
        if scheme.lower() == "bearer" and token:
            identity = tokens.check(token.strip())
        elif cookie := cookie_of(headers):
            identity = tokens.check_session(cookie)
        if identity is None and not settings.auth and _is_local(headers):
            return LOCAL  # whatever key was sent: OpenAI's clients always send one
        return identity

    return found


def check_access(settings: Settings, tokens: Tokens) -> None:
    """Only who has a token may ask, except on loopback with `auth: false`.

    Raises:
        BonError: there is no token, or none is wanted where others can reach the server.
    """
    if not settings.auth and settings.host not in LOOPBACK:
        raise BonError(
            f"{settings.host} can be reached from other machines, which would need no token",
            "leave out --no-auth (`auth: false`), or listen on 127.0.0.1",
        )
    if settings.auth and not tokens.any():
        raise BonError(
            f"nobody could use the server on {settings.host}: it has no token",
            f"bon token add NAME --role admin --data {settings.data}",
        )


def first_token(settings: Settings, tokens: Tokens) -> str | None:
    """A token for the operator of a new server on loopback; None where there is one, or need."""
    if not settings.auth or settings.host not in LOOPBACK or tokens.any():
        return None
    return tokens.add(FIRST, "admin")


def hostname(host: str) -> str:
    """The name in a Host header, without its port; empty where it is not a name and a port."""
    found = _HOST.fullmatch(host)
    return "" if found is None else (found[1] or found[2]).lower()


def cookie_of(headers: Headers) -> str:
    """The session cookie; empty where there is none."""
    for part in headers.get("cookie", "").split(";"):
        key, _, value = part.strip().partition("=")
        if key == COOKIE:
            return value
    return ""


def _is_local(headers: Headers) -> bool:
    named = hostname(headers.get("host", "")) in LOOPBACK
    return named and not any(map(_FORWARDED.fullmatch, headers))
