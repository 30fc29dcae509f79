"""Sign-in with a small OpenID Connect provider over HTTP."""

import base64
import hashlib
import html
import secrets
import sys
import time
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, RedirectResponse

from bon.core.errors import BonError
from bon.service.app import create_app
from bon.service.server.access import check_access
from bon.service.server.state import open_service
from bon.service.settings import Oidc, read_settings
from tests.service.test_pages import HTML
from tests.service.test_root_path import served

pytest.importorskip("authlib")
SECRET = "s3cret-of-the-client"


class TinyProvider:
    """Authorization, token and key endpoints; `changes` replaces claims, None removes one."""

    def __init__(self):
        from joserfc.jwk import RSAKey

        self.key = self.published = RSAKey.generate_key(2048, {"kid": "k1", "alg": "RS256"})
        self.changes, self.codes, self.issuer = {}, {}, ""
        self.app = app = FastAPI()

        @app.get("/.well-known/openid-configuration")
        def metadata():
            paths = {
                "authorization_endpoint": "auth",
                "token_endpoint": "token",
                "jwks_uri": "keys",
            }
            endpoints = {name: f"{self.issuer}/{path}" for name, path in paths.items()}
            return {"issuer": self.issuer, **endpoints}

        @app.get("/keys")
        def keys():
            return {"keys": [self.published.as_dict(private=False)]}

        @app.get("/auth")
        def auth(request: Request):
            query = dict(request.query_params)
            assert query["code_challenge_method"] == "S256"
            assert query["response_type"] == "code"
            assert "openid" in query["scope"].split()
            code = secrets.token_urlsafe(8)
            self.codes[code] = query
            return RedirectResponse(f"{query['redirect_uri']}?code={code}&state={query['state']}")

        @app.post("/token")
        async def token(request: Request):
            form = {k: v[0] for k, v in parse_qs((await request.body()).decode()).items()}
            query = self.codes.pop(form["code"], None)
            basic = base64.b64encode(f"bon:{SECRET}".encode()).decode()
            challenge = hashlib.sha256(form["code_verifier"].encode()).digest()
            challenge = base64.urlsafe_b64encode(challenge).decode().rstrip("=")
            if (
                query is None
                or request.headers["authorization"] != f"Basic {basic}"
                or query["code_challenge"] != challenge
                or query["redirect_uri"] != form["redirect_uri"]
            ):
                return JSONResponse({"error": "invalid_grant"}, 400)
            return {
                "access_token": "a",
                "token_type": "Bearer",
                "id_token": self.id_token(query["nonce"]),
            }

    def id_token(self, nonce):
        from joserfc import jwt

        now = int(time.time())
        claims = {"iss": self.issuer, "aud": "bon", "sub": "1", "iat": now, "exp": now + 60}
        claims |= {"nonce": nonce, "email": "Ann@Example.org", "email_verified": True}
        claims |= self.changes
        claims = {name: value for name, value in claims.items() if value is not None}
        return jwt.encode({"alg": "RS256", "kid": "k1"}, claims, self.key)


@pytest.fixture(scope="module")
def running_provider():
    provider = TinyProvider()
    with served(provider.app) as provider.issuer:
        yield provider


@pytest.fixture
def provider(running_provider):
    running_provider.changes = {}
    running_provider.published = running_provider.key
    return running_provider


@pytest.fixture(params=["", "/bon"])
def service(request, provider, settings, tmp_path):
    (tmp_path / "client_secret").write_text(f"{SECRET}\n")
    oidc = {
        "issuer": provider.issuer,
        "client_id": "bon",
        "client_secret_file": "client_secret",
        "roles": {"ann@example.org": "read", "labs": "annotate", "Staff": "submit"},
    }
    changes = {"auth": True, "oidc": Oidc(**oidc), "base": tmp_path, "root_path": request.param}
    with open_service(settings.model_copy(update=changes)) as service:
        service.supervisor.start = service.supervisor.stop = lambda: None
        yield service


@pytest.fixture
def browser(service):
    with served(create_app(service)) as address:
        base = f"{address}{service.settings.root_path}"
        with httpx.Client(base_url=base, headers=HTML, follow_redirects=True) as client:
            client.origin = address
            yield client


def begin(browser):
    """Follow a sign-in up to the provider's redirect back; return that address."""
    to_provider = browser.get("login/oidc", follow_redirects=False).headers["location"]
    return httpx.get(to_provider).headers["location"]


def refused(browser, reply, reason):
    assert reply.status_code == 403, reply.text
    assert reason in html.unescape(reply.text)
    assert "bon_session" not in browser.cookies
    assert browser.get("validations").url.path.endswith("/login")


def test_sign_in_and_out(browser, service, provider):
    prefix = service.settings.root_path
    login = browser.get("new")
    assert f'href="{prefix}/login/oidc?to={prefix}/new"' in login.text
    page = browser.get(f"login/oidc?to={prefix}/new")
    assert (page.status_code, page.url.path) == (200, f"{prefix}/new")
    assert "ann@example.org (read)" in page.text
    (cookie,) = browser.cookies.jar
    assert (cookie.name, cookie.path) == ("bon_session", prefix or "/")
    assert cookie.has_nonstandard_attr("HttpOnly")
    assert browser.get("v1/audit").status_code == 403  # the role is read
    assert any(row[0] == "ann@example.org" for row in service.tokens.listed())
    saved = cookie.value
    assert browser.post("logout", headers={"origin": browser.origin}).url.path == f"{prefix}/login"
    assert service.tokens.check_session(saved) is None
    assert browser.get("validations").url.path == f"{prefix}/login"
    assert "redirect_uri=https%3A%2F%2F127" in browser.get(
        "login/oidc", headers={"x-forwarded-proto": "https"}, follow_redirects=False
    ).headers["location"]  # fmt: skip


