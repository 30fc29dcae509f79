"""Fine-tuning of a checkpoint on chosen responses (SFT) or preferences (DPO).

A plain loop for one device: AdamW, cosine rate after a warm-up, frozen vision tower. The losses are
those of TRL's SFTTrainer with `completion_only_loss` and of its DPOTrainer (Rafailov et al. 2023);
a test compares them.
"""

import asyncio
import math
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as functional

from bon.engines.base import Message, ScoreRequest
from bon.engines.batching import Job
from bon.engines.hf.decoding import likelihoods
from bon.engines.hf.engine import TransformersEngine
from bon.engines.hf.shared_prefix import indices_by_value
from bon.engines.settings import TransformersSettings
from bon.engines.tuning import Example, FineTuned, Tuning

VISION = ("visual", "vision", "image_newline", "multi_modal_projector")
"""Parts of parameter names that stay frozen."""


def fine_tune(
    settings: TransformersSettings, examples: Sequence[Example], tuning: Tuning, folder: Path
) -> FineTuned:
    """Train a checkpoint and save it, with its processor, into a new folder."""
    began = time.monotonic()
    torch.manual_seed(tuning.seed)
    engine = TransformersEngine(settings)
    model = engine.model
    model.set_attn_implementation("eager" if engine.device.type == "cpu" else "sdpa")
    parameters = trainable(model)
    reference = references(engine, examples) if tuning.method == "dpo" else []
    optimizer = torch.optim.AdamW(parameters, lr=tuning.rate, betas=(0.9, 0.98), weight_decay=0.0)
    losses = []
    for step, batch in enumerate(batches(len(examples), tuning), start=1):
        rows, weights = [examples[i] for i in batch], [reference[i] for i in batch if reference]
        model.train()
        for group in optimizer.param_groups:
            group["lr"] = rate_at(step, tuning)
        optimizer.zero_grad()
        total = 0.0
        for start in range(0, len(rows), tuning.micro_batch):
            part = slice(start, start + tuning.micro_batch)
            loss = batch_loss(engine, rows[part], tuning, weights[part])
            share = len(rows[part]) / len(rows)
            (loss * share).backward()
            total += loss.item() * share
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        losses.append(total)
    model.eval()
    model.save_pretrained(folder)
    _copy_processor(engine, Path(settings.model).expanduser(), folder)
    asyncio.run(engine.close())
    tail = max(min(5, len(losses)), 1)
    first, last = sum(losses[:tail]) / tail, sum(losses[-tail:]) / tail
    return FineTuned(first, last, time.monotonic() - began)


def _copy_processor(engine: TransformersEngine, source: Path, folder: Path) -> None:
    """Add tokenizer and image processor; files of a local checkpoint stay as they are."""
    if not source.is_dir():
        engine.processor.save_pretrained(folder)
        return
    for file in source.iterdir():
        weights = file.suffix in (".safetensors", ".bin") or file.name.endswith(".index.json")
        if file.is_file() and not weights and not (folder / file.name).exists():
            shutil.copy(file, folder)


def trainable(model: Any) -> list[torch.nn.Parameter]:
    """Freeze the vision tower and return the other parameters."""
    chosen = []
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(not any(word in name for word in VISION))
        if parameter.requires_grad:
            chosen.append(parameter)
    return chosen


def rate_at(step: int, tuning: Tuning) -> float:
    """Return the learning rate of a step (from 1)."""
    cosine = 0.5 * (1 + math.cos(math.pi * step / tuning.steps))
    return tuning.rate * min(1.0, step / max(tuning.warmup, 1)) * (0.1 + 0.9 * cosine)


def batches(count: int, tuning: Tuning) -> Iterator[list[int]]:
    """Yield indices of each step's examples: whole shuffled epochs, one after another."""
    generator = torch.Generator().manual_seed(tuning.seed)
    size = min(tuning.batch, count)
    order: list[int] = []
    for _ in range(tuning.steps):
        if len(order) < size:
            order += torch.randperm(count, generator=generator).tolist()
        yield order[:size]
        order = order[size:]


def batch_loss(
    engine: TransformersEngine,
    examples: Sequence[Example],
    tuning: Tuning,
    weights: Sequence[Sequence[float]],
) -> torch.Tensor:
    """Return the mean loss of examples: per token for SFT, per pair for DPO.

    `weights`: log-probabilities before training, for DPO.
    """
    sums, lengths = log_probabilities(engine, examples)
    if tuning.method == "sft":
        return -sums.sum() / lengths.sum()
    ratio = (sums - torch.tensor(weights, device=sums.device).flatten()).view(-1, 2)
    return -functional.logsigmoid(tuning.beta * (ratio[:, 0] - ratio[:, 1])).mean()


def log_probabilities(
    engine: TransformersEngine, examples: Sequence[Example]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return summed log-probabilities and tokens (E × responses) of responses, the end included."""
    jobs = [
        _job(engine, example.messages, response)
        for example in examples
        for response in example.responses
    ]
    ids = [engine.tokenizer(job.prepared[2], add_special_tokens=False)["input_ids"] for job in jobs]
    sums = torch.zeros(len(jobs), device=engine.device)
    # Some processors refuse prompts of different image counts.
    for places in indices_by_value([len(job.prepared[1]) for job in jobs]):
        summed = likelihoods(
            engine.model,
            engine._inputs([jobs[i] for i in places]),
            [ids[i] for i in places],
            engine.tokenizer.pad_token_id,
        )
        sums = sums.index_put((torch.tensor(places, device=sums.device),), summed)
    return sums, torch.tensor([len(row) for row in ids], device=sums.device)


def references(engine: TransformersEngine, examples: Sequence[Example]) -> list[list[float]]:
    """Return the log-probabilities of chosen and rejected responses before training."""
    engine.model.eval()
    rows: list[list[float]] = []
    with torch.no_grad():
        for start in range(0, len(examples), 64):
            sums, _ = log_probabilities(engine, examples[start : start + 64])
            rows += sums.view(-1, 2).tolist()
    return rows


def _job(engine: TransformersEngine, messages: tuple[Message, ...], response: str) -> Job:
    request = ScoreRequest((*messages, Message("assistant", (response,))))
    job = Job("likelihood", request, None, None)  # type: ignore[arg-type]  # nobody awaits it
    engine.prepare(job)
    return job
