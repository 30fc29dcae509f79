"""Other users of the machine, other owners, and what is left when a token ends."""

import asyncio
import hmac
import os
import shutil
import subprocess
import sys
import threading
import time

import anyio.to_thread
import pytest
from starlette.concurrency import run_in_threadpool

from bon.service.errors import ApiError
from bon.service.server.state import open_tokens
from bon.service.validations import plan_pool
from tests.service.conftest import experiment
from tests.service.server import idle, serving
from tests.service.test_online import asks, online_settings
from tests.service.test_tokens import bearer

AS_OTHER = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
REPLAY = """
import sys, http.client
for cookie in (sys.argv[2], sys.argv[2].replace("_" + sys.argv[1], "")):
    for more in ({}, {"x-forwarded-for": "127.0.0.1"}, {"x-forwarded-for": "192.0.2.1"}):
        c = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
        c.request("GET", "/v1/validations", headers={"cookie": cookie, **more})
        print(c.getresponse().status)
"""


def replayed(port, cookie, *prefix):
    """The statuses of requests with a cookie, from a process of their own."""
    command = [*prefix, sys.executable, "-I", "-c", REPLAY, str(port), cookie]
    done = subprocess.run(command, capture_output=True, text=True, cwd="/", check=False)
    return done.stdout.split() or pytest.skip(done.stderr)


@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("setpriv"), reason="only root can act as another user"
)
def test_a_cookie_that_another_user_was_sent_opens_nothing(tmp_path):
    """A browser sends the cookies of 127.0.0.1 to each port there, also to another user's."""
    token = open_tokens(tmp_path / "data").add("ann", "read")
    with serving(tmp_path, auth=True) as server:
        answer = server.client.post("/login", data={"token": token})
        (name, cookie), *_ = answer.cookies.items()
        assert name == f"bon_session_{server.port}"
        assert replayed(server.port, f"{name}={cookie}")[0] == "200"
        assert {*replayed(server.port, f"{name}={cookie}", *AS_OTHER)} == {"401"}


def test_a_link_to_a_report_ends_with_its_token(settings):
    with idle(settings.model_copy(update={"auth": True})) as client:
        service = client.app.state.service
        token = service.tokens.add("ann", "submit")
        briefly = service.tokens.add("brief", "read", expires=time.time() + 3600)
        answer = client.post("/v1/validations", json=experiment(), headers=bearer(token))
        key = answer.json()["id"]
        (settings.runs / key).mkdir(parents=True)
        (settings.runs / key / "report.html").write_text("<p>finished</p>")
        links = [
            client.get(
                f"/validations/{key}/report", headers=bearer(each), follow_redirects=False
            ).headers["location"]
            for each in (token, briefly)
        ]
        assert [client.get(link).status_code for link in links] == [200, 200]
        service.tokens.revoke("ann")
        service.jobs.rows("UPDATE tokens SET expires = 1 WHERE name = 'brief'")
        assert [client.get(link).status_code for link in links] == [404, 404]
        signature = links[0].split("/")[3].partition("-")[2]
        for token_id in ("", links[1].split("/")[3].partition("-")[0]):
            forged = f"/reports/{key}/{token_id}-{signature}/report.html"
            assert client.get(forged).status_code == 404


@pytest.mark.parametrize("left", [b"", b"short"])
def test_an_empty_secret_signs_nothing(settings, left):
    """As a full disk leaves it."""
    (settings.data / "secret").write_bytes(left)
    tokens = open_tokens(settings.data)
    assert tokens.sign("report", "x") != hmac.new(left, b"report:x", "sha256").hexdigest()
    assert tokens.sign("report", "x") == open_tokens(settings.data).sign("report", "x")
    assert (settings.data / "secret").stat().st_mode & 0o077 == 0


def test_what_one_owner_had_judged_is_not_told_to_another(settings):
    with idle(
        online_settings(settings).model_copy(update={"auth": True, "ray_address": None})
    ) as client:
        service = client.app.state.service
        tokens = [service.tokens.add(name, "submit") for name in ("ann", "ben")]
        body = {"rewarder": "judge", "messages": asks("private?"), "candidates": ["a", "b"]}
        samples = {"samples": [{"prompt": "secret?", "response": r} for r in ("a", "b")]}

        def cached(token):
            judged = client.post("/v1/score", json=body, headers=bearer(token)).json()
            rated = client.post(
                "/get_reward", params={"rewarder": "judge"}, json=samples, headers=bearer(token)
            ).json()
            logs = rated["extra_logs"]["cached"]
            return judged["usage"]["cached_judgements"] > 0, logs[0] > 0

        assert cached(tokens[0]) == (False, False)
        assert cached(tokens[0]) == (True, True)
        assert cached(tokens[1]) == (False, False)


def test_plans_of_one_owner_keep_nobody_else_waiting(client, monkeypatch):
    """Threads are held as a long plan holds them: others plan, pages and probes answer."""
    pool, release = client.app.state.service.plans, threading.Event()
    monkeypatch.setattr(plan_pool, "SECONDS", 0.5)

    async def held():
        waits = [pool.run("ann", release.wait) for _ in range(plan_pool.WAITING + 3)]
        ends = await asyncio.gather(*waits, return_exceptions=True)
        statuses = [end.status for end in ends if isinstance(end, ApiError)]
        assert sorted(statuses) == [429] * 3 + [503] * plan_pool.WAITING
        assert await pool.run("ben", lambda: "a plan") == "a plan"

    try:
        client.portal.call(held)
        assert client.post("/v1/plan", json=experiment()).status_code == 200
    finally:
        release.set()


def test_probes_answer_while_every_thread_is_taken(client):
    """Those of Starlette, in which pages wait, and those of plans."""
    release = threading.Event()

    async def hold():
        pool = client.app.state.service.plans
        anyio.to_thread.current_default_thread_limiter().total_tokens = 1
        waiting = [pool.run(owner, release.wait) for owner in ("ann", "ben")]
        return asyncio.gather(*waiting, run_in_threadpool(release.wait))

    held = client.portal.call(hold)
    try:
        assert client.get("/healthz").status_code == 200
        assert client.get("/readyz").status_code == 503  # no supervisor runs here
        assert not held.done()
    finally:
        release.set()
