"""The openai engine against bare clients on one endpoint: answers per second and CPU per answer.

The endpoint is a process of its own that answers every request the same after a fixed time. A bare
client is a loop over one connection per place in flight, with the images encoded beforehand: what
a script for the purpose does. Rounds alternate, the best of each counts.
"""

import argparse
import asyncio
import base64
import hashlib
import io
import json
import multiprocessing
import random
import time
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any

import httpx
from measured import Side, note
from PIL import Image

from bon.core.sampling import Sampling
from bon.engines import build
from bon.engines.base import GenerateRequest, ImagePart, Message

IN_FLIGHT = 64
TEXT = "Overall Judgment: Answer 1 is better. " * 8


def endpoint(latency: float, pipe: Any, samples: int = 1) -> None:
    """Serve until killed; sends the port."""
    choices = [
        {"index": at, "message": {"content": TEXT}, "finish_reason": "stop"}
        for at in range(samples)
    ]
    usage = {"prompt_tokens": 900, "completion_tokens": 80 * samples}

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        body = json.dumps({"choices": choices, "usage": usage}).encode()
        head = f"HTTP/1.1 200 OK\r\ncontent-length: {len(body)}\r\n\r\n".encode()
        try:
            while True:
                asked = await reader.readuntil(b"\r\n\r\n")
                length = asked.lower().split(b"content-length:")[1].split(b"\r\n")[0]
                await reader.readexactly(int(length))
                await asyncio.sleep(latency)
                writer.write(head + body)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def main() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0, limit=2**22)
        pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(main())


def requests(count: int, side: int, samples: int = 1) -> list[GenerateRequest]:
    """Calls on questions with a square image of noise, sixteen per question."""
    draw = random.Random(0)
    sampling = Sampling(max_tokens=80, temperature=float(samples > 1))
    made = []
    for _ in range(count // 16 + 1):
        image = io.BytesIO()
        Image.frombytes("RGB", (side, side), draw.randbytes(side * side * 3)).save(image, "PNG")
        part = ImagePart(hashlib.sha256(image.getvalue()).hexdigest(), image.getvalue())
        for _ in range(16):
            words = " ".join(str(draw.random()) for _ in range(150))
            messages = (Message("user", (part, f"Which is better?\n{words}")),)
            seed = draw.randrange(2**31)
            made.append(GenerateRequest(messages, sampling, tuple(range(seed, seed + samples))))
    return made[:count]


async def bare(url: str, asked: list[GenerateRequest]) -> None:
    """One connection per place, bodies as a script would send them."""
    encoded: dict[str, str] = {}
    for request in asked:
        image = request.messages[0].parts[0]
        assert isinstance(image, ImagePart)
        if image.sha256 not in encoded:
            encoded[image.sha256] = base64.b64encode(image.data).decode()
    context = httpx.create_ssl_context()
    todo = iter(asked)

    async def place() -> None:
        async with httpx.AsyncClient(verify=context, timeout=60) as client:
            for request in todo:
                image, text = request.messages[0].parts
                assert isinstance(image, ImagePart)
                link = f"data:image/png;base64,{encoded[image.sha256]}"
                parts = [
                    {"type": "image_url", "image_url": {"url": link}},
                    {"type": "text", "text": text},
                ]
                body = {
                    "model": "m",
                    "messages": [{"role": "user", "content": parts}],
                    "temperature": request.sampling.temperature,
                    "max_tokens": 80,
                    "seed": request.seeds[0],
                    "n": len(request.seeds),
                }
                answer = await client.post(f"{url}/chat/completions", json=body)
                texts = [choice["message"]["content"] for choice in answer.json()["choices"]]
                assert len(texts) == len(request.seeds)

    await asyncio.gather(*(place() for _ in range(IN_FLIGHT)))


async def engine(url: str, asked: list[GenerateRequest]) -> None:
    """All requests at once; the engine bounds what is in flight."""
    can = {"n": True, "seed": "loose"}
    settings = {"base_url": url, "model": "m", "api_key_env": None, "capabilities": can}
    made = build("openai", settings | {"concurrency": IN_FLIGHT, "max_concurrency": IN_FLIGHT})
    await asyncio.gather(*(made.generate(request) for request in asked))
    await made.close()


def measured(run: Callable[[], Coroutine[Any, Any, None]]) -> tuple[float, float]:
    """(seconds of wall, of CPU)."""
    wall, cpu = time.perf_counter(), time.process_time()
    asyncio.run(run())
    return time.perf_counter() - wall, time.process_time() - cpu


def best_of(
    rounds: int, clients: Mapping[str, Callable[[], tuple[float, float]]]
) -> dict[str, tuple[float, float]]:
    """The least seconds of wall and of CPU of each client; in every round each has its turn."""
    best: dict[str, tuple[float, float]] = {}
    for _ in range(rounds):
        for name, run in clients.items():
            found = run()
            old = best.get(name, found)
            best[name] = (min(old[0], found[0]), min(old[1], found[1]))
    return best


def main() -> None:
    """Print a table per latency of the endpoint."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--latency", type=float, nargs="*", default=[0.05, 0.5])
    parser.add_argument("--side", type=int, default=96, help="of an image, in pixels")
    parser.add_argument("--samples", type=int, default=1, help="of each request")
    arguments = parser.parse_args()
    samples = arguments.samples
    asked = requests(arguments.calls, arguments.side, samples)
    part = asked[0].messages[0].parts[0]
    assert isinstance(part, ImagePart)
    print(
        f"{arguments.calls} calls with an image of {len(part.data) / 1024:.0f} kB, "
        f"{IN_FLIGHT} in flight, best of {arguments.rounds} rounds"
    )
    print(f"{'latency':>8} {'':<7} {'calls/s':>8} {'CPU ms/call':>12} {'of bare':>8}")
    for latency in arguments.latency:
        ours, theirs = multiprocessing.Pipe()
        server = multiprocessing.Process(
            target=endpoint, args=(latency, theirs, samples), daemon=True
        )
        server.start()
        url = f"http://127.0.0.1:{ours.recv()}/v1"
        clients = {"bare": bare, "engine": engine}
        best = best_of(
            arguments.rounds,
            {
                name: partial(measured, partial(client, url, asked))
                for name, client in clients.items()
            },
        )
        for name, (wall, cpu) in best.items():
            print(
                f"{latency:>7.2f}s {name:<7} {len(asked) / wall:>8.0f} "
                f"{1000 * cpu / len(asked):>12.2f} {best['bare'][0] / wall:>8.2f}"
            )
        note(
            f"openai engine, {1000 * latency:.0f} ms, samples per call: {samples}",
            "calls/s",
            *(
                Side(name if name == "bare" else "bon", len(asked) / wall, cpu, wall)
                for name, (wall, cpu) in sorted(best.items(), reverse=True)
            ),
            at_least=0.95,
        )
        server.terminate()


if __name__ == "__main__":
    main()
