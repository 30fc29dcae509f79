"""`bon convert-head`: write a reward head under the name that vLLM and transformers read.

TRL stores a value head as `v_head.summary`, others in a separate file; vLLM's classify reads
neither. The head is written as `language_model.score`, which vLLM reads for vision-language models,
or as `score` where transformers has a sequence-classification class (Gemma 3).
"""

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any, NamedTuple

from safetensors.torch import save_file
from transformers import AutoConfig
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES,
)

from bon.core.errors import BonError
from bon.engines.base import Message, ScoreRequest
from bon.engines.hf.engine import TransformersEngine
from bon.engines.hf.heads import Head, load_head, opened, tensor_files
from bon.engines.settings import HeadSettings, TransformersSettings

HEAD_FILE = "model-score.safetensors"
INDEX = "model.safetensors.index.json"
TOLERANCE = 1e-5
PROBES = (
    ("What is two and two?", "Four."),
    ("What is two and two?", "Five, and I am quite sure of it."),
    ("Name a fruit that is yellow.", "A banana is a yellow fruit."),
)
"""Conversations that both checkpoints score; text suffices, since only the head has moved."""


class Conversion(NamedTuple):
    """The head's old and new name, and the probes' scores before and after."""

    source: str
    name: str
    before: tuple[float, ...]
    after: tuple[float, ...]


def convert_head(source: Path, target: Path, head: str = "auto") -> Conversion:
    """Write the checkpoint in `source` to `target`, and compare the scores of both.

    Nothing is left behind where the head is missing or not one linear layer, or scores differ.
    """
    if not (source / "config.json").is_file():
        raise BonError(f"{source} holds no checkpoint", "give the folder with its config.json")
    if target.exists():
        raise BonError(f"{target} exists", "name a new folder")
    loaded = load_head(str(source), HeadSettings(layers=[head]), None, "cpu")
    if len(loaded.layers) != 1:
        raise BonError(f"the head of {source} has {len(loaded.layers)} layers, not one")
    scratch = target.with_name(f".{target.name}.part")
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        name = _write(source, scratch, loaded)
        before, after = _scores(source, head), _scores(scratch, name)
        for old, new in zip(before, after, strict=True):
            if abs(old - new) > TOLERANCE * max(1.0, abs(old)):
                fix = "this is a fault of the conversion: use the original with engine transformers"
                raise BonError(f"{source} scores {old:g} and what was written {new:g}", fix)
        scratch.rename(target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return Conversion(loaded.names[0], name, before, after)


def _write(source: Path, folder: Path, head: Head) -> str:
    """Copy the checkpoint with its head in a file of its own; return the head's new name."""
    files = tensor_files(str(source), None, None)
    moved = {f"{head.names[0]}.weight", f"{head.names[0]}.bias"} & files.keys()
    rewritten = {files[tensor] for tensor in moved}
    model_type = AutoConfig.from_pretrained(source).model_type
    classifies = model_type in MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES
    name = "score" if classifies else "language_model.score"
    folder.mkdir(parents=True)
    for file in source.iterdir():
        if file.is_file() and file.name != INDEX and file not in rewritten:
            shutil.copy2(file, folder / file.name)
    for path in rewritten:
        rest = {key: value for key, value in _tensors(path).items() if key not in moved}
        if rest:
            save_file(rest, folder / path.name, {"format": "pt"})
    layer = head.layers[0]
    tensors = {f"{name}.weight": layer.weight.data.contiguous()}
    if layer.bias is not None and bool(layer.bias.data.any()):
        tensors[f"{name}.bias"] = layer.bias.data.contiguous()
    save_file(tensors, folder / HEAD_FILE, {"format": "pt"})
    weights = {tensor: path.name for tensor, path in files.items() if tensor not in moved}
    single = folder / "model.safetensors"
    if single.is_file():  # which would be read instead of an index
        renamed = single.rename(folder / "model-weights.safetensors")
        weights = {t: renamed.name if file == single.name else file for t, file in weights.items()}
    weights |= dict.fromkeys(tensors, HEAD_FILE)
    size = sum((folder / file).stat().st_size for file in set(weights.values()))
    index = {"metadata": {"total_size": size}, "weight_map": dict(sorted(weights.items()))}
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    config |= {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}, "num_labels": 1}
    if isinstance(config.get("text_config"), dict):
        config["text_config"] = {**config["text_config"], "num_labels": 1}
    for file_name, content in ((INDEX, index), ("config.json", config)):
        (folder / file_name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return name


def _tensors(path: Path) -> dict[str, Any]:
    with opened(path) as tensors:
        return {name: tensors.get_tensor(name) for name in [*tensors.keys()]}


def _scores(folder: Path, head: str) -> tuple[float, ...]:
    """Score the probes in float32 with the engine that reads every layout."""
    settings = {"model": str(folder), "head": head, "dtype": "float32"}
    engine = TransformersEngine(TransformersSettings.read(settings, "convert-head"))

    async def score_all() -> tuple[float, ...]:
        turns = [(Message("user", (p,)), Message("assistant", (r,))) for p, r in PROBES]
        rewards = await asyncio.gather(*(engine.reward(ScoreRequest(pair)) for pair in turns))
        await engine.close()
        return tuple(reward.score for reward in rewards)

    return asyncio.run(score_all())
