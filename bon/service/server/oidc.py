"""Sign-in with OpenID Connect: authorization code flow with PKCE, state and nonce."""

import hmac
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bon.core.errors import BonError
from bon.service.errors import ApiError
from bon.service.settings import ROLES, Oidc, Role

ATTEMPT_SECONDS = 600
"""From the redirect to the provider to the return of the browser."""
LEEWAY_SECONDS = 30
TIMEOUT_SECONDS = 10
_ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512"]
_EMAIL = re.compile(r"[^\s@]{1,100}@[^\s@]{1,100}")
Attempt = dict[str, str]
"""A sign-in that has begun: state, nonce, code_verifier, redirect_uri."""


class Provider:
    """The identity provider of the settings."""

    def __init__(self, settings: Oidc, base: Path) -> None:
        try:
            import authlib.integrations.httpx_client  # noqa: F401
        except ModuleNotFoundError as error:
            problem = f"the setting oidc needs the package {str(error.name).partition('.')[0]!r}"
            raise BonError(problem, "pip install 'bon[oidc]'") from None
        try:
            self._secret = (base / settings.client_secret_file).read_text("utf-8").strip()
            if not self._secret:
                raise ValueError("it is empty")
        except (OSError, ValueError) as error:
            problem = f"oidc.client_secret_file cannot be read: {error}"
            raise BonError(problem, "a file with the secret alone") from None
        self._settings = settings

    def begin(self, redirect_uri: str) -> tuple[str, Attempt]:
        """Return the provider's page to which the browser is sent, and the attempt."""
        with self._app() as app:
            attempt: dict[str, str] = app.create_authorization_url(redirect_uri)
        return attempt.pop("url"), {**attempt, "redirect_uri": redirect_uri}

    def identify(self, attempt: Attempt, returned: dict[str, str]) -> tuple[str, Role]:
        """Return the verified e-mail address and its role from what the browser brought back.

        Raises:
            ApiError: 403 for anyone who is not let in, 502 if the provider does not answer.
        """
        if not hmac.compare_digest(returned.get("state", "").encode(), attempt["state"].encode()):
            raise refused("the state is that of another sign-in")
        if returned.get("iss", self._settings.issuer) != self._settings.issuer:
            raise refused("the answer is that of another provider")
        if "error" in returned or not returned.get("code"):
            raise refused("the provider refused it")
        return self._role(self._claims(attempt, returned["code"]))

    @contextmanager
    def _app(self) -> Iterator[Any]:
        """Yield a client that knows the provider's metadata, none of it from an earlier sign-in."""
        from authlib.integrations.base_client.sync_app import OAuth2Base, OAuth2Mixin
        from authlib.integrations.base_client.sync_openid import OpenIDMixin
        from authlib.integrations.httpx_client import OAuth2Client
        from authlib.integrations.httpx_client.oauth2_client import httpx2

        class App(OAuth2Mixin, OpenIDMixin, OAuth2Base):  # type: ignore[misc]
            client_cls = OAuth2Client

        issuer = self._settings.issuer
        url = f"{issuer.rstrip('/')}/.well-known/openid-configuration"
        options = {
            "scope": " ".join(self._settings.scopes),
            "code_challenge_method": "S256",
            "timeout": TIMEOUT_SECONDS,
        }
        client = {"client_id": self._settings.client_id, "client_secret": self._secret}
        app = App(None, **client, client_kwargs=options, server_metadata_url=url)
        try:
            metadata = app.load_server_metadata()
            needed = {"authorization_endpoint", "token_endpoint", "jwks_uri"}
            if metadata.get("issuer") != issuer or not needed <= set(metadata):
                problem = f"{url} does not describe the issuer {issuer}"
                raise ApiError(502, problem, "check oidc.issuer")
            methods = metadata.get("token_endpoint_auth_methods_supported")
            basic = not methods or "client_secret_basic" in methods
            options["token_endpoint_auth_method"] = f"client_secret_{'basic' if basic else 'post'}"
            yield app
        except (httpx2.HTTPError, ValueError, TypeError):
            problem = f"the identity provider does not answer at {issuer}"
            raise ApiError(502, problem, "try again later") from None

    def _claims(self, attempt: Attempt, code: str) -> dict[str, Any]:
        """Exchange the code and return the claims of the verified id token."""
        from authlib.integrations.base_client import OAuthError
        from authlib.oidc.core import CodeIDToken
        from joserfc.errors import JoseError

        options = {
            "iss": {"essential": True, "value": self._settings.issuer},
            "aud": {"essential": True, "value": self._settings.client_id},
        }
        with self._app() as app:
            keys = app.fetch_jwk_set()
            keys["keys"] = [
                key for key in keys["keys"]
                if key.get("kty") in ("RSA", "EC") and key.get("use") != "enc"
            ]  # fmt: skip
            app.server_metadata["id_token_signing_alg_values_supported"] = _ALGORITHMS
            try:
                token = app.fetch_access_token(
                    attempt["redirect_uri"], code=code, code_verifier=attempt["code_verifier"]
                )
            except (OAuthError, ValueError):
                raise refused("the provider does not accept the code") from None
            try:
                claims = app.parse_id_token(
                    token, attempt["nonce"], options, CodeIDToken, LEEWAY_SECONDS
                )
            except JoseError as error:
                raise refused(f"the id token is not valid ({error})") from None
            except ValueError:
                claims = None
        if claims is None:
            raise refused("the id token is not valid (it cannot be read)")
        return dict(claims)

    def _role(self, claims: dict[str, Any]) -> tuple[str, Role]:
        """Return the e-mail address and the highest role of what the settings list."""
        email, groups = claims.get("email"), claims.get("groups")
        if claims.get("email_verified") is not True:
            raise refused("the provider has not verified the e-mail address (email_verified)")
        if not isinstance(email, str) or not _EMAIL.fullmatch(email) or not email.isprintable():
            raise refused("the id token has no valid e-mail address")
        email = email.lower()
        groups = groups if isinstance(groups, list) else []
        names = {name for name in groups if isinstance(name, str) and "@" not in name}
        listed = self._settings.roles.items()
        roles = [role for name, role in listed if name in names or name.lower() == email]
        if not roles:
            raise refused(f"{email} is not listed", "the operator can add it to oidc.roles")
        return email, max(roles, key=ROLES.index)


def refused(reason: str, fix: str = "sign in again") -> ApiError:
    """The reply to a sign-in that failed."""
    return ApiError(403, f"the sign-in failed: {reason}", fix)
