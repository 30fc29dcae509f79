"""Weights from the hub are downloaded once, before the work, and it is said how far they are."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from bon.running import weights
from bon.running.weights import fetch_weights, weight_files
from bon.work.setup import prepare

pytest.importorskip("huggingface_hub")

COMMIT = "c" * 40
FILES = {
    "config.json": b"{}",
    "model.safetensors": b"w" * 300_000_000,
    "pytorch_model.bin": b"b" * 1000,
    "original/consolidated.00.pth": b"p" * 1000,
    "model.gguf": b"g" * 1000,
}


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """A hub with one model, whose weights come once two lines on them have been said."""
    asked, said, slow = [], [], threading.Event()

    class Hub(BaseHTTPRequestHandler):
        def do_GET(self):
            path = self.path.partition("?")[0]
            name = path.partition("/resolve/")[2].partition("/")[2]
            body = FILES.get(name)
            if "/tree/" in path:
                tree = [
                    {"type": "file", "path": n, "size": len(b), "oid": n} for n, b in FILES.items()
                ]
                body = json.dumps(tree).encode()
            elif body is None:
                files = [{"rfilename": n, "size": len(b)} for n, b in FILES.items()]
                body = json.dumps({"id": "org/big", "sha": COMMIT, "siblings": files}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("ETag", f'"{hash(body) % 10**12}"')
            self.send_header("X-Repo-Commit", COMMIT)
            self.end_headers()
            if self.command == "GET":
                asked.append(name)
                if name == "model.safetensors":
                    self.wfile.write(body[:200_000_000])
                    self.wfile.flush()
                    slow.wait(60)
                    self.wfile.write(body[200_000_000:])
                else:
                    self.wfile.write(body)

        do_HEAD = do_GET

        def log_message(self, *_):
            pass

    def report(line):
        said.append(line)
        if "0.2 of 0.3 GB" in line:
            slow.set()

    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_XET", True)
        monkeypatch.setattr(weights, "LINE_SECONDS", 0.2)
        yield asked, said, report
        server.shutdown()


def test_weights_are_fetched_once_for_all_models_with_lines_on_it(hub, make_experiment, tmp_path):
    asked, said, report = hub
    experiment = make_experiment()
    for place in (experiment["policies"][0], experiment["rewarders"][0]):
        place |= {"engine": "transformers", "model": "org/big", "engine_args": {}}
    setup = prepare(experiment, tmp_path)
    fetch_weights(setup.models, report)
    assert said[0] == "org/big: downloading 0.3 GB"
    assert "org/big: 0.2 of 0.3 GB downloaded" in said
    assert sorted(name for name in asked if name) == ["config.json", "model.safetensors"]
    said.clear()
    asked.clear()
    fetch_weights(setup.models, report)
    assert said == []
    assert not any(asked)


def test_one_form_of_the_weights_is_fetched():
    assert weight_files(["a.bin", "config.json"]) == ["a.bin", "config.json"]
    assert weight_files(FILES) == ["config.json", "model.safetensors"]
