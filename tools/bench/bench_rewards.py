"""Responses per second of the reward server under a trainer's load: 64 connections, groups of 8.

python tools/bench/bench_rewards.py [--groups 128]

The client writes to sockets itself: a client library costs more than the server does. Last comes
the miniature's scalar head through HTTP, with images by id, beside the same work done by its
engine alone.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
from measured import Side, note

sys.path.insert(0, str(Path(__file__).parents[2]))

from bon.benchmarks import load_questions
from bon.core.images import ImageStore
from bon.core.keys import content_key
from bon.core.records import Question
from bon.dispatch.worker import Host, JudgeTask
from bon.engines.base import ImagePart
from bon.experiment.config import DatasetSpec
from bon.miniature.data import write
from bon.policies.prompting import question_block
from bon.rewarders.base import Item
from bon.service.online.selector import Selector
from bon.service.settings import Online
from tests.service.server import Server, serving
from tests.service.test_online import CARDS

SIZE, CONNECTIONS = 8, 64
PATHS = (
    "/v1/score",
    "/get_reward?rewarder=head",
)
HEAD = "mini-scalar-b"
QUESTIONS = {"benchmark": "mmmu_pro", "path": "files/miniature/questions.parquet", "limit": 24}


def body(path: str, group: int, place: int) -> dict[str, Any]:
    """One response of a group, as the route takes it."""
    question, answer = f"question {group}", f"answer {place} of {group}"
    if path == "/v1/score":
        messages = [{"role": "user", "content": question}]
        return {"rewarder": "head", "messages": messages, "candidates": [answer]}
    return {"samples": [{"prompt": question, "response": answer}]}


async def ask_all(server: Server, path: str, bodies: list[dict[str, Any]]) -> None:
    """Every body once, over 64 connections that stay open."""
    left = iter(bodies)
    await asyncio.gather(*(_connection(server.port, path, left) for _ in range(CONNECTIONS)))


async def _connection(port: int, path: str, bodies: Iterator[dict[str, Any]]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for one in bodies:
        data = json.dumps(one).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        )
        writer.write(head.encode() + data)
        answer = await reader.readuntil(b"\r\n\r\n")
        length = int(answer.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        text = await reader.readexactly(length)
        assert b" 200 " in answer[:15], (answer, text)
    writer.close()


def measure(server: Server, path: str, bodies: list[dict[str, Any]], responses: int) -> str:
    """Responses per second, and milliseconds of the server's processor for each."""
    assert server.process is not None
    process = psutil.Process(server.process.pid)
    before, began = sum(process.cpu_times()[:2]), time.perf_counter()
    asyncio.run(ask_all(server, path, bodies))
    seconds = time.perf_counter() - began
    spent = sum(process.cpu_times()[:2]) - before
    several = "one request each" if len(bodies) == responses else "512 in one request"
    side = Side("bon", responses / seconds, spent, seconds)
    note(f"reward server, {path}, {several}", "responses/s", side)
    return f"{responses / seconds:,.0f} | {1000 * spent / responses:.2f}"


def echo(count: int) -> None:
    """The server itself: its rewarders answer at once."""
    online = {**{key: CARDS[key] for key in ("policies", "rewarders")}, "backend": "process"}
    print("| | one response per request, per s | ms each | 512 in one request, per s | ms each |")
    print("|---|---:|---:|---:|---:|")
    with serving(Path(tempfile.mkdtemp()), online=online) as server:
        asyncio.run(ask_all(server, PATHS[1], [body(PATHS[1], -1, at) for at in range(256)]))
        for path in PATHS:
            single = [body(path, g, at) for g in range(count) for at in range(SIZE)]
            row = [measure(server, path, single, len(single))]
            if path != "/v1/score":
                groups = [body(path, count + g, at) for g in range(64) for at in range(SIZE)]
                several = [sample for each in groups for sample in each["samples"]]
                row.append(measure(server, path, [{"samples": several}], len(several)))
            print(f"| `{path}` | {' | '.join(row)} |", flush=True)


def _messages(question: Question) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = [{"type": "text", "text": question_block(question)}]
    for ref in question.images:
        url = f"data:image/png;base64,{b64encode(Path(ref.path).read_bytes()).decode()}"
        parts.insert(-1, {"type": "image_url", "image_url": {"url": url}})
    return [{"role": "user", "content": parts}]


def miniature() -> None:
    """A real scalar head: through HTTP, and its engine alone on the same items."""
    folder = Path(tempfile.mkdtemp())
    data = folder / "data"
    write(data / "files" / "miniature")
    online = {"rewarders": [HEAD], "backend": "process"}
    spec = DatasetSpec.model_validate({**QUESTIONS, "path": str(data / QUESTIONS["path"])})
    found = load_questions(spec, ImageStore(data / "images"))
    asked = {one.id: one for one in found if isinstance(one, Question)}
    texts = {name: [f"The answer is {x}, I say {name[-3:]}." for x in "ABCDEFGH"] for name in asked}
    count = sum(map(len, texts.values()))

    async def bare() -> float:
        selector = Selector(Online.model_validate(online), data)
        host = Host(selector.specs())
        loaded = selector.rewarder(HEAD)

        def task(name: str, said: list[str]) -> JudgeTask:
            question, responses = asked[name], {content_key("text", text): text for text in said}
            images = [ImagePart(ref.sha256, Path(ref.path).read_bytes()) for ref in question.images]
            item = Item("question", name, question_block(question), tuple(images), responses)
            return JudgeTask(item, (), loaded.card.votes)

        await host.run(HEAD, [task(next(iter(asked)), ["warm"])])
        began = time.perf_counter()
        tasks = (host.run(HEAD, [task(name, said)]) for name, said in texts.items())
        replies = await asyncio.gather(*tasks)
        assert sum(len(reply.judgements) for reply in replies) == count
        return count / (time.perf_counter() - began)

    alone = asyncio.run(bare())
    with serving(folder, online=online) as server:
        path = f"/get_reward?rewarder={HEAD}"
        asyncio.run(ask_all(server, path, [{"samples": [{"prompt": "x", "response": "warm"}]}]))
        began = time.perf_counter()
        bodies = [
            {"samples": [{"prompt": _messages(asked[name]), "response": t} for t in said]}
            for name, said in texts.items()
        ]
        asyncio.run(ask_all(server, path, bodies))
        over = count / (time.perf_counter() - began)
    note(f"{HEAD} through HTTP", "responses/s", Side("bon", over), Side("its engine alone", alone))
    print(f"\n{HEAD}: {over:.1f} responses/s through HTTP, {alone:.1f} by its engine alone: "
          f"{over / alone:.2f}")  # fmt: skip


if __name__ == "__main__":
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.0f}, Python {sys.version.split()[0]}")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--groups", type=int, default=128)
    echo(parser.parse_args().groups)
    miniature()
