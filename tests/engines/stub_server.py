"""A small server in the place of vLLM's: `stub_server.py FOLDER --model M --host H --port P ...`.

It answers every chat, and notes each start in FOLDER/starts. A text that holds "die" kills it,
once; FOLDER/broken ends it before it is ready.
"""

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

FOLDER, ARGUMENTS = Path(sys.argv[1]), sys.argv[2:]
REPLY = "Answer: A. Overall Judgment: Answer 1 is better."


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.reply({})

    def do_POST(self) -> None:
        text = self.rfile.read(int(self.headers["content-length"])).decode()
        body = json.loads(text)
        if "die" in text and not (FOLDER / "died").exists():
            (FOLDER / "died").touch()
            os._exit(9)
        message = {"role": "assistant", "content": REPLY}
        choices = [
            {"index": index, "message": message, "finish_reason": "stop"}
            for index in range(body.get("n", 1))
        ]
        usage = {"prompt_tokens": 10, "completion_tokens": 10 * len(choices)}
        self.reply({"model": body["model"], "choices": choices, "usage": usage})

    def reply(self, body: Any) -> None:
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        pass


def option(name: str) -> str:
    return ARGUMENTS[ARGUMENTS.index(f"--{name}") + 1]


if __name__ == "__main__":
    with (FOLDER / "starts").open("a") as starts:
        starts.write(json.dumps({"pid": os.getpid(), "arguments": ARGUMENTS}) + "\n")
    print("loading", option("model"), flush=True)
    if (FOLDER / "broken").exists():
        sys.exit("ValueError: no such architecture")
    ThreadingHTTPServer((option("host"), int(option("port"))), Handler).serve_forever()
