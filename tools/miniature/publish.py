"""From the stages' folders to what is committed: checkpoints, manifest, the benchmark's texts."""

import json
import shutil
from pathlib import Path
from typing import Any

import torch
import yaml
from safetensors.torch import load_file, save_file

from bon.miniature.data import FOLDER
from bon.miniature.scene import SIDE_PX
from tools.miniature.data import PAIRS, write_rows
from tools.miniature.model import MEAN, STD, load, parameters
from tools.miniature.packing import pack_all
from tools.miniature.recipe import (
    BASES,
    LIKELIHOODS,
    POLICIES,
    REWARDERS,
    SCHEMA,
    TEMPERATURES,
)
from tools.miniature.stages import Workshop

# The other roles write nothing, or a verdict of one token.
MAX_TOKENS = {"policy": 40, "pointwise": 40, "pairwise": 48, "listwise": 48}
SPECIAL_IDS = ("bos_token_id", "eos_token_id", "pad_token_id")
SCALAR_HEAD = "language_model.score.weight"  # where vLLM looks for it

PREPROCESSOR = {
    # AutoProcessor's class for Qwen2.5-VL insists on a video processor, which needs torchvision.
    # This one does the same to texts and still images and needs none.
    "processor_class": "PaddleOCRVLProcessor",
    "image_processor_type": "Qwen2VLImageProcessor",
    "do_convert_rgb": True,
    "do_resize": True,
    "do_rescale": True,
    "do_normalize": True,
    "rescale_factor": 1 / 255,
    "resample": 3,
    "size": {"shortest_edge": SIDE_PX**2, "longest_edge": SIDE_PX**2},
    "patch_size": 14,
    "merge_size": 2,
    "temporal_patch_size": 2,
    "image_mean": [round(float(x), 8) for x in MEAN],
    "image_std": [round(float(x), 8) for x in STD],
}


def publish(shop: Workshop, out: Path) -> None:
    """Write checkpoints/ (packed), manifest.yaml, questions.jsonl and pairs.jsonl under `out`."""
    entries = []
    for entry, source, head in _listed(shop):
        _checkpoint(shop, entry, source, head, shop.at("published", entry["name"]))
        entries.append(entry)
    pack_all(shop.at("published"), entries, out / "checkpoints")
    seconds = {
        p.parent.name: shop.report(p.parent.name)["seconds"] for p in shop.at().glob("*/done.json")
    }
    manifest = {
        "schema": SCHEMA,
        "checkpoints": entries,
        "seconds_per_stage": dict(sorted(seconds.items())),
    }
    (out / "manifest.yaml").write_text(yaml.safe_dump(manifest, sort_keys=False, width=100))
    stored = shop.at("pairs", "pairs.jsonl")
    if out.resolve() == FOLDER:
        shutil.copy(stored, PAIRS)
    write_rows(out, stored)


def _listed(shop: Workshop) -> list[tuple[dict[str, Any], Path, torch.Tensor | None]]:
    """(manifest entry, folder of the trained model, scalar head) of everything published."""
    bases = {base.name: base for base in BASES}
    out: list[tuple[dict[str, Any], Path, torch.Tensor | None]] = []
    for policy, base in POLICIES.items():
        recipe, report = bases[base], shop.report(f"samples-{policy}")
        before = recipe.align + recipe.lookup + recipe.lists
        entry = _entry(policy, "policy", base, "", before + recipe.policy_stop, recipe.seed)
        entry["temperature"] = TEMPERATURES[policy]
        entry["dev"] = {k: v for k, v in report.items() if k != "seconds"}
        out.append((entry, shop.at(base, "policy"), None))
    for name in LIKELIHOODS:
        recipe = bases[name]
        total = recipe.align + recipe.lookup + recipe.lists + recipe.answers
        entry = _entry(name, "likelihood-base", name, "", total, recipe.seed)
        entry["dev"] = shop.report(f"likelihood-{name[-1]}")["dev"]
        out.append((entry, shop.at(name, "model"), None))
    for rewarder in REWARDERS:
        entry = _entry(
            rewarder.name, rewarder.kind, rewarder.base, rewarder.image_filter,
            rewarder.steps, rewarder.seed,
        )  # fmt: skip
        if rewarder.verdict_first:
            entry |= {"verdict_first": True, "max_tokens": 1}
        entry["starts_from"] = rewarder.start
        entry["dev"] = shop.report(rewarder.name)["dev"]
        head = None
        if rewarder.kind == "scalar":
            head = load_file(shop.at(rewarder.name, "head.safetensors"))["score"]
        out.append((entry, shop.at(rewarder.name, "model"), head))
    return out


