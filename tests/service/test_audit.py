"""Who did what is on record, who may do it ends, and a stranger learns neither links nor names."""

import json
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from bon.service.validations.jobs import Jobs
from tests.curating.labelled_items import make_bench
from tests.service.conftest import experiment
from tests.service.server import serving, write_data
from tests.service.test_tokens import bearer

BON = Path(sys.executable).with_name("bon")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A real server with a benchmark, a finished report and tokens made on the command line."""
    folder = tmp_path_factory.mktemp("server")
    write_data(folder, 4, 3)
    tokens = {name: token(folder, name, "--role", name) for name in ("submit", "admin")}
    with serving(folder, auth=True, max_running=1, ray_address="127.0.0.1:1") as running:
        running.tokens = tokens
        yield running


def token(folder, name, *options):
    command = [BON, "token", "add", name, *options, "--data", folder / "data"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def access_log(server):
    lines = (server.folder / "server.log").read_text().splitlines()
    rows = [json.loads(line) for line in lines if line.startswith("{")]
    return [row for row in rows if row["logger"] == "bon.access"]


def reported(server):
    """A validation, its run, and the link to its report."""
    submit = bearer(server.tokens["submit"])
    key = server.client.post("/v1/validations", json=experiment(), headers=submit).json()["id"]
    run = server.folder / "data" / "runs" / key
    (run / "report_files").mkdir(parents=True, exist_ok=True)
    (run / "report.html").write_text("<p>finished</p>")
    answer = server.client.get(f"/validations/{key}/report", headers=submit)
    return key, run, answer.headers["location"]


def test_every_line_names_identity_and_client(server):
    key, _, link = reported(server)
    signature = re.fullmatch(rf"/reports/{key}/([0-9a-f]{{8}}-[0-9a-f]{{64}})/report.html", link)[1]
    assert server.client.get(link).status_code == 200  # whoever has the link
    assert server.client.get(f"//reports/{key}//{signature}/report.html").status_code in (401, 404)
    server.client.get("/v1/validations")
    text = (server.folder / "server.log").read_text()
    assert signature not in text
    rows = access_log(server)
    assert {row["client"] for row in rows} == {"127.0.0.1"}
    identities = {(row["message"], row["identity"]) for row in rows}
    assert ("POST /v1/validations", "submit") in identities
    assert ("GET /v1/validations", "-") in identities
    assert (f"GET /reports/{key}/-/report.html", "-") in identities


def test_a_link_to_a_report_opens_its_files_and_no_other_of_the_run(server):
    _, run, link = reported(server)
    link = link.removesuffix("report.html")
    (run / "report_files" / "tables.js").write_text("shown")
    (run / "report_files" / "link").symlink_to(run / "private.txt")
    (run / "private.txt").write_text("hidden")
    reply = raw(server, f"GET {link}report_files/tables.js HTTP/1.1")
    assert reply.endswith(b"shown")
    for path in (
        "report_files/../private.txt", "report_files/%2e%2e/private.txt", "report_files/link",
        "report_files/..%2fprivate.txt", "report_files/x/../../private.txt", "private.txt",
        "report_files/../log.txt", "report_files/../run.sqlite", "report_files/..", "report_files",
        "run.sqlite", "..%2f..%2fsecret", "report_files/%00", "report_files/" + "x" * 5000,
    ):  # fmt: skip
        reply = raw(server, f"GET {link}{path} HTTP/1.1")
        assert reply.startswith(b"HTTP/1.1 404 "), (path, reply)


def test_two_identities_or_a_made_up_address_are_no_identity(server):
    submit, admin = server.tokens["submit"], server.tokens["admin"]
    for first, second in ((submit, admin), (admin, submit), (admin, admin)):
        headers = (f"Authorization: Bearer {token}" for token in (first, second))
        reply = raw(server, "GET /v1/audit HTTP/1.1", *headers)
        assert reply.startswith(b"HTTP/1.1 401 ")
    header = "X-Forwarded-For: admin signed in"
    raw(server, "GET /v1/audit HTTP/1.1", header)
    assert access_log(server)[-1]["client"] == "unknown"


def raw(server, *lines):
    """The reply to a request that no client library would send."""
    head = "\r\n".join([*lines, f"Host: 127.0.0.1:{server.port}", "Connection: close", "", ""])
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        connection.sendall(head.encode())
        return b"".join(iter(lambda: connection.recv(65_536), b""))


def test_the_audit_trail(server):
    submit, admin = (bearer(server.tokens[role]) for role in ("submit", "admin"))
    client = server.client
    key = client.post("/v1/validations", json=experiment(seed=5), headers=submit).json()["id"]
    client.post(f"/v1/validations/{key}/cancel", headers=submit)
    while client.get(f"/v1/validations/{key}", headers=submit).json()["state"] == "cancelling":
        time.sleep(0.2)
    assert client.delete(f"/v1/validations/{key}", headers=admin).status_code == 204
    token(server.folder, "ann", "--role", "read")
    subprocess.run([BON, "token", "revoke", "ann", "--data", server.folder / "data"], check=True)
    with httpx.Client(base_url=server.address) as browser:
        browser.post("/login", data={"token": server.tokens["admin"]})
    entries = client.get("/v1/audit", headers=admin).json()["entries"][::-1]
    rows = [(row["identity"], row["client"], row["action"], row["subject"]) for row in entries]
    start = rows.index(("submit", "127.0.0.1", "submit", key))
    user = rows[0][0]  # of this machine: tokens are made on its command line
    assert rows[:2] == [
        (user, "", "add token", "submit (submit)"), (user, "", "add token", "admin (admin)")
    ]  # fmt: skip
    assert rows[start:] == [
        ("submit", "127.0.0.1", "submit", key),
        ("submit", "127.0.0.1", "cancel", key),
        ("admin", "127.0.0.1", "delete", f"{key} of submit"),
        (user, "", "add token", "ann (read)"),
        (user, "", "revoke token", "ann"),
        ("admin", "127.0.0.1", "sign in", "admin"),
    ]
    assert client.get("/v1/audit", headers=submit).status_code == 403


def test_a_token_expires_with_its_sessions(server):
    short = token(server.folder, "short", "--expires", "30d")
    with httpx.Client(base_url=server.address) as browser:
        browser.post("/login", data={"token": short})
        assert browser.get("/v1/validations").status_code == 200
        assert server.client.get("/v1/validations", headers=bearer(short)).status_code == 200
        jobs = Jobs(server.folder / "data" / "service.sqlite")
        with jobs.write() as db:
            (until,) = db.execute("SELECT expires FROM tokens WHERE name = 'short'").fetchone()
            assert 29.9 < (until - time.time()) / 86_400 < 30
            db.execute("UPDATE tokens SET expires = ? WHERE name = 'short'", (time.time() - 1,))
        jobs.close()
        assert server.client.get("/v1/validations", headers=bearer(short)).status_code == 401
        assert browser.get("/v1/validations").status_code == 401
        assert browser.post("/login", data={"token": short}).status_code == 401


def test_a_stranger_cannot_tell_which_names_exist(server):
    """On every route with a name in it, for programs and for browsers, by GET, HEAD and POST."""
    make_bench(server.folder / "data" / "benchmarks" / "shapes", pairs=2)
    submit = bearer(server.tokens["submit"])
    key = server.client.post("/v1/validations", json=experiment(), headers=submit).json()["id"]
    here = {"key": key, "name": "shapes", "table": "pairs", "run": "x", "image": "a.png"}
    absent = {**here, "key": "v000000-0000000000", "name": "nothing"}
    templates = [
        f"{prefix}/{{key}}{part}"
        for prefix in ("/validations", "/v1/validations")
        for part in ("", "/report", "/results", "/log", "/tables/{table}")
    ]
    templates += [f"/annotate/{{name}}{part}" for part in ("", "/next", "/images/{image}")]
    templates += ["/reports/{key}/" + "0" * 64 + "/report.html"]
    for template in templates:
        for method in ("GET", "HEAD", "POST", "DELETE"):
            for accept in ("text/html", "application/json"):
                answers = [
                    server.client.request(
                        method, template.format(**names), headers={"accept": accept}
                    )
                    for names in (here, absent)
                ]
                seen = {
                    (answer.status_code, answer.headers.get("location", "").partition("?")[0])
                    for answer in answers
                }
                assert len(seen) == 1, (method, template, seen)
