"""A model hub on this machine, as far as huggingface_hub downloads from one."""

import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

MISSING = {"X-Error-Code": "EntryNotFound"}


class Hub(ThreadingHTTPServer):
    """Serves FOLDER/ORG/NAME as the model ORG/NAME, with one commit."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder = folder
        self.sent = 0
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """The address for HF_ENDPOINT."""
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Hub
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        parts = unquote(urlsplit(self.path).path).strip("/").split("/")
        api = parts[:2] == ["api", "models"]
        name = "/".join(parts[2:4] if api else parts[:2])
        root = self.server.folder / name
        if not root.is_dir():
            return self.reply(404, b"{}", {"X-Error-Code": "RepoNotFound"})
        commit = hashlib.sha1(name.encode()).hexdigest()
        files = sorted(path for path in root.iterdir() if path.is_file())
        if api and "tree" in parts:
            rows = [
                {"type": "file", "path": path.name, "size": path.stat().st_size, "oid": commit}
                for path in files
            ]
            inside = len(parts) > parts.index("tree") + 2
            if inside:
                return self.reply(404, b"{}", MISSING)
            return self.reply(200, json.dumps(rows).encode(), {})
        if api:
            siblings = [{"rfilename": path.name} for path in files]
            body = json.dumps(
                {"id": name, "sha": commit, "siblings": siblings, "tags": []}
            ).encode()
            return self.reply(200, body, {})
        path = root / "/".join(parts[4:])
        if parts[2:3] != ["resolve"] or not path.is_file():
            return self.reply(404, b"", MISSING | {"X-Repo-Commit": commit})
        data = path.read_bytes()
        etag = f'"{hashlib.sha256(data).hexdigest()}"'
        return self.reply(200, data, {"X-Repo-Commit": commit, "ETag": etag})

    do_HEAD = do_GET  # noqa: N815 - the base class looks for this name

    def reply(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        """Send a reply; of a HEAD request, its headers alone."""
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)
            self.server.sent += len(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""