def test_groups_roles_and_revocation(browser, service, provider):
    provider.changes = {"email": "bob@example.org", "groups": ["labs", "Staff", "other"]}
    assert "bob@example.org (submit)" in browser.get("login/oidc").text
    with service.jobs.write() as db:
        ((key, digest),) = db.execute("SELECT id, digest FROM tokens").fetchall()
    assert digest == ""
    for secret in ("", "x"):
        assert service.tokens.check(f"bon_{key}_{secret}") is None
    provider.changes = {"email": "bob@example.org", "groups": ["labs"]}
    assert "bob@example.org (annotate)" in browser.get("login/oidc").text
    service.tokens.revoke("bob@example.org")
    assert browser.get("annotate").url.path.endswith("/login")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"nonce": "another"}, "claim: 'nonce'"),
        ({"nonce": None}, "claim: 'nonce'"),
        ({"email": "eve@example.org"}, "is not listed"),
        ({"email": "eve@example.org", "groups": ["ann@example.org"]}, "is not listed"),
        ({"email": "eve@example.org", "groups": "labs"}, "is not listed"),
        ({"email": None, "groups": ["labs"]}, "no valid e-mail"),
        ({"email": "a@b\n@c", "groups": ["labs"]}, "no valid e-mail"),
        ({"email_verified": False}, "not verified"),
        ({"email_verified": "true"}, "not verified"),
        ({"email_verified": None, "groups": ["labs"]}, "not verified"),
        ({"exp": int(time.time()) - 3600, "iat": int(time.time()) - 7200}, "token is expired"),
        ({"exp": None}, "claim: 'exp'"),
        ({"aud": "another-client"}, "claim: 'aud'"),
        ({"aud": ["bon", "other"], "azp": "other"}, "claim: 'azp'"),
        ({"iss": "https://elsewhere.example.org"}, "claim: 'iss'"),
    ],
)
@pytest.mark.parametrize("service", [""], indirect=True)
def test_id_tokens_that_are_refused(browser, provider, changes, reason):
    provider.changes = changes
    refused(browser, browser.get("login/oidc"), reason)


@pytest.mark.parametrize("service", [""], indirect=True)
def test_states_codes_and_keys_that_are_refused(browser, provider, service):
    from joserfc.jwk import RSAKey

    back = begin(browser)
    state = parse_qs(urlsplit(back).query)["state"][0]
    refused(browser, browser.get(back.replace(state, "another-" + state)), "state")
    refused(browser, browser.get(back.partition("&state")[0]), "state")
    refused(browser, browser.get(f"{back}&iss=https://elsewhere"), "another provider")
    with httpx.Client(headers=HTML) as other:  # another browser: no attempt of its own
        assert "did not start on this server" in other.get(back).text
        forged = f"{browser.cookies['bon_sign_in'].partition('.')[0]}.{'0' * 64}"
        assert other.get(back, headers={"cookie": f"bon_sign_in={forged}"}).status_code == 403

    attempt = browser.cookies["bon_sign_in"]
    assert browser.get(back).url.path == "/validations"  # the attempt itself is good
    assert "bon_sign_in" not in browser.cookies
    browser.cookies.clear()
    refused(browser, browser.get(back), "did not start on this server")
    replay = browser.get(back, headers={"cookie": f"bon_sign_in={attempt}"})
    refused(browser, replay, "does not accept the code")

    provider.published = RSAKey.generate_key(2048, {"kid": "k1", "alg": "RS256"})
    refused(browser, browser.get("login/oidc"), "the id token is not valid")


@pytest.mark.parametrize("service", [""], indirect=True)
def test_a_token_is_not_taken_over_and_a_provider_is_enough_to_start(browser, service):
    check_access(service.settings.model_copy(update={"host": "0.0.0.0"}), service.tokens)
    token = service.tokens.add("ann@example.org", "admin")
    assert "there is a token named" in browser.get("login/oidc").text
    assert "bon_session" not in browser.cookies
    assert service.tokens.check(token).role == "admin"


def test_without_its_packages_the_extra_is_named(service, monkeypatch):
    monkeypatch.setitem(sys.modules, "authlib.integrations.httpx_client", None)
    with pytest.raises(BonError, match="'authlib'") as error:
        create_app(service)
    assert "bon[oidc]" in error.value.fix


def test_settings_are_checked(tmp_path):
    good = "issuer: https://id.example.org\n  client_id: bon\n  client_secret_file: s\n"
    for text, field in [
        (good + "  roles: {a@b.c: owner}", "roles"),
        (good + "  roles: {}", "roles"),
        (good.replace("https:", "http:") + "  roles: {a@b.c: read}", "issuer"),
    ]:
        path = tmp_path / "settings.yaml"
        path.write_text(f"oidc:\n  {text}\n")
        with pytest.raises(BonError, match=field):
            read_settings(path)
    path.write_text(
        f"data: {tmp_path}/data\nminiature: false\noidc:\n  {good}  roles: {{a: read}}\n"
    )
    settings = read_settings(path)
    with open_service(settings) as service, pytest.raises(BonError, match="client_secret_file"):
        create_app(service)
