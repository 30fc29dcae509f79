"""A server under a prefix, behind a real proxy that strips it or passes it on."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import httpx
import pytest

from bon.core.errors import BonError
from bon.service.app import create_app, welcome
from bon.service.server.state import open_service
from bon.service.settings import read_settings
from tests.service.server import served
from tests.service.test_pages import HTML, made_up_run


@contextmanager
def proxied(upstream: str, prefix: str, strips: bool) -> Iterator[str]:
    """Serve an upstream under a prefix, as nginx does; every other path is 404."""

    class Proxy(BaseHTTPRequestHandler):
        def forward(self) -> None:
            if not self.path.startswith(f"{prefix}/"):
                self.send_error(404, "not bon's")
                return
            path = self.path.removeprefix(prefix) if strips else self.path
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {**self.headers, "X-Forwarded-For": "203.0.113.7"}
            with httpx.Client(follow_redirects=False) as client:
                reply = client.request(self.command, upstream + path, headers=headers, content=body)
            self.send_response(reply.status_code)
            for name, value in reply.headers.multi_items():
                if name not in ("connection", "content-length", "transfer-encoding"):
                    self.send_header(name, value)
            self.send_header("content-length", str(len(reply.content)))
            self.end_headers()
            self.wfile.write(reply.content)

        do_GET = do_POST = do_DELETE = forward

        def log_message(self, *_: object) -> None:
            pass

    proxy = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    thread = threading.Thread(target=proxy.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{proxy.server_port}"
    finally:
        proxy.shutdown()
        proxy.server_close()
        thread.join()


@pytest.mark.parametrize("strips", [True, False])
def test_a_server_under_a_prefix(settings, strips):
    settings = settings.model_copy(update={"auth": True, "root_path": "/bon"})
    with open_service(settings) as service:
        service.supervisor.start = service.supervisor.stop = lambda: None
        token = service.tokens.add("ann", "submit")
        app = create_app(service)
        with (
            served(app) as upstream,
            proxied(upstream, "/bon", strips) as address,
            httpx.Client(base_url=address, headers=HTML, follow_redirects=True) as client,
        ):
            assert client.get("/bon/readyz").status_code in (200, 503)
            assert client.get("/bon/healthz").status_code == 200
            login = client.get("/bon/new")
            assert login.url.path == "/bon/login"
            form = dict(re.findall(r'name="(\w+)" value="([^"]+)"', login.text))
            assert form == {"to": "/bon/new"}
            action = re.search(r'id="login" method="post" action="([^"]+)"', login.text)[1]
            page = client.post(action, data={**form, "token": token}, headers={"origin": address})
            assert (page.status_code, page.url.path) == (200, "/bon/new")
            (cookie,) = client.cookies.jar
            assert cookie.path == "/bon"
            assert client.get("/bon/").url.path == "/bon/validations"
            assert f"{address}/bon/v1/validations" in client.get("/bon/validations").text
            schema = client.get("/bon/v1/openapi.json").json()
            assert schema["servers"] == [{"url": "/bon"}]

            client.headers["authorization"] = f"Bearer {token}"
            client.base_url = f"{address}/bon"
            meta = "<p>the report"
            key = made_up_run(
                SimpleNamespace(post=client.post, app=app), settings, report__html=meta
            )
            client.base_url = address
            del client.headers["authorization"]
            report = client.get(f"/bon/validations/{key}/report")
            assert report.url.path.startswith(f"/bon/reports/{key}/")
            assert meta in report.text

            for path in ("validations", f"validations/{key}", "new", "annotate"):
                text = client.get(f"/bon/{path}").text
                links = re.findall(r'(?:src|href|action|data-path|data-then)="(/[^"]*)"', text)
                assert len(links) > 5
                assert all(link.startswith("/bon/") for link in links), links
                for link in set(re.findall(r'(?:src|href)="(/bon/static/[^"]+)"', text)):
                    assert client.get(link).status_code == 200
            assert 'href="/bon/new" aria-current="page"' in client.get("/bon/new").text

            end = client.post("/bon/logout", headers={"origin": address})
            assert end.url.path == "/bon/login"
            assert not list(client.cookies.jar)


def test_targets_outside_the_prefix_are_not_redirected_to(settings):
    settings = settings.model_copy(update={"auth": True, "root_path": "/bon"})
    with open_service(settings) as service:
        service.supervisor.start = service.supervisor.stop = lambda: None
        with served(create_app(service)) as upstream:
            for target in ("/other", "/bonus/x", "/bon//evil", "//evil", "/bon/\\evil", "/bon"):
                text = httpx.get(f"{upstream}/login", params={"to": target}).text
                assert 'name="to" value="/bon/"' in text, target


def test_the_root_path_is_checked_and_printed(settings):
    assert ":8321/bon/login" in welcome(
        settings.model_copy(update={"auth": True, "root_path": "/bon"}), 8321, None
    )
    for invalid in ("bon", "/bon/", "//bon", "/..", "/a b"):
        with pytest.raises(BonError, match="root_path"):
            read_settings(None, root_path=invalid)
