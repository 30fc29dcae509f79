"""Bearer tokens with roles, and the sessions that pages open with them; hashed at rest.

A token is `bon_ID_SECRET`; the secret has 256 random bits, so a plain SHA-256 of it cannot be
guessed back, and nothing is learned from how long a wrong one takes.
"""

import hashlib
import hmac
import secrets
import time
from dataclasses import dataclass
from typing import Literal, get_args

from bon.core.errors import BonError
from bon.service.jobs import Jobs

Role = Literal["annotate", "read", "submit", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)
_INCLUDED: dict[Role, tuple[Role, ...]] = {
    # Who labels must not see which model wrote what, and who only reads writes no labels.
    "annotate": ("annotate",),
    "read": ("read",),
    "submit": ("annotate", "read", "submit"),
    "admin": ROLES,
}
SESSION_SECONDS = 12 * 3600
COOKIE = "bon_session"


@dataclass(frozen=True, slots=True)
class Identity:
    """Who asks. `token` is empty for the local user of a server that wants no tokens."""

    name: str
    role: Role
    token: str = ""

    def may(self, role: Role) -> bool:
        """Whether this role is among what the identity may do."""
        return role in _INCLUDED[self.role]


LOCAL = Identity("local", "admin")


class Tokens:
    """The tokens of one server."""

    def __init__(self, jobs: Jobs, secret: bytes) -> None:
        self.jobs = jobs
        self._secret = secret

    def add(self, name: str, role: str) -> str:
        """A new token; this is the only time it is shown."""
        if role not in ROLES:
            raise BonError(f"no role {role!r}", f"use one of {', '.join(ROLES)}")
        if not 1 <= len(name) <= 100 or not name.isprintable():
            raise BonError(
                f"{name!r} is not a valid name for a token", "1 to 100 printable characters"
            )
        key, secret = secrets.token_hex(4), secrets.token_urlsafe(32)
        with self.jobs.write() as db:
            if db.execute("SELECT 1 FROM tokens WHERE name = ?", (name,)).fetchone():
                raise BonError(f"there is a token named {name!r}", "revoke it, or choose another")
            db.execute(
                "INSERT INTO tokens VALUES (?, ?, ?, ?, ?)",
                (key, name, role, _digest(secret), time.time()),
            )
        return f"bon_{key}_{secret}"

    def listed(self) -> list[tuple[str, str, float]]:
        """(name, role, created) of each, oldest first."""
        with self.jobs.write() as db:
            return db.execute("SELECT name, role, created FROM tokens ORDER BY created").fetchall()

    def revoke(self, name: str) -> None:
        """Make a token useless, and every page session that was opened with it."""
        with self.jobs.write() as db:
            row = db.execute("DELETE FROM tokens WHERE name = ? RETURNING id", (name,)).fetchone()
            if row is None:
                raise BonError(f"no token named {name!r}", "bon token list")
            db.execute("DELETE FROM sessions WHERE token = ?", row)

    def any(self) -> bool:
        """Whether there is one."""
        with self.jobs.write() as db:
            return db.execute("SELECT 1 FROM tokens LIMIT 1").fetchone() is not None

    def check(self, token: str) -> Identity | None:
        """Whose token this is."""
        head, _, rest = token.partition("_")
        key, _, secret = rest.partition("_")
        row = self._row(key)
        expected = row[2] if row else _digest("")
        right = hmac.compare_digest(_digest(secret), expected)
        if head != "bon" or row is None or not right:
            return None
        return Identity(row[0], row[1], key)

    # -- sessions of the pages -----------------------------------------------------------

    def session(self, identity: Identity) -> str:
        """A cookie that stands for a token until it runs out or is ended."""
        cookie, now = secrets.token_urlsafe(32), time.time()
        with self.jobs.write() as db:
            db.execute("DELETE FROM sessions WHERE until < ?", (now,))
            db.execute(
                "INSERT INTO sessions VALUES (?, ?, ?)",
                (_digest(cookie), identity.token, now + SESSION_SECONDS),
            )
        return cookie

    def check_session(self, cookie: str) -> Identity | None:
        """Whose session this is, if it has not ended and its token still exists."""
        with self.jobs.write() as db:
            row = db.execute(
                "SELECT tokens.name, tokens.role, tokens.id FROM sessions "
                "JOIN tokens ON tokens.id = sessions.token "
                "WHERE sessions.digest = ? AND until >= ?",
                (_digest(cookie), time.time()),
            ).fetchone()
        return None if row is None else Identity(*row)

    def end_session(self, cookie: str) -> None:
        """Nobody can use the cookie any more, whoever has a copy of it."""
        with self.jobs.write() as db:
            db.execute("DELETE FROM sessions WHERE digest = ?", (_digest(cookie),))

    def sign(self, purpose: str, text: str) -> str:
        """A signature that only this server can make."""
        return hmac.new(self._secret, f"{purpose}:{text}".encode(), "sha256").hexdigest()

    def _row(self, key: str) -> tuple[str, Role, str] | None:
        with self.jobs.write() as db:
            found = db.execute("SELECT name, role, digest FROM tokens WHERE id = ?", (key,))
            row: tuple[str, Role, str] | None = found.fetchone()
        return row


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()
