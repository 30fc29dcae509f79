"""What the chain itself costs: echo throughput, flat memory, and the share of a bare loop.

python tools/bench/bench_chain.py [--items 10000 200000] [--skip-model]
"""

import argparse
import json
import multiprocessing
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from measured import LOOK, Side, note, tree

ROOT = Path(__file__).resolve().parents[2]


def echo_experiment(folder: Path, questions: int) -> dict[str, Any]:
    """One policy and one pointwise rewarder on the echo engine: 8 candidates, about 5 texts."""
    with (folder / "questions.jsonl").open("w", encoding="utf-8") as file:
        for i in range(questions):
            options = [str(i + shift) for shift in range(10)]
            row = {"id": f"q{i}", "question": f"{i}?", "options": options, "answer": "A"}
            file.write(json.dumps(row) + "\n")
    place = {"group": "all", "actors": 1}
    return {
        "questions": {"benchmark": "multiple_choice", "path": "questions.jsonl"},
        "policies": [{"name": "p", "engine": "echo", "prompt": "bare", "placement": place}],
        "rewarders": [{"name": "r", "kind": "scalar", "engine": "echo", "placement": place}],
        "cluster": {"batch": 64, "in_flight": 4},
    }


def run_echo(questions: int, pipe: Any) -> None:
    """One run in a process of its own, so that its peak memory is its own."""
    from bon.running.runner import compute
    from bon.running.start import start
    from bon.storage.store import Store
    from bon.work.setup import prepare

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        setup = prepare(echo_experiment(folder, questions), folder)
        with Store(folder / "run") as store:
            start(setup, store, quiet=True)
            started = time.perf_counter()
            compute(setup, store, quiet=True)
            seconds = time.perf_counter() - started
            rows = store.count("candidates") + store.count("judgements")
            judgements = store.count("judgements")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    pipe.send((rows, judgements, seconds, peak))


def bench_echo(sizes: list[int]) -> None:
    """Rows committed a second, CPU of all processes and the driver's peak memory, by items."""
    head = f"{'questions':>10} {'rows':>10} {'seconds':>8} {'rows/s':>8} {'driver MiB':>11}"
    print(f"{head} {'CPU s':>6}")
    found = []
    for items in sizes:
        ours, theirs = multiprocessing.Pipe()
        # An item is a candidate or a judgement: 8 + about 5.7 of them a question.
        process = multiprocessing.get_context("spawn").Process(
            target=run_echo, args=(max(1, items // 13), theirs)
        )
        process.start()
        times: dict[int, float] = {}
        while not ours.poll(LOOK):
            assert process.is_alive(), "the run ended without a word"
            times.update(tree(process.pid or 0))
        rows, _, seconds, peak = ours.recv()
        cpu = sum(times.values())
        found.append((rows, cpu))
        process.join()
        print(f"{items // 13:>10} {rows:>10} {seconds:>8.1f} {rows / seconds:>8.0f} {peak:>11.0f} "
              f"{cpu:>6.1f}")  # fmt: skip
        side = Side("bon", rows / seconds, cpu, seconds)
        note(f"echo run of {rows:,} rows, with Ray", "rows/s", side)
    if len(found) > 1:
        # What a start costs is in both.
        (few, less), (many, more) = found[0], found[-1]
        each = 1e6 * (more - less) / (many - few)
        print(f"each further row: {each:.0f} us of CPU, all processes together")
        note("a row more, all processes", "µs of CPU", Side("bon", each, more - less), at_most=60)


def bench_model(questions: int) -> None:
    """Candidates a second: a bare batched loop over the policy against the whole chain."""
    from bon.miniature.data import write
    from bon.running.runner import compute
    from bon.running.start import start
    from bon.storage.store import Store
    from bon.work.setup import prepare

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder / "data", num_questions=questions)
        raw = {
            "questions": {"benchmark": "mmmu_pro", "path": "data/questions.parquet"},
            "policies": ["mini-policy-a"],
        }
        setup = prepare(raw, folder)
        rates = {"bare loop": _bare_loop(setup, folder)}
        with Store(folder / "run") as store:
            start(setup, store, quiet=True)
            import ray

            ray.init(address="local", include_dashboard=False, log_to_driver=False)
            started = time.perf_counter()
            compute(setup, store, quiet=True)
            seconds = time.perf_counter() - started
            ray.shutdown()
            rates["chain"] = store.count("candidates") / seconds
    for label, rate in rates.items():
        print(f"{label:<10} {rate:8.1f} candidates/s")
    sides = (Side("bon", rates["chain"]), Side("bare generate", rates["bare loop"]))
    note(f"whole run, transformers, {questions} questions × 8", "candidates/s", *sides)
    print(f"chain / bare loop = {rates['chain'] / rates['bare loop']:.2f}")


def _bare_loop(setup: Any, folder: Path) -> float:
    """`generate` over batches of prompts of similar length, the model alone in its process."""
    import torch
    from PIL import Image
    from transformers import AutoModelForImageTextToText, AutoProcessor

    from bon.benchmarks import load_questions
    from bon.core.images import ImageStore
    from bon.policies.prompting import render_prompt

    policy = setup.policies[0]
    spec = setup.experiment.questions[0].model_copy(
        update={"path": str(folder / "data" / "questions.parquet")}
    )
    questions = list(load_questions(spec, ImageStore(folder / "bare")))
    processor = AutoProcessor.from_pretrained(policy.model_path)
    processor.tokenizer.padding_side = "left"
    model = AutoModelForImageTextToText.from_pretrained(policy.model_path, dtype=torch.float32)
    texts, images = [], []
    for question in questions:
        content = [{"type": "image"} for _ in question.images]
        content.append({"type": "text", "text": render_prompt(question, policy.prompt)})
        messages = [{"role": "user", "content": content}]
        texts.append(processor.apply_chat_template(messages, add_generation_prompt=True))
        images.append([Image.open(ref.path).convert("RGB") for ref in question.images])
    order = sorted(range(len(texts)), key=lambda i: (len(images[i]), len(texts[i])))
    n, size = policy.card.n, 32
    started = time.perf_counter()
    for at in range(0, len(order), size):
        chunk = order[at : at + size]
        inputs = processor(
            text=[texts[i] for i in chunk],
            images=[images[i] for i in chunk],
            padding=True,
            return_tensors="pt",
        )
        with torch.inference_mode():
            model.generate(
                **inputs,
                do_sample=True,
                temperature=policy.card.sampling.temperature,
                top_k=0,
                top_p=1.0,
                num_return_sequences=n,
                max_new_tokens=policy.card.sampling.max_tokens,
            )
    return len(questions) * n / (time.perf_counter() - started)


def main() -> None:
    """Print the two tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, nargs="*", default=[10_000, 200_000])
    parser.add_argument("--questions", type=int, default=1000)
    parser.add_argument("--skip-model", action="store_true")
    arguments = parser.parse_args()
    bench_echo(arguments.items)
    if not arguments.skip_model:
        bench_model(arguments.questions)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
