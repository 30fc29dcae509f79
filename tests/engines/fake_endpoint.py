"""A real HTTP server that speaks the chat completions protocol and misbehaves on demand."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Reply = tuple[int, dict[str, str], Any]


class FakeEndpoint(ThreadingHTTPServer):
    """`behave(number, body)` gives (status, headers, body) or None for an ordinary answer."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, behave: Callable[[int, dict[str, Any]], Reply | None], delay: float) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.behave, self.delay = behave, delay
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.times: list[float] = []
        self.paths: list[str] = []
        self.in_flight = self.most_in_flight = self.connections = self.open = 0
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class _Handler(BaseHTTPRequestHandler):
    server: FakeEndpoint
    protocol_version = "HTTP/1.1"  # connections stay open

    def handle(self) -> None:
        with self.server.lock:
            self.server.connections += 1
            self.server.open += 1
        super().handle()
        with self.server.lock:
            self.server.open -= 1

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        server = self.server
        with server.lock:
            server.bodies.append(body)
            server.paths.append(self.path)
            server.headers.append(dict(self.headers))
            server.times.append(time.monotonic())
            number = len(server.bodies) - 1
            server.in_flight += 1
            server.most_in_flight = max(server.most_in_flight, server.in_flight)
        time.sleep(server.delay)
        status, headers, answer = server.behave(number, body) or (200, {}, ordinary(body))
        with server.lock:
            server.in_flight -= 1
        data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        pass


def ordinary(body: dict[str, Any]) -> dict[str, Any]:
    """What a well-behaved server answers: the seed, echoed."""
    count = body.get("n", 1)
    choices = []
    for index in range(count):
        seed = body["seed"] + index if "seed" in body else "none"
        choice: dict[str, Any] = {
            "index": index,
            "message": {"role": "assistant", "content": f"Answer: {seed}"},
            "finish_reason": "stop",
        }
        if body.get("logprobs"):
            top = [{"token": t, "logprob": v} for t, v in (("Yes", -0.1), ("No", -2.4), ("x", -9))]
            choice["logprobs"] = {
                "content": [
                    {"token": "Yes", "logprob": -0.1,
                     "top_logprobs": top[: body.get("top_logprobs", 0)]},
                    {"token": ".", "logprob": -0.2, "top_logprobs": []},
                ]
            }  # fmt: skip
        choices.append(choice)
    # Backwards: the index says which is which.
    usage = {"prompt_tokens": 100, "completion_tokens": 10 * count}
    return {"choices": choices[::-1], "usage": usage}


@contextmanager
def serve(
    behave: Callable[[int, dict[str, Any]], Reply | None] = lambda *_: None, delay: float = 0.0
) -> Iterator[FakeEndpoint]:
    server = FakeEndpoint(behave, delay)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
