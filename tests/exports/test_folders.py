"""Folders to publish: a dataset with its card, and a report for a web server."""

import shutil
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from bon.exports import export_run, licences
from bon.exports.licences import Licence, licence_of
from bon.running.reporting import report_run
from bon.storage.store import Store


@pytest.fixture(scope="module")
def folder(run, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("hub")
    export_run(run, out, "hub-folder")
    return out


def front_matter(folder: Path) -> dict:
    return yaml.safe_load((folder / "README.md").read_text().split("---\n")[1])


def test_every_config_of_the_card_loads(run, folder, tmp_path):
    datasets = pytest.importorskip("datasets")

    def loaded(name: str | None):
        return datasets.load_dataset(
            str(folder), name, split="train", cache_dir=str(tmp_path / "cache")
        )

    with Store(run, readonly=True) as store:
        texts = {text for (text,) in store.query("SELECT text FROM candidates")}
        assert set(loaded(None)["text"]) == texts
        (question,) = loaded("questions").select([0])
        assert question["text"] == next(store.questions()).text
        assert question["images"][0].size == (112, 112)
        assert loaded("judgements").num_rows == store.count("judgements")
    files = {config["data_files"][0]["path"] for config in front_matter(folder)["configs"]}
    assert files == {f"data/{path.name}" for path in (folder / "data").iterdir()}


def test_what_may_not_be_passed_on_is_left_out_and_said(run, tmp_path, monkeypatch):
    import pyarrow.parquet as pq

    shut = Licence("CC BY-ND", "no derivatives", shareable=False)
    monkeypatch.setattr(licences, "licence_of", lambda name: shut)
    export_run(run, tmp_path, "hub-folder")
    columns = set(pq.read_schema(tmp_path / "data" / "questions.parquet").names)
    assert {"id", "answer"} <= columns
    assert not columns & {"text", "options", "images"}
    assert not (tmp_path / "report.html").exists()
    assert not (tmp_path / "report_files").exists()
    card = (tmp_path / "README.md").read_text()
    assert "Texts, options and images of mmmu_pro, and the report, are left out" in card
    assert "**mmmu_pro** (CC BY-ND): no derivatives" in card
    assert front_matter(tmp_path)["license"] == "other"


@pytest.mark.parametrize(
    ("name", "share", "says"),
    [
        ("Apache-2.0", True, ""),
        ("MIT", True, ""),
        ("MIT (its page: research use only)", False, "research use only"),
        ("CC BY-NC 4.0", True, "no commercial use"),
        ("CC BY-NC-ND 4.0", False, "no derivatives"),
        ("OpenAI's terms of service", True, "competing models"),
        ("Qwen Research Licence (non-commercial)", True, "no commercial use"),
        ("not stated", False, "not stated"),
        ("something new", False, "not stated"),
        ("as the data", True, "only you know"),
    ],
)
def test_licences_are_read_by_name(name, share, says):
    found = licence_of(name)
    assert found.shareable == share
    assert says in found.terms
    assert bool(says) == bool(found.terms)


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
