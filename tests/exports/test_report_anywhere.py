"""A report on a web server and as a file."""

import shutil
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from bon.running.reporting import report_run


@pytest.fixture(scope="module")
def reported(run, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("report") / "run"
    shutil.copytree(run, folder)
    report_run(folder, quiet=True)
    return folder


@pytest.mark.browser
@pytest.mark.parametrize("served", [True, False], ids=["http", "file"])
@pytest.mark.parametrize("width", [1280, 390])
def test_a_report_works_from_anywhere_and_asks_nobody(reported, tab, served, width):
    from playwright.sync_api import expect

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(reported)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    home = f"http://127.0.0.1:{server.server_port}/" if served else f"{reported.as_uri()}/"
    asked: list[str] = []
    tab.on("request", lambda request: asked.append(request.url))
    tab.set_viewport_size({"width": width, "height": 800})
    tab.goto(f"{home}report.html")
    tab.evaluate("document.querySelectorAll('details').forEach(fold => fold.open = true)")
    expect(tab.locator("#view img").first).to_have_js_property("naturalWidth", 112)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    server.shutdown()
    assert all(url.startswith((home, "data:")) for url in asked), asked


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass
