"""Other tools beside bon on the same work; a tool that is not installed has a row that says how.

    BON_LMMS_EVAL=VENV/bin/python BON_VL_REWARDBENCH=CHECKOUT python tools/bench/bench_peers.py

- lmms-eval 0.7.3: `pip install lmms-eval==0.7.3 decord` in an environment of its own, whose Python
  BON_LMMS_EVAL is. Its asynchronous client (`async_openai`) asks the endpoint of bench_endpoint.py
  with as many requests in flight, and its class for Qwen2.5-VL (`qwen2_5_vl_chat`) samples answers
  to the miniature's questions.
- VL_RewardBench: BON_VL_REWARDBENCH is a checkout of github.com/vl-rewardbench/VL_RewardBench. The
  functions of its inference_hf.py, with the address of the endpoint in place of port 8000, ask as
  many questions; they need openai, tenacity, datasets and pandas (with lmms-eval they are there).
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import torch
from bench_endpoint import IN_FLIGHT, bare, best_of, endpoint, engine, measured, requests
from measured import Side, note, number

from bon.benchmarks import load_questions
from bon.core.images import ImageStore
from bon.engines.base import GenerateRequest, ImagePart, Message
from bon.engines.hf.engine import TransformersEngine
from bon.engines.settings import TransformersSettings
from bon.experiment.cards import load_policy
from bon.experiment.config import DatasetSpec
from bon.miniature.data import write
from bon.policies.prompting import render_prompt

HERE = Path(__file__).parent
LMMS, SCRIPT = "BON_LMMS_EVAL", "BON_VL_REWARDBENCH"
HOW = {
    LMMS: f"not installed: pip install lmms-eval==0.7.3 decord elsewhere, {LMMS}=its python",
    SCRIPT: f"not installed: {SCRIPT}=a checkout of vl-rewardbench/VL_RewardBench",
}


def main() -> None:
    """Print a line per tool and kind of work."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3, help="of the judge calls")
    parser.add_argument("--latency", type=float, nargs="*", default=[0.05, 0.5])
    parser.add_argument("--questions", type=int, default=200, help="of 8 samples each")
    parser.add_argument("--batch", type=int, default=32, help="sequences at once")
    a = parser.parse_args()
    there = [name for name in HOW if os.environ.get(name)]
    for name in HOW.keys() - there:
        tool = "lmms-eval 0.7.3" if name == LMMS else "the VL_RewardBench script"
        print(f"{tool}: {HOW[name]}")
        note(f"beside {tool}", "", said=HOW[name])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if there:
            calls(folder, there, a.calls, a.latency, a.rounds)
        if LMMS in there:
            samples(folder, a.questions, a.batch)


def calls(folder: Path, there: list[str], count: int, latencies: list[float], rounds: int) -> None:
    """Judge calls to one endpoint through every client, the best of some rounds."""
    asked = requests(count, 96)
    file = written(folder, asked)
    for latency in latencies:
        ours, theirs = multiprocessing.Pipe()
        server = multiprocessing.Process(target=endpoint, args=(latency, theirs), daemon=True)
        server.start()
        url = f"http://127.0.0.1:{ours.recv()}/v1"
        clients = {
            "bon": partial(measured, partial(engine, url, asked)),
            "bare": partial(measured, partial(bare, url, asked)),
        }
        if LMMS in there:
            clients[lmms()] = partial(peer, count, "peer_lmms.py", "openai", file, url, IN_FLIGHT)
        if SCRIPT in there:
            checkout = os.environ[SCRIPT]
            clients["VL_RewardBench"] = partial(
                peer, count, "peer_vlrb.py", checkout, file, url, IN_FLIGHT
            )
        took = best_of(rounds, clients)
        server.terminate()
        sides = [Side(who, count / wall, cpu, wall) for who, (wall, cpu) in took.items()]
        shown(f"{count:,} judge calls, {1000 * latency:.0f} ms", "calls/s", sides)


def samples(folder: Path, count: int, batch: int) -> None:
    """Answers of the miniature's policy, eight per question, one thread each."""
    write(folder / "data", num_questions=count)
    path = str(folder / "data" / "questions.parquet")
    spec = DatasetSpec.model_validate({"benchmark": "mmmu_pro", "path": path})
    policy = load_policy("mini-policy-a", folder)
    asked = []
    for at, question in enumerate(load_questions(spec, ImageStore(folder / "images"))):
        images = [ImagePart(one.sha256, Path(one.path).read_bytes()) for one in question.images]
        message = Message("user", (*images, render_prompt(question, policy.prompt)))
        seeds = tuple(range(8 * at, 8 * at + 8))
        asked.append(GenerateRequest((message,), policy.card.sampling, seeds))
    torch.set_num_threads(1)
    made = TransformersEngine(
        TransformersSettings(model=policy.model_path, dtype="float32", max_batch=batch, threads=1)
    )

    async def ask() -> None:
        await asyncio.gather(*(made.generate(request) for request in asked))
        await made.close()

    tokens, model = policy.card.sampling.max_tokens, policy.model_path
    took = {
        "bon": measured(ask),
        lmms(): peer(
            8 * count, "peer_lmms.py", "hf", written(folder, asked), model, 8, tokens, batch
        ),
    }
    sides = [Side(who, 8 * count / wall, cpu, wall) for who, (wall, cpu) in took.items()]
    shown(f"transformers, {count} questions × 8, one thread", "candidates/s", sides, at_least=1)


def written(folder: Path, asked: list[GenerateRequest]) -> Path:
    """The questions as peers read them."""
    file = folder / "questions.jsonl"
    with file.open("w", encoding="utf-8") as out:
        for request in asked:
            *images, text = request.messages[0].parts
            paths = []
            for image in images:
                assert isinstance(image, ImagePart)
                paths.append(str(folder / f"{image.sha256}.png"))
                Path(paths[-1]).write_bytes(image.data)
            out.write(json.dumps({"text": text, "images": paths}) + "\n")
    return file


def lmms() -> str:
    """lmms-eval and its version."""
    asks = "from importlib.metadata import version; print(version('lmms-eval'))"
    done = subprocess.run(
        [os.environ[LMMS], "-c", asks], stdout=subprocess.PIPE, check=True, text=True
    )
    return f"lmms-eval {done.stdout.strip()}"


def peer(wanted: int, script: str, *arguments: object) -> tuple[float, float]:
    """(seconds, CPU-seconds) that a script with the peer's Python takes for its answers."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(
        [os.environ.get(LMMS) or sys.executable, HERE / script, *map(str, arguments)],
        env=environment,
        stdout=subprocess.PIPE,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert found["answers"] == wanted, found
    return found["wall"], found["cpu"]


def shown(what: str, unit: str, sides: list[Side], at_least: float | None = None) -> None:
    """Print and note what the sides reached."""
    for side in sides:
        rate = f"{side.who} {number(side.value)} {unit}"
        print(f"{what}: {rate}, {number(side.cpu)} s of CPU", flush=True)
    note(what, unit, *sides, at_least=at_least)


if __name__ == "__main__":
    main()