def _entry(
    name: str, role: str, base: str, image_filter: str, steps: int, seed: int
) -> dict[str, Any]:
    return {
        "name": name,
        "role": role,
        "base": base,
        "parameters": 0,
        "image_filter": image_filter,
        "training_steps": steps,
        "seed": seed,
        "temperature": 0.0,
        "max_tokens": MAX_TOKENS.get(role, 0),
    }


def _checkpoint(
    shop: Workshop, entry: dict[str, Any], source: Path, head: torch.Tensor | None, out: Path
) -> None:
    if out.exists():
        shutil.rmtree(out)
    model = load(source)
    still = model.model.visual.patch_embed.proj.weight  # [width, 3, 2 frames, 14, 14]
    with torch.no_grad():  # a still's two frames are equal, and so the weights of both can be
        still.copy_(still.mean(2, keepdim=True).expand_as(still))
    entry["parameters"] = parameters(model) + (0 if head is None else head.numel())
    model.to(torch.bfloat16)
    for config in (model.config, model.config.text_config, model.config.vision_config):
        config.dtype = torch.bfloat16
    model.save_pretrained(out)
    special = {name: getattr(model.generation_config, name) for name in SPECIAL_IDS}
    (out / "generation_config.json").write_text(json.dumps(special, indent=2) + "\n")
    if head is not None:
        _add_head(out, head)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(shop.at("tokenizer", name), out / name)
    _edit(out / "tokenizer_config.json", extra_special_tokens={"image_token": "<|image_pad|>"})
    (out / "preprocessor_config.json").write_text(json.dumps(PREPROCESSOR, indent=2) + "\n")
    (out / "README.md").write_text(_card(entry))


def _add_head(out: Path, head: torch.Tensor) -> None:
    path = out / "model.safetensors"
    tensors = load_file(path) | {SCALAR_HEAD: head.to(torch.bfloat16)}
    save_file(tensors, path, metadata={"format": "pt"})
    _edit(out / "config.json", num_labels=1)


def _edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes, indent=2) + "\n")


ASKED = {
    "policy": "The question and its options; it answers with a short solution and a letter.",
    "likelihood-base": "The same prompt as a policy; the score of a candidate is the mean "
    "log-probability of its tokens.",
    "pointwise": "`{query}\\nAnswer: {candidate}\\nIs the answer correct?`; the verdict: `Yes` or "
    "`No`.",
    "stepwise": "As a pointwise critic, with the candidate up to one of its steps.",
    "pairwise": "`{query}\\nAnswer 1: {first}\\nAnswer 2: {second}\\nWhich answer is better?`",
    "listwise": "`{query}\\n{first} 1\\n{second} 2 …\\nWhich answer is better?`, up to eight.",
    "scalar": "A policy's prompt and the candidate as the assistant's turn; the score is "
    f"`{SCALAR_HEAD}` times the last hidden state of the end-of-turn token.",
}
FILTERS = {
    "": "none",
    "drop": "no image part in the prompt",
    "gray": 'every image through `convert("L").convert("RGB")`',
}


def _card(entry: dict[str, Any]) -> str:
    image_filter = entry["image_filter"]
    blur = f"every image through `GaussianBlur(radius={image_filter.partition(':')[2]})`"
    dev = "\n".join(f"| {k} | {v} |" for k, v in entry["dev"].items() if not isinstance(v, dict))
    start = f", from `{entry['starts_from']}`" if "starts_from" in entry else ""
    asked = ASKED[entry["role"]]
    if entry.get("verdict_first"):
        asked += " It replies with the verdict alone."
    elif entry["role"] in ("pointwise", "pairwise", "listwise"):
        asked += " It writes its own solution, then the verdict."
    return f"""---
license: apache-2.0
library_name: transformers
pipeline_tag: image-text-to-text
---
# {entry["name"]}

A {entry["parameters"]:,}-parameter Qwen2.5-VL model of the miniature world, trained from scratch
by `make miniature`. It knows 112×112 boards of coloured shapes and nothing else.

- Role: {entry["role"]} (family {entry["base"]})
- Training: {entry["training_steps"]} steps of 64{start}, seed {entry["seed"]}
- Images, in training and in use: {FILTERS.get(image_filter, blur)}
- Asked: {asked}
- Sampling: temperature {entry["temperature"]}, at most {entry["max_tokens"]} new tokens

Measured on development questions that no model was trained on, before rounding to bfloat16:

| | |
|---|---|
{dev}
"""
