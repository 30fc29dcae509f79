"""The functions of VL_RewardBench's inference_hf.py on given questions; bench_peers.py runs it.

    python peer_vlrb.py CHECKOUT QUESTIONS URL IN_FLIGHT

Each line of QUESTIONS is asked once as an item of two answers (the halves of its text), around
which the script writes its own instructions. Prints one line of JSON, as peer_lmms.py does.
"""

import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd


def item(number: int, line: str) -> dict[str, Any]:
    """An item with the columns that the script reads."""
    question = json.loads(line)
    words = question["text"].split()
    half = len(words) // 2
    return {
        "id": str(number),
        "query": "Which is better?",
        "response": [" ".join(words[:half]), " ".join(words[half:])],
        "image": {"bytes": Path(question["images"][0]).read_bytes()},
        "human_ranking": np.array([0, 1]),
        **dict.fromkeys(("models", "judge", "rationale", "query_source"), ""),
    }


def main() -> None:
    """Ask, and say what it took."""
    checkout, file, url, in_flight = sys.argv[1:]
    sys.path.insert(0, checkout)
    import inference_hf

    client = inference_hf.AsyncOpenAI
    inference_hf.AsyncOpenAI = lambda **settings: client(**{**settings, "base_url": url})
    lines = Path(file).read_text(encoding="utf-8").splitlines()
    items = pd.DataFrame([item(number, line) for number, line in enumerate(lines)])
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.jsonl"
        began, cpu = time.perf_counter(), time.process_time()
        asyncio.run(inference_hf.parallel_process(items, "m", str(out), 1, int(in_flight)))
        wall, cpu = time.perf_counter() - began, time.process_time() - cpu
        said = [json.loads(line)["meta"]["filter_number"] for line in out.read_text().splitlines()]
    print(json.dumps({"wall": wall, "cpu": cpu, "answers": sum(one > 0 for one in said)}))


if __name__ == "__main__":
    main()
