"""Who may do what."""

import logging
import sqlite3

import pytest
from typer.testing import CliRunner

from bon.commands.main import app as command_line
from bon.core.errors import BonError
from bon.service.app import welcome
from bon.service.server.access import check_access, first_token
from bon.service.server.logs import JsonLines, redact
from bon.service.server.state import open_service
from bon.service.settings import ROLES
from tests.service.conftest import experiment
from tests.service.server import idle


@pytest.fixture
def guarded(settings):
    with idle(settings.model_copy(update={"auth": True})) as client:
        service = client.app.state.service
        tokens = {role: service.tokens.add(role, role) for role in ROLES}
        tokens["other"] = service.tokens.add("other", "submit")
        yield client, tokens, service


def bearer(token):
    return {"authorization": f"Bearer {token}"}


def test_a_validation_is_its_owner_s_and_the_admin_s(guarded):
    client, tokens, _ = guarded
    created = client.post("/v1/validations", json=experiment(), headers=bearer(tokens["submit"]))
    path = f"/v1/validations/{created.json()['id']}"
    for method, route, by_role in (
        ("POST", f"{path}/cancel", {"other": 403, "submit": 202}),
        ("POST", f"{path}/resume", {"other": 403, "admin": 202}),
        ("DELETE", path, {"other": 403, "admin": 409}),
    ):
        for role, status in by_role.items():
            answer = client.request(method, route, headers=bearer(tokens[role]))
            assert answer.status_code == status, (method, route, role, answer.text)


def test_wrong_tokens(guarded):
    client, tokens, _ = guarded
    good = tokens["read"]
    for bad in (good[:-1], good + "x", good.replace("bon_", "bom_"), "bon__", "x", "bon_a_b"):
        assert client.get("/v1/validations", headers=bearer(bad)).status_code == 401
    assert client.get("/v1/validations", headers={"authorization": "Basic x"}).status_code == 401
    answer = client.get("/v1/validations")
    assert answer.headers["www-authenticate"] == "Bearer"


def test_tokens_are_hashed_at_rest_and_can_be_revoked(guarded, settings):
    client, tokens, service = guarded
    secret = tokens["read"].split("_", 2)[2]
    for file in settings.data.iterdir():
        if file.is_file():
            assert secret.encode() not in file.read_bytes()
    assert (settings.data / "service.sqlite").stat().st_mode & 0o077 == 0
    session = service.tokens.session(service.tokens.check(tokens["read"]))
    assert secret not in session
    assert service.tokens.check_session(session).name == "read"
    assert service.tokens.check_session(session[:-1] + "x") is None
    service.tokens.revoke("read")
    assert client.get("/v1/validations", headers=bearer(tokens["read"])).status_code == 401
    assert service.tokens.check_session(session) is None


def test_off_loopback_needs_a_token(settings):
    open_to_all = settings.model_copy(update={"host": "0.0.0.0", "auth": True})
    with open_service(open_to_all) as service:
        assert first_token(open_to_all, service.tokens) is None
        with pytest.raises(BonError, match="bon token add"):
            check_access(open_to_all, service.tokens)
        service.tokens.add("me", "admin")
        check_access(open_to_all, service.tokens)
        with pytest.raises(BonError, match="--no-auth"):
            check_access(open_to_all.model_copy(update={"auth": False}), service.tokens)


def test_a_new_server_on_loopback_makes_one_token_and_tells_it_once(settings):
    closed = settings.model_copy(update={"auth": True})
    with open_service(closed) as service:
        token = first_token(closed, service.tokens)
        assert service.tokens.check(token).role == "admin"
        assert f"http://127.0.0.1:80/login#{token}" in welcome(closed, 80, token)
        assert first_token(closed, service.tokens) is None
        assert "bon_" not in welcome(closed, 80, None)
        assert first_token(settings, service.tokens) is None


def test_revoking_the_last_token_lets_nobody_in(guarded):
    client, tokens, service = guarded
    for name in tokens:
        service.tokens.revoke(name)
    assert client.get("/v1/validations").status_code == 401
    assert client.post("/v1/validations", json=experiment()).status_code == 401


def test_what_a_proxy_hands_on_is_never_local(client):
    local = {"host": "127.0.0.1"}
    token = client.app.state.service.tokens.add("me", "read")
    assert client.get("/v1/validations", headers=local).status_code == 200
    for name in (
        "x-forwarded-for", "forwarded", "via", "x-real-ip", "x-forwarded-proto",
        "x-forwarded-server", "cf-connecting-ip", "true-client-ip", "x-client-ip",
        "x-cluster-client-ip", "x-original-forwarded-for", "x-envoy-external-address",
        "fly-client-ip", "x-azure-clientip", "client-ip",
    ):  # fmt: skip
        forwarded = {**local, name: "192.0.2.1"}
        assert client.get("/v1/validations", headers=forwarded).status_code == 401, name
        known = {**forwarded, **bearer(token)}
        assert client.get("/v1/validations", headers=known).status_code == 200, name


