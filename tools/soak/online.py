"""A server under a steady, priced load: its memory a minute, and what was billed and counted.

    python tools/soak/online.py --minutes 60

Eight clients ask `/v1/score` for candidates that are new each time; an endpoint on this machine
answers at $1 a completion. Prints the resident memory of the server once a minute; exits 1 where
the second half of the time took more than a twentieth more than its first minute, or where
billed and counted differ.
"""

import argparse
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import httpx
import psutil

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from bon.core.ledger import LEDGER, spent_by_spec  # noqa: E402
from tests.engines.fake_endpoint import Billing, serve  # noqa: E402
from tests.service.test_online_money import serving  # noqa: E402

CLIENTS = 8


def ask(url: str, client: int, answers: Counter[int], end: float) -> None:
    """Ask again and again, each time for two new candidates."""
    number = 0
    with httpx.Client(timeout=60) as http:
        while time.monotonic() < end:
            number += 1
            body = {
                "rewarder": "judge",
                "messages": [{"role": "user", "content": f"What is {client} + {number}?"}],
                "candidates": [f"{client + number}, I think", f"{client - number}, surely"],
            }
            answers[http.post(f"{url}/v1/score", json=body).status_code] += 1


def megabytes() -> float:
    """Return the resident memory of the server in MiB."""
    servers = [p for p in psutil.Process().children(recursive=True) if "serve" in p.cmdline()]
    return sum(p.memory_info().rss for p in servers) / 2**20


def main() -> int:
    """Load the server; return the exit code."""
    parser = argparse.ArgumentParser(description="A server under a steady, priced load.")
    parser.add_argument("--minutes", type=int, default=60)
    minutes = parser.parse_args().minutes
    billing = Billing(text="Score: 7")
    answers: Counter[int] = Counter()
    with tempfile.TemporaryDirectory() as folder, serve(billing, 0.02) as endpoint:
        place = Path(folder)
        with serving(
            place, endpoint.url, dict.fromkeys(("dollars", "dollars_per_owner"), 1e7)
        ) as url:
            end = time.monotonic() + 60 * minutes
            threads = [
                threading.Thread(target=ask, args=(url, client, answers, end))
                for client in range(CLIENTS)
            ]
            for thread in threads:
                thread.start()
            memory = []
            while time.monotonic() < end - 5:
                time.sleep(min(60, max(1, end - 5 - time.monotonic())))
                memory.append(megabytes())
                print(f"{len(memory)} min: {memory[-1]:.0f} MiB, {dict(answers)}", flush=True)
            for thread in threads:
                thread.join()
        counted = sum(spent_by_spec(place / "data" / LEDGER).values())
    print(f"billed ${billing.bill:.2f}, counted ${counted:.2f}")
    grown = max(memory[len(memory) // 2 :]) > 1.05 * memory[len(memory) // 4]
    return int(grown or abs(counted - billing.bill) > 0.005 or set(answers) != {200})


if __name__ == "__main__":
    sys.exit(main())
