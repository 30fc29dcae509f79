"""A real HTTP server that speaks the chat completions protocol and misbehaves on demand."""

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Reply = tuple[int, dict[str, str], Any]
DROPPED = 0
"""As a status: the connection is closed without a reply."""


class FakeEndpoint(ThreadingHTTPServer):
    """`behave(number, body)` gives (status, headers, body) or None for an ordinary answer."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(
        self,
        behave: Callable[[int, dict[str, Any]], Reply | None],
        delay: float,
        port: int = 0,
    ) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.behave, self.delay = behave, delay
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.times: list[float] = []
        self.paths: list[str] = []
        self.in_flight = self.most_in_flight = self.connections = self.open = 0
        self.lock = threading.Lock()

    def handle_error(self, *_: Any) -> None:
        """Say nothing of clients that hang up."""

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
        if status == DROPPED:
            self.close_connection = True
            return
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


class Billing:
    """Behaviour of an endpoint that keeps its own bill: `dollars` for each completion (10 tokens).

    `kind(number, body)` names what happens: ok, fewer (one choice less than asked), missing,
    negative, text, nan (the `usage`), 429, 500, 402, quota, drop (billed, and no reply), beside
    (reasoning that the total alone names), float, absurd (10^12 tokens), error (a 200 that says
    one, not billed), stream (billed, and no JSON). `sold` counts the completions that were
    delivered, by prompt. `text` is what each says.
    """

    def __init__(
        self,
        kind: Callable[[int, dict[str, Any]], str] = lambda *_: "ok",
        dollars: float = 1.0,
        text: str = "",
    ) -> None:
        self.kind, self.dollars, self.text = kind, dollars, text
        self.bill = 0.0
        self.sold: Counter[str] = Counter()
        self.kinds: list[str] = []
        self.lock = threading.Lock()

    def __call__(self, number: int, body: dict[str, Any]) -> Reply:
        kind = self.kind(number, body)
        with self.lock:
            self.kinds.append(kind)
        if kind in REFUSALS:
            return REFUSALS[kind]
        asked = body.get("n", 1)
        count = max(1, asked - 1) if kind == "fewer" else asked
        answer = ordinary({**body, "n": count})
        for choice in answer["choices"]:  # as many bytes as make 10 tokens where nobody else counts
            text = self.text or choice["message"]["content"]
            choice["message"]["content"] = text.ljust(27)
            choice.pop("logprobs", None)
        with self.lock:
            self.bill += count * self.dollars
            if kind not in ("drop", "stream"):
                self.sold[json.dumps(body["messages"], sort_keys=True)] += count
        if kind == "drop":
            return DROPPED, {}, b""
        if kind == "stream":
            return 200, {"content-type": "text/event-stream"}, b"data: {}\n\ndata: [DONE]\n\n"
        if kind == "missing":
            del answer["usage"]
        elif kind == "beside":
            details = {"reasoning_tokens": 9 * count}
            answer["usage"] |= {
                "prompt_tokens": 0, "completion_tokens": count, "total_tokens": 10 * count,
                "completion_tokens_details": details,
            }  # fmt: skip
        elif kind == "float":
            answer["usage"]["completion_tokens"] *= 1.0
        elif kind == "absurd":
            answer["usage"]["completion_tokens"] = 10**12
        elif kind in NONSENSE:
            answer["usage"] = dict.fromkeys(("prompt_tokens", "completion_tokens"), NONSENSE[kind])
        return 200, {}, answer


REFUSALS: dict[str, Reply] = {
    "429": (429, {"retry-after": "0"}, {"error": {"message": "slow down"}}),
    "500": (500, {}, {"error": {"message": "oops"}}),
    "402": (402, {}, {"error": {"message": "Insufficient credits"}}),
    "quota": (429, {}, {"error": {"message": "You exceeded it", "code": "insufficient_quota"}}),
}
REFUSALS["error"] = 200, {}, {"error": {"message": "no upstream", "code": 502}}
NONSENSE: dict[str, Any] = {"negative": -10, "text": "many", "nan": float("nan")}


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
