"""`bon serve` as a process of its own, and its application in this one."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import uvicorn
import yaml
from fastapi import FastAPI
from starlette.testclient import TestClient

from bon.service.app import create_app, listening_socket
from bon.service.server.state import open_service
from bon.service.settings import Settings
from tests.conftest import write_pairs, write_questions


def write_data(folder: Path, questions: int, pairs: int) -> None:
    """The files of an experiment, where a server in the folder finds them."""
    files = folder / "data" / "files"
    files.mkdir(parents=True)
    write_questions(files / "questions.jsonl", questions)
    write_pairs(files / "pairs.jsonl", pairs)


@contextlib.contextmanager
def idle(settings: Settings, base_url: str = "http://localhost") -> Iterator[TestClient]:
    """A client of a server that starts no validation: its supervisor does not run."""
    with open_service(settings) as service:
        service.supervisor.start = service.supervisor.stop = lambda: None
        with TestClient(create_app(service), base_url=base_url) as client:
            yield client


@contextlib.contextmanager
def served(app: FastAPI) -> Iterator[str]:
    """Run an application on a port of its own and yield its address."""
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, ws="none"))
    with listening_socket("127.0.0.1", 0) as listener:
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            while not server.started:
                assert thread.is_alive()
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


class Server:
    """A server on a free port of loopback; `start` and `kill -9` as often as wanted."""

    def __init__(self, folder: Path, **settings: object) -> None:
        self.folder = folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        for library in ("bon", "datasets", "tokenizers"):  # not to be taken for the libraries
            (folder / f"{library}.py").write_text("raise RuntimeError('a file of somebody')")
        self.config = folder / "settings.yaml"
        values = {
            "data": str(folder / "data"),
            "port": self.port,
            "miniature": False,
            "auth": False,
        }
        values |= settings
        values.setdefault("limits", {"requests_per_minute": 0})
        self.config.write_text(yaml.safe_dump(values))
        self.address = f"http://127.0.0.1:{self.port}"
        self.client = httpx.Client(base_url=self.address, timeout=60)
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def printed_token(self) -> str:
        """That of the address at which its operator signs in."""
        (token,) = re.findall(r"/login#(bon_\S+)", (self.folder / "server.log").read_text())
        return str(token)

    def start(self) -> None:
        """Start and wait until it answers."""
        with (self.folder / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                [Path(sys.executable).with_name("bon"), "serve", "--config", self.config],
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
                start_new_session=True,
            )
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and self.process.poll() is None:
            with contextlib.suppress(httpx.TransportError):
                if self.client.get("/healthz").status_code == 200:
                    return
            time.sleep(0.2)
        raise AssertionError((self.folder / "server.log").read_text()[-3000:])

    def kill(self) -> None:
        """As the kernel does when memory is short."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        """Ask it to end, and wait until it has."""
        assert self.process is not None
        self.process.terminate()
        self.process.wait(timeout=120)


@contextlib.contextmanager
def serving(folder: Path, **settings: object) -> Iterator[Server]:
    """A running server that is stopped at the end."""
    server = Server(folder, **settings)
    server.start()
    try:
        yield server
    finally:
        if server.process is not None and server.process.poll() is None:
            server.stop()
        server.client.close()
