"""vLLM in its worker's process against bare vLLM: n samples in one request, from a fresh engine.

    VLLM_VENV=FOLDER python tools/bench/bench_vllm.py [--questions 200 800] [--samples 8]

`sh tests/vllm/setup.sh` makes the environment (default: build/vllm-venv). Every contestant is a
process of its own and has one image and a question per prompt; the first size is the first batch
that its engine ever sees. bon keeps the log-probability of every sample, so one bare client asks
for them too, and another does not.
"""

import argparse
import asyncio
import io
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from measured import Side, note, number, tree

from bon.core.sampling import Sampling
from bon.engines.base import GenerateRequest, ImagePart, Message

ROOT = Path(__file__).resolve().parents[2]
BARE, PLAIN = "bare", "bare, no log-probabilities"
CONTESTANTS = ("bon", BARE, PLAIN)
FLAGS = {
    "dtype": "float32",
    "enforce_eager": True,
    "max_model_len": 1024,
    "limit_mm_per_prompt": {"image": 1},
}
TOKENS = 32
Ask = Callable[[GenerateRequest], Awaitable[Any]]


def main() -> None:
    """Print a line per size and contestant."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--questions", type=int, nargs="*", default=[200, 800])
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--contestant", choices=CONTESTANTS, help=argparse.SUPPRESS)
    parser.add_argument("--model", help=argparse.SUPPRESS)
    a = parser.parse_args()
    if a.contestant:
        asyncio.run(contest(a.contestant, a.model, a.questions, a.samples))
        return
    folder = Path(os.environ.get("VLLM_VENV", ROOT / "build" / "vllm-venv"))
    if not (folder / "ready").is_file():
        missing = "vLLM is not installed: sh tests/vllm/setup.sh"
        print(missing)
        note("vLLM in process", "", said=missing)
        return
    found: dict[int, list[Side]] = {count: [] for count in a.questions}
    with tempfile.TemporaryDirectory() as model:
        python = folder / "bin" / "python"
        make = [python, ROOT / "tests" / "engines" / "tiny_checkpoint.py", model]
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_LOGGING_LEVEL": "ERROR",
            "TORCHINDUCTOR_CACHE_DIR": f"{model}/compiled",
        }
        subprocess.run(make, env=environment, check=True, stdout=subprocess.DEVNULL)
        sizes = ["--samples", str(a.samples), "--questions", *map(str, a.questions)]
        # Whoever is first compiles kernels for all: a run that is not counted.
        for who, asked in ((BARE, ["--questions", "8"]), *((who, sizes) for who in CONTESTANTS)):
            told = subprocess.run(
                [python, __file__, "--contestant", who, "--model", model, *asked],
                env=environment,
                check=True,
                stdout=subprocess.PIPE,
                text=True,
            )
            for line in told.stdout.splitlines():
                if line.startswith("{") and asked is sizes:
                    row = json.loads(line)
                    rate = row["questions"] * a.samples / row["wall"]
                    found[row["questions"]].append(Side(who, rate, row["cpu"], row["wall"]))
    print(f"{'questions':>9} {'':<27} {'samples/s':>9} {'CPU s':>7} {'wall s':>7} {'bon':>6}")
    for count, sides in found.items():
        for side in sides:
            print(
                f"{count:>9} {side.who:<27} {number(side.value):>9} {number(side.cpu):>7} "
                f"{number(side.wall):>7} {sides[0].value / side.value:>6.2f}"
            )
        what = f"vLLM in process, {count} × {a.samples}"
        note(what, "samples/s", *sides, at_least=0.95)


async def contest(who: str, model: str, sizes: list[int], samples: int) -> None:
    """One contestant: a line of JSON per size."""
    ask, close = bon(model) if who == "bon" else bare(model, who == BARE)
    for count in sizes:
        asked = requests(count, samples)
        began, cpu = time.perf_counter(), sum(tree(os.getpid()).values())
        await asyncio.gather(*map(ask, asked))
        wall, spent = time.perf_counter() - began, sum(tree(os.getpid()).values()) - cpu
        print(json.dumps({"questions": count, "wall": wall, "cpu": spent}), flush=True)
    await close()


def requests(count: int, samples: int) -> list[GenerateRequest]:
    """Questions on one of 64 images each; no two sizes share a prompt."""
    sys.path.insert(0, str(ROOT / "tests" / "engines"))
    from tiny_checkpoint import image

    images = [image(i) for i in range(64)]
    draw = random.Random(count)
    return [
        GenerateRequest(
            (Message("user", (images[i % 64], f"{draw.random()}: what is in the picture? " * 4)),),
            Sampling(temperature=1.0, max_tokens=TOKENS),
            tuple(range(samples * i, samples * (i + 1))),
        )
        for i in range(count)
    ]


def bon(model: str) -> tuple[Ask, Callable[[], Awaitable[None]]]:
    """The engine as a card would have it."""
    from bon.engines import build

    engine = build("vllm", {"model": model, "engine_args": FLAGS})
    return engine.generate, engine.close


def bare(model: str, logprobs: bool) -> tuple[Ask, Callable[[], Awaitable[None]]]:
    """What a script for the purpose does, with as many sequences and tokens a step as `LLM`."""
    from PIL import Image
    from transformers import AutoProcessor
    from vllm import SamplingParams
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.sampling_params import RequestOutputKind
    from vllm.usage.usage_lib import UsageContext
    from vllm.v1.engine.async_llm import AsyncLLM

    processor = AutoProcessor.from_pretrained(model)
    # Chunks of a prompt and seeds do not go together on a CPU.
    arguments = {"generation_config": "vllm", "enable_chunked_prefill": False, **FLAGS}
    engine = AsyncLLM.from_engine_args(
        AsyncEngineArgs(model=model, **arguments), usage_context=UsageContext.LLM_CLASS
    )

    async def ask(request: GenerateRequest) -> None:
        image, text = request.messages[0].parts
        assert isinstance(image, ImagePart)
        parts = [{"type": "image"}, {"type": "text", "text": text}]
        prompt = processor.apply_chat_template(
            [{"role": "user", "content": parts}], tokenize=False, add_generation_prompt=True
        )
        params = SamplingParams(
            n=len(request.seeds),
            seed=request.seeds[0],
            temperature=1.0,
            max_tokens=TOKENS,
            logprobs=0 if logprobs else None,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )
        seen = {"image": [Image.open(io.BytesIO(image.data)).convert("RGB")]}
        given = {"prompt": prompt, "multi_modal_data": seen}
        async for output in engine.generate(given, params, str(request.seeds[0])):
            assert len(output.outputs) == len(request.seeds)

    async def close() -> None:
        engine.shutdown()

    return ask, close


if __name__ == "__main__":
    main()
