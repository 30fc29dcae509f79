"""Sign-in with OpenID Connect: authorization code flow with PKCE, state and nonce."""

import hmac
import json
import re
import secrets
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bon.core.errors import BonError
from bon.service.errors import ApiError
from bon.service.settings import ROLES, Oidc, Role

ATTEMPT_SECONDS = 600
"""From the redirect to the provider to the return of the browser."""
LEEWAY_SECONDS = 30
TIMEOUT_SECONDS = 10
_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
_EMAIL = re.compile(r"[^\s@]{1,100}@[^\s@]{1,100}")
_RETRY = "sign in again"


@dataclass(frozen=True, slots=True)
class Attempt:
    """A sign-in that has begun; the browser keeps it in a signed cookie."""

    state: str
    nonce: str
    verifier: str
    redirect_uri: str
    target: str
    until: float

    @classmethod
    def begin(cls, redirect_uri: str, target: str) -> "Attempt":
        """Return a new attempt with random state, nonce and code verifier."""
        state, nonce, verifier = (secrets.token_urlsafe(48) for _ in range(3))
        until = time.time() + ATTEMPT_SECONDS
        return cls(state, nonce, verifier, redirect_uri, target, until)


class Provider:
    """The identity provider of the settings."""

    def __init__(self, settings: Oidc, base: Path) -> None:
        try:
            import authlib.integrations.httpx_client
            import authlib.oidc.core  # noqa: F401
            import joserfc.jwt  # noqa: F401
        except ModuleNotFoundError as error:
            raise BonError(
                f"the setting oidc needs the package {str(error.name).partition('.')[0]!r}",
                "pip install 'bon[oidc]'",
            ) from None
        path = base / settings.client_secret_file
        try:
            self._secret = path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise BonError(
                f"oidc.client_secret_file cannot be read: {error}", "a file with the secret alone"
            ) from None
        if not self._secret:
            raise BonError("oidc.client_secret_file is empty", "a file with the secret alone")
        self._settings = settings

    def address(self, attempt: Attempt) -> str:
        """Return the provider's page to which the browser is sent."""
        with self._client() as client:
            endpoint = self._discover(client)["authorization_endpoint"]
            url, _ = client.create_authorization_url(
                endpoint,
                state=attempt.state,
                nonce=attempt.nonce,
                code_verifier=attempt.verifier,
                redirect_uri=attempt.redirect_uri,
            )
        return str(url)

    def identify(self, attempt: Attempt, returned: dict[str, str]) -> tuple[str, Role]:
        """Return the verified e-mail address and its role from what the browser brought back.

        Raises:
            ApiError: 403 for anyone who is not let in, 502 if the provider does not answer.
        """
        if not hmac.compare_digest(returned.get("state", "").encode(), attempt.state.encode()):
            raise _refused("the state is that of another sign-in")
        if attempt.until < time.time():
            raise _refused("it took longer than ten minutes")
        if returned.get("iss", self._settings.issuer) != self._settings.issuer:
            raise _refused("the answer is that of another provider")
        if "error" in returned or not returned.get("code"):
            raise _refused("the provider refused it")
        return self._role(self._claims(attempt, returned["code"]))

    def _client(self) -> Any:
        from authlib.integrations.httpx_client import OAuth2Client

        return OAuth2Client(
            self._settings.client_id,
            self._secret,
            scope=" ".join(self._settings.scopes),
            code_challenge_method="S256",
            timeout=TIMEOUT_SECONDS,
        )

    def _discover(self, client: Any) -> dict[str, Any]:
        """Return the provider's metadata."""
        issuer = self._settings.issuer
        url = f"{issuer.rstrip('/')}/.well-known/openid-configuration"
        metadata = _fetch(client, url)
        needed = ("authorization_endpoint", "token_endpoint", "jwks_uri")
        if metadata.get("issuer") != issuer or any(key not in metadata for key in needed):
            raise ApiError(502, f"{url} does not describe the issuer {issuer}", "check oidc.issuer")
        return metadata

    def _claims(self, attempt: Attempt, code: str) -> dict[str, Any]:
        """Exchange the code and return the claims of the verified id token."""
        from authlib.integrations.base_client import OAuthError
        from authlib.integrations.httpx_client.oauth2_client import httpx2
        from authlib.oidc.core import CodeIDToken
        from joserfc import jwt
        from joserfc.errors import JoseError
        from joserfc.jwk import KeySet

        issuer, client_id = self._settings.issuer, self._settings.client_id
        with self._client() as client:
            metadata = self._discover(client)
            methods = metadata.get("token_endpoint_auth_methods_supported")
            basic = not methods or "client_secret_basic" in methods
            client.token_endpoint_auth_method = f"client_secret_{'basic' if basic else 'post'}"
            try:
                token = client.fetch_token(
                    metadata["token_endpoint"],
                    grant_type="authorization_code",
                    code=code,
                    redirect_uri=attempt.redirect_uri,
                    code_verifier=attempt.verifier,
                )
            except (OAuthError, ValueError):
                raise _refused("the provider does not accept the code") from None
            except httpx2.HTTPError:
                raise _unreachable(metadata["token_endpoint"]) from None
            keys = _fetch(client, metadata["jwks_uri"]).get("keys", [])
        usable = [
            key for key in keys if key.get("kty") in ("RSA", "EC") and key.get("use") != "enc"
        ]
        try:
            signed = jwt.decode(
                token.get("id_token") or "",
                KeySet.import_key_set({"keys": usable}),
                algorithms=list(_ALGORITHMS),
            )
            claims = CodeIDToken(
                signed.claims,
                signed.header,
                options={
                    "iss": {"essential": True, "value": issuer},
                    "aud": {"essential": True, "value": client_id},
                },
                params={
                    "nonce": attempt.nonce,
                    "client_id": client_id,
                    "access_token": token.get("access_token"),
                },
            )
            claims.validate(leeway=LEEWAY_SECONDS)
        except (JoseError, ValueError) as error:
            reason = str(error) if isinstance(error, JoseError) else "it cannot be read"
            raise _refused(f"the id token is not valid ({reason})") from None
        return dict(claims)

    def _role(self, claims: dict[str, Any]) -> tuple[str, Role]:
        """Return the e-mail address and the highest role of what the settings list."""
        email, groups = claims.get("email"), claims.get("groups")
        if claims.get("email_verified") is not True:
            raise _refused("the provider has not verified the e-mail address (email_verified)")
        if not isinstance(email, str) or not _EMAIL.fullmatch(email) or not email.isprintable():
            raise _refused("the id token has no valid e-mail address")
        email = email.lower()
        groups = groups if isinstance(groups, list) else []
        names = {name for name in groups if isinstance(name, str) and "@" not in name}
        listed = self._settings.roles.items()
        roles = [role for name, role in listed if name in names or name.lower() == email]
        if not roles:
            raise _refused(f"{email} is not listed", "the operator can add it to oidc.roles")
        return email, max(roles, key=ROLES.index)


def write_attempt(attempt: Attempt) -> str:
    """Return an attempt as text."""
    return json.dumps(asdict(attempt))


def read_attempt(text: str) -> Attempt:
    """Return the attempt that `write_attempt` wrote."""
    return Attempt(**json.loads(text))


def _fetch(client: Any, url: str) -> dict[str, Any]:
    from authlib.integrations.httpx_client.oauth2_client import httpx2

    try:
        reply = client.request("GET", url, withhold_token=True).raise_for_status().json()
    except (httpx2.HTTPError, ValueError):
        raise _unreachable(url) from None
    return reply if isinstance(reply, dict) else {}


def _unreachable(url: str) -> ApiError:
    return ApiError(502, f"the identity provider does not answer at {url}", "try again later")


def _refused(reason: str, fix: str = _RETRY) -> ApiError:
    return ApiError(403, f"the sign-in failed: {reason}", fix)
