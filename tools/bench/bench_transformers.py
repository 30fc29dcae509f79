"""Candidates a second through the transformers engine against a bare batched `generate`.

    python tools/bench/bench_transformers.py [MODEL_FOLDER] [--questions 64] [--n 8]

Same model, same prompts, same tokens to draw, temperature 1. The bare loop is what one would
write by hand: prompts sorted by length, left-padded, `num_return_sequences`. Without a folder a
random model of a million parameters is made; the ratio is what counts, not the rate.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from measured import Side, note
from transformers import AutoModelForImageTextToText

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "engines"))
from tiny_checkpoint import image, make_checkpoint

from bon.core.images import open_image
from bon.core.sampling import Sampling
from bon.engines.base import GenerateRequest, Message
from bon.engines.hf.engine import TransformersEngine
from bon.engines.settings import TransformersSettings


def main() -> None:
    """Measure alternately, several times, and print the best of each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?")
    parser.add_argument("--questions", type=int, default=64)
    parser.add_argument("--n", type=int, default=8)
    parser.add_argument("--max-tokens", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model = args.model or str(make_checkpoint(Path(folder)))
        torch.set_num_threads(args.threads)
        bare_model = AutoModelForImageTextToText.from_pretrained(model, dtype=torch.float32).eval()
        settings = TransformersSettings(model=model, max_batch=args.batch, threads=args.threads)
        engine = TransformersEngine(settings)
        requests = [_request(i, args) for i in range(args.questions)]
        bare, ours = [], []
        for _ in range(args.rounds + 1):  # the first round warms up
            bare.append(_timed(lambda: _bare(bare_model, engine.processor, requests, args)))
            ours.append(_timed(lambda: asyncio.run(_ours(engine, requests))))
        total = args.questions * args.n
        print(f"{args.questions} questions x {args.n}, batch {args.batch}, {args.threads} threads")
        print(f"{'':24}{'tokens':>8}{'seconds':>10}{'candidates/s':>14}")
        for label, runs in (("bare generate", bare[1:]), ("engine transformers", ours[1:])):
            seconds, tokens, _ = min(runs)
            print(f"{label:24}{tokens:>8}{seconds:>10.2f}{total / seconds:>14.1f}")
        sides = (
            Side(who, total / min(runs)[0], min(runs)[2], min(runs)[0])
            for who, runs in (("bon", ours[1:]), ("bare generate", bare[1:]))
        )
        note(f"transformers engine, {args.questions} x {args.n}", "candidates/s", *sides)
        print(f"ratio {min(bare[1:])[0] / min(ours[1:])[0]:.2f}")
        asyncio.run(engine.close())


def _request(index: int, args: argparse.Namespace) -> GenerateRequest:
    question = f"Question: what is in picture {index}? " + "A. red circle B. blue square " * (
        1 + index % 3
    )
    return GenerateRequest(
        (Message("user", (image(index), question)),),
        Sampling(max_tokens=args.max_tokens),
        tuple(range(args.n)),
    )


def _timed(work: Callable[[], int]) -> tuple[float, int, float]:
    start, cpu = time.perf_counter(), time.process_time()
    tokens = work()
    return time.perf_counter() - start, tokens, time.process_time() - cpu


async def _ours(engine: TransformersEngine, requests: list[GenerateRequest]) -> int:
    generations = await asyncio.gather(*(engine.generate(request) for request in requests))
    return sum(sample.num_tokens for g in generations for sample in g.samples)


@torch.inference_mode()
def _bare(
    model: Any, processor: Any, requests: list[GenerateRequest], args: argparse.Namespace
) -> int:
    prompts = []
    for request in requests:
        picture, question = request.messages[0].parts
        content = [{"type": "image"}, {"type": "text", "text": question}]
        text = processor.apply_chat_template(
            [{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True
        )
        prompts.append((text, [open_image(picture.data)]))
    prompts.sort(key=lambda prompt: len(prompt[0]))
    tokens, size = 0, args.batch // args.n
    for start in range(0, len(prompts), size):
        part = prompts[start : start + size]
        inputs = processor(
            text=[text for text, _ in part],
            images=[images for _, images in part],
            padding=True,
            padding_side="left",
            return_tensors="pt",
        )
        output = model.generate(
            **inputs,
            max_new_tokens=args.max_tokens,
            do_sample=True,
            temperature=1.0,
            top_k=0,
            top_p=1.0,
            repetition_penalty=1.0,
            num_return_sequences=args.n,
        )
        new = output[:, inputs["input_ids"].shape[1] :]
        processor.batch_decode(new, skip_special_tokens=True)
        pad = processor.tokenizer.pad_token_id
        tokens += int((new != pad).sum())
    return tokens


if __name__ == "__main__":
    main()
