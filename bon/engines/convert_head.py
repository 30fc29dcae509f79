"""A reward head put where vLLM and transformers look for it, the rest of a checkpoint as it is.

TRL keeps a value head as `v_head.summary`, others in a file beside the model's own; vLLM's classify
reads neither. Written is `language_model.score`, which is how vLLM reads a vision-language model,
or `score` where transformers has a class for sequence classification (Gemma 3).
"""

import asyncio
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES,
)

from bon.core.errors import BonError
from bon.engines.base import Message, ScoreRequest
from bon.engines.heads import Head, load_head, tensor_files
from bon.engines.settings import HeadSettings, TransformersSettings
from bon.engines.transformers import TransformersEngine

HEAD_FILE = "model-score.safetensors"
INDEX = "model.safetensors.index.json"
TOLERANCE = 1e-5
ASKED = (
    ("What is two and two?", "Four."),
    ("What is two and two?", "Five, and I am quite sure of it."),
    ("Name a fruit that is yellow.", "A banana is a yellow fruit."),
)
"""What both checkpoints are asked to score. Text is enough: it is the head that has moved."""


@dataclass(frozen=True)
class Converted:
    """Where the head came from and what it is called now; the scores of both, in turn."""

    source: str
    name: str
    before: tuple[float, ...]
    after: tuple[float, ...]


def convert_head(source: Path, target: Path, head: str = "auto") -> Converted:
    """Write the checkpoint in `source` to `target`, and score with both.

    Raises:
        BonError: no such head, one that is no single linear layer, a folder that is in use, or
            scores that differ; `target` is then not left behind.
    """
    if not (source / "config.json").is_file():
        raise BonError(f"{source} holds no checkpoint", "give the folder with its config.json")
    if target.exists():
        raise BonError(f"{target} is there already", "name a new folder")
    settings = HeadSettings(layers=[head])
    found = load_head(str(source), settings, None, "cpu")
    if len(found.layers) != 1:
        raise BonError(f"the head of {source} has {len(found.layers)} layers, not one")
    scratch = target.with_name(f".{target.name}.part")
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        name = _write(source, scratch, found)
        before, after = (
            _scores(folder, head) for folder, head in ((source, head), (scratch, name))
        )
        for one, other in zip(before, after, strict=True):
            if abs(one - other) > TOLERANCE * max(1.0, abs(one)):
                raise BonError(
                    f"{source} scores {one:g} and what was written {other:g}",
                    "this is a fault of the conversion: use the original with engine transformers",
                )
        scratch.rename(target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return Converted(found.names[0], name, before, after)


def _write(source: Path, folder: Path, head: Head) -> str:
    """The checkpoint with its head as a file of its own; returns the head's new name."""
    where = tensor_files(str(source), None, None)
    dropped = {f"{head.names[0]}.weight", f"{head.names[0]}.bias"} & where.keys()
    name = _name_for(source)
    folder.mkdir(parents=True)
    rewritten = {where[tensor] for tensor in dropped}
    for file in source.iterdir():
        if file.is_file() and file.name != INDEX and file not in rewritten:
            shutil.copy2(file, folder / file.name)
    weights = {tensor: path.name for tensor, path in where.items() if tensor not in dropped}
    for path in rewritten:  # what is left of a file that held the head
        kept = {key: value for key, value in load_file(path).items() if key not in dropped}
        if kept:
            save_file(kept, folder / path.name, {"format": "pt"})
    layer = head.layers[0]
    tensors = {f"{name}.weight": layer.weight.data.contiguous()}
    if layer.bias is not None and bool(layer.bias.data.any()):
        tensors[f"{name}.bias"] = layer.bias.data.contiguous()
    save_file(tensors, folder / HEAD_FILE, {"format": "pt"})
    weights |= dict.fromkeys(tensors, HEAD_FILE)
    if (folder / "model.safetensors").is_file():  # which would be read instead of an index
        (folder / "model.safetensors").rename(folder / "model-weights.safetensors")
        weights = {
            tensor: "model-weights.safetensors" if file == "model.safetensors" else file
            for tensor, file in weights.items()
        }
    _write_index(folder, weights)
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    config |= {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}, "num_labels": 1}
    if isinstance(config.get("text_config"), dict):
        config["text_config"] = {**config["text_config"], "num_labels": 1}
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    return name


def _write_index(folder: Path, weights: Mapping[str, str]) -> None:
    size = sum((folder / file).stat().st_size for file in set(weights.values()))
    index = {"metadata": {"total_size": size}, "weight_map": dict(sorted(weights.items()))}
    (folder / INDEX).write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")


def _name_for(source: Path) -> str:
    kind = AutoConfig.from_pretrained(source).model_type
    known = kind in MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES
    return "score" if known else "language_model.score"


def _scores(folder: Path, head: str) -> tuple[float, ...]:
    """What the engine that reads every layout gives, in 32 bits."""
    settings: dict[str, Any] = {"model": str(folder), "head": head, "dtype": "float32"}
    engine = TransformersEngine(TransformersSettings.read(settings, "convert-head"))
    requests = [
        ScoreRequest((Message("user", (question,)), Message("assistant", (answer,))))
        for question, answer in ASKED
    ]

    async def ask() -> tuple[float, ...]:
        found = await asyncio.gather(*(engine.reward(request) for request in requests))
        await engine.close()
        return tuple(reward.score for reward in found)

    with torch.inference_mode():
        return asyncio.run(ask())
