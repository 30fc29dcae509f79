"""Load on the selector: concurrent /v1/score calls on the echo engine, then an overload.

    python tools/bench/bench_service.py [--calls 4000] [--concurrency 200] [--backend ray]

Prints a Markdown table: calls per second, latency, errors; then how an overload is answered and
how long the first call after it takes. The echo engine answers at once, so what is measured is
the server, the guard and the way to the model.
"""

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import httpx
from measured import Side, note

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.service.server import serving

ENGINE = {"engine": "echo", "placement": {"group": "all", "cpus": 0.1}}


def settings(backend, latency=0.0, **scaling):
    rewarder = {**ENGINE, "name": "head", "kind": "scalar", "engine_args": {"latency": latency}}
    online = {"backend": backend, "rewarders": [rewarder], "scaling": scaling}
    return {"online": online}


def body(number):
    question = f"What is {number} + {number} at {time.time_ns()}?"  # asked once: none is remembered
    return {
        "rewarder": "head",
        "messages": [{"role": "user", "content": question}],
        "candidates": [str(2 * number), str(2 * number + 1)],
    }


async def load(url, calls, concurrency):
    """Statuses, latencies in seconds, and the wall time of `calls` calls."""
    statuses, latencies = Counter(), []
    numbers = iter(range(calls))

    async def work():
        # A client each: one pool of 200 connections costs more than the server does.
        async with httpx.AsyncClient(base_url=url, timeout=120, verify=False) as client:
            for number in numbers:
                started = time.perf_counter()
                try:
                    answer = await client.post("/v1/score", json=body(number))
                    statuses[answer.status_code] += 1
                except httpx.TransportError as error:
                    statuses[type(error).__name__] += 1
                latencies.append(time.perf_counter() - started)

    started = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(concurrency)))
    return statuses, sorted(latencies), time.perf_counter() - started


def wait_ready(client):
    while not client.get("/readyz").json()["ready"]:
        time.sleep(0.5)
    while client.post("/v1/score", json=body(0)).status_code != 200:
        time.sleep(0.2)


def row(name, statuses, latencies, seconds):
    calls = sum(statuses.values())
    parts = [
        statistics.median(latencies),
        latencies[int(0.95 * calls)],
        latencies[int(0.99 * calls)],
    ]
    cells = [f"{1000 * part:.0f} ms" for part in [*parts, latencies[-1]]]
    told = ", ".join(f"{count} x {status}" for status, count in sorted(statuses.items(), key=str))
    print(
        f"| {name} | {calls} | {calls / seconds:.0f} | {' | '.join(cells)} | {told} |", flush=True
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=4000)
    parser.add_argument("--concurrency", type=int, default=200)
    parser.add_argument("--backend", choices=("ray", "process"), default="ray")
    options = parser.parse_args()
    address = {"ray_address": os.environ["BON_TEST_RAY"]} if "BON_TEST_RAY" in os.environ else {}
    print(f"{os.cpu_count()} cores, Python {sys.version.split()[0]}, backend {options.backend}\n")
    print("| load | calls | calls/s | median | p95 | p99 | slowest | answers |")
    print("|---|---:|---:|---:|---:|---:|---:|---|")
    with tempfile.TemporaryDirectory() as folder:
        wanted = settings(options.backend, max_ongoing_requests=256, max_queued_requests=1000)
        with serving(Path(folder), **wanted, **address) as server:
            wait_ready(server.client)
            url = str(server.client.base_url)
            result = asyncio.run(load(url, options.calls, options.concurrency))
            row(f"{options.concurrency} at once", *result)
            rate = options.calls / result[2]
            what = f"service, {options.backend}, {options.concurrency} calls at once"
            note(what, "calls/s", Side("bon", rate, wall=result[2]))
            assert set(result[0]) == {200}, result[0]
    with tempfile.TemporaryDirectory() as folder:
        wanted = settings(
            options.backend, latency=0.2, max_ongoing_requests=8, max_queued_requests=16
        )
        with serving(Path(folder), **wanted, **address) as server:
            wait_ready(server.client)
            url = str(server.client.base_url)
            result = asyncio.run(load(url, options.calls // 4, options.concurrency))
            row("more than fits", *result)
            assert set(result[0]) <= {200, 429}, result[0]
            started = time.perf_counter()
            answer = server.client.post("/v1/score", json=body(1))
            seconds = time.perf_counter() - started
            print(f"\nAfter the overload: {answer.status_code} in {1000 * seconds:.0f} ms.")


if __name__ == "__main__":
    main()
