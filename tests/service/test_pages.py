"""The pages: what they hold, and that nothing in them becomes markup."""

import re

import pytest

from bon.service.pages.sign_in import _local
from tests.service.conftest import experiment
from tests.service.test_tokens import bearer, guarded  # noqa: F401 - a fixture

HTML = {"accept": "text/html"}
SCRIPT = "<script>alert(1)</script>"


def made_up_run(client, settings, **files):
    """A validation that is done, with these files in its run directory."""
    key = client.post("/v1/validations", json=experiment(description=SCRIPT)).json()["id"]
    directory = settings.runs / key
    directory.mkdir(parents=True)
    for name, text in files.items():
        (directory / name.replace("__", ".")).write_text(text)
    with client.app.state.service.jobs.write() as db:
        db.execute("UPDATE validations SET state = 'done', error = ? WHERE id = ?", (SCRIPT, key))
    return key


@pytest.mark.parametrize("path", ["/validations", "/new", "/catalogue", "/login"])
def test_every_page_loads_nothing_from_elsewhere(shared, path):
    answer = shared.get(path, headers=HTML)
    assert answer.status_code == 200
    policy = answer.headers["content-security-policy"]
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    sources = re.findall(r'(?:src|href)="([^"]+)"', answer.text)
    assert all(source.startswith(("/", "#")) for source in sources), sources
    assert not re.search(r"<script(?! src=)", answer.text)
    assert not re.search(r"\son\w+=|\sstyle=", answer.text)
    for name in ("style.css", "service.css", "service.js", "icon.svg"):
        assert shared.get(f"/static/{name}").status_code == 200
    assert shared.get("/static/render.py").status_code == 404


def test_text_of_users_is_shown_as_text(client, settings):
    key = made_up_run(client, settings, log__txt=f"{SCRIPT} Bearer abcdefghijkl\n")
    for path in ("/validations", f"/validations/{key}", f"/new?from={key}"):
        text = client.get(path, headers=HTML).text
        assert SCRIPT not in text
    text = client.get(f"/validations/{key}", headers=HTML).text
    assert "&lt;script&gt;alert(1)" in text
    result = client.get("/validations", params={"text": '"><img src=x onerror=1>'}, headers=HTML)
    assert "<img" not in result.text
    log = client.get(f"/v1/validations/{key}/log")
    assert log.headers["content-type"].startswith("text/plain")
    assert "abcdefghijkl" not in log.text


def test_a_report_is_a_sandbox_of_its_own(client, settings):
    policy = "default-src &#39;none&#39;; img-src data:"
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    key = made_up_run(client, settings, report__html=f"{meta}<p>hello")
    (settings.runs / key / "report_files").mkdir()
    (settings.runs / key / "report_files" / "page").write_text("<script>alert(1)</script>")
    answer = client.get(f"/validations/{key}/report", headers=HTML)
    assert "hello" in answer.text
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; img-src data:;")
    assert "sandbox allow-scripts" in policy
    assert "allow-same-origin" not in policy
    base = str(answer.url).rsplit("/", 1)[0]
    beside = client.get(f"{base}/report_files/page")
    assert beside.headers["content-type"] == "application/octet-stream"
    assert client.get(f"/reports/{key}/{'0' * 64}/report.html").status_code == 404


def test_pages_that_do_not_exist(shared):
    for path in ("/nothing", "/validations/nobody", "/validations/v000000-0000000000"):
        answer = shared.get(path, headers=HTML)
        assert answer.status_code == 404
        assert "All validations" in answer.text


def test_signing_in(guarded):  # noqa: F811
    client, tokens, service = guarded
    other = service.tokens.session(service.tokens.check(tokens["read"]))
    answer = client.get("/catalogue", headers=HTML)
    assert str(answer.url).endswith("/login?to=/catalogue")
    wrong = client.post("/login", data={"token": "x"})
    assert (wrong.status_code, "does not know that token" in wrong.text) == (401, True)
    right = client.post("/login", data={"token": tokens["read"], "to": "/new"})
    assert right.url.path == "/new"
    assert tokens["read"] not in str(right.history[0].headers)
    assert "HttpOnly" in right.history[0].headers["set-cookie"]
    assert "SameSite=lax" in right.history[0].headers["set-cookie"]
    shown = client.get("/validations", headers=HTML)
    assert shown.status_code == 200
    assert 'action="/logout"' in shown.text
    assert client.post("/v1/validations", json=experiment()).status_code == 403
    foreign = client.post("/logout", headers={"origin": "https://evil.example"})
    assert foreign.status_code == 403
    copy = dict(client.cookies)
    client.post("/logout")
    client.cookies.update(copy)
    assert client.get("/v1/validations").status_code == 401
    assert service.tokens.check_session(other).name == "read"
    client.cookies.clear()
    assert client.get("/v1/validations", headers=bearer(tokens["read"])).status_code == 200


def test_the_way_after_signing_in_stays_here():
    for here in ("/validations/v1", "/new?from=v261120-0123456789"):
        assert _local(here) == here
    for away in (
        "/x?to=//evil.example",
        "/x#y",
        "/\n/evil",
        "//evil.example",
        "/\\evil.example",
        "https://evil.example",
        "x",
        "/a b",
        "",
    ):
        assert _local(away) == "/"