def test_without_tokens_only_the_names_of_this_machine_are_local(settings):
    allow = settings.allow.model_copy(update={"hosts": ("*",)})
    named = settings.model_copy(update={"allow": allow})
    with idle(named, base_url="http://rebound.example") as client:
        assert client.get("/v1/validations").status_code == 401


def test_a_body_is_not_read_before_the_token_is_known(guarded):
    client, _, _ = guarded
    sent = []

    def parts():
        for number in range(100):
            sent.append(number)
            yield b"x" * 100_000

    for path in ("/v1/plan", "/v1/score", "/nothing"):
        assert client.post(path, content=parts()).status_code == 401
    for form in ("/login", "/logout"):
        assert client.post(form, content=b"token=" + b"x" * 5000).status_code == 413
    assert client.post("/logout").url.path == "/login"  # of a session that has run out


def test_two_servers_cannot_share_a_data_directory(settings):
    with (
        open_service(settings),
        pytest.raises(BonError, match="another bon serve"),
        open_service(settings),
    ):
        pass


def test_the_command_line_makes_lists_and_revokes(tmp_path):
    run = CliRunner().invoke
    data = ["--data", str(tmp_path)]
    token = run(command_line, ["token", "add", "ann", "--role", "read", *data]).output.strip()
    assert token.startswith("bon_")
    listed = run(command_line, ["token", "list", *data]).output
    assert "ann" in listed
    assert token not in listed
    for expires in ("30", "d", "0d", "-1d", "1y", "²d", "999999d"):
        refused = run(command_line, ["token", "add", "x", f"--expires={expires}", *data])
        assert "write 90m, 12h, 30d or 8w" in str(refused.exception)
    run(command_line, ["token", "revoke", "ann", *data])
    assert "ann" not in run(command_line, ["token", "list", *data]).output
    with sqlite3.connect(tmp_path / "service.sqlite") as db:
        assert db.execute("SELECT COUNT(*) FROM tokens").fetchone() == (0,)


def test_no_secret_in_logs(monkeypatch, tmp_path):
    monkeypatch.setenv("SOME_API_KEY", "hunter2hunter2")
    text = redact("Bearer abc123abc123 sk-abcdefghijklmnopqrst hunter2hunter2 fine")
    assert text == "Bearer [redacted] [redacted] [redacted] fine"
    record = logging.makeLogRecord({"msg": "key hunter2hunter2", "levelname": "INFO"})
    assert "hunter2" not in JsonLines().format(record)


def test_a_stranger_cannot_write_to_the_terminal():
    record = logging.makeLogRecord({"msg": "GET /\x1b]0;x\x07\n12:00 all is well", "levelno": 20})
    record._ray_timestamp_ns = 1  # Ray puts this on every record once it is imported
    line = JsonLines().format(record)
    assert r"GET /\u001b]0;x\u0007\n12:00 all is well" in line
    assert line.isprintable()
    assert "_ray" not in line


PUBLIC = {"GET /healthz", "GET /readyz"}
ROLE_READ = {
    "GET /metrics", "GET /v1/catalogue", "GET /v1/validations", "POST /v1/plan",
    *(f"GET /v1/validations/{{key}}{part}" for part in (
        "", "/results", "/tables/{table}", "/log")),
}  # fmt: skip
ROLE_SUBMIT = {
    "POST /v1/validations", "DELETE /v1/validations/{key}",
    *(f"POST /v1/validations/{{key}}/{verb}" for verb in ("cancel", "resume")),
    *(f"POST /v1/{what}" for what in ("score", "chat/completions")),
    "GET /v1/models",
    "POST /get_reward",
}  # fmt: skip


ROLE_ADMIN = {"GET /v1/audit"}


def test_every_operation_asks_for_its_role_and_no_other(guarded):
    client, tokens, service = guarded
    paths = client.get("/v1/openapi.json").json()["paths"]
    operations = {f"{verb.upper()} {path}" for path, verbs in paths.items() for verb in verbs}
    assert operations == PUBLIC | ROLE_READ | ROLE_SUBMIT | ROLE_ADMIN
    tokens["revoked"] = tokens["other"]
    service.tokens.revoke("other")
    tokens["made up"] = "bon_00000000_" + "x" * 43
    for operation in sorted(operations):
        verb, path = operation.split()
        path = path.format(key="v000000-0000000000", table="pairs", name="x", run="x")
        result = {
            role: client.request(
                verb, path, headers={} if role == "nobody" else bearer(tokens[role])
            ).status_code
            for role in ("nobody", "made up", "revoked", *ROLES)
        }
        may = {"read", "submit", "admin"} - ({"read"} if operation in ROLE_SUBMIT else set())
        may -= {"read", "submit"} if operation in ROLE_ADMIN else set()
        for role, status in result.items():
            if operation in PUBLIC or role in may:
                assert status not in (401, 403), (operation, role, status)
            else:
                assert status == (403 if role in ROLES else 401), (operation, role, status)
