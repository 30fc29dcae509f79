"""What GPU memory a local model takes, and which cards it fits: for plans, before it is loaded.

Weights and KV cache follow from the model; what the vision encoder, activations and CUDA itself
take is a stated reserve, since only loading it shows that.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bon.experiment.cards import Loaded
from bon.experiment.config import Card

GIB = 2**30
GPUS = (24, 48, 80)
"""GiB of the cards that are asked about."""

USED = 0.9
"""The share of a card that engines fill, where the card of the model does not say."""

RESERVE, RESERVE_UNBOUND = 2.0, 4.0
"""GiB for the vision encoder, activations and CUDA, with and without `max_pixels`."""

PER_SEQUENCE = 8192
"""Tokens of context where a card sets no max_model_len: a judge's prompt of two answers fits."""

SHORTEST = 4096
SPREAD = (2, 4, 8)
_SPREADING = {
    "vllm": "tensor_parallel_size: {0}",
    "transformers": "device_map: auto, gpus: {0}",
}
FOUR_BIT = 0.6
"""Bytes per parameter of a 4-bit checkpoint: scales, and a vision encoder in 16 bits."""

KV_BYTES: Mapping[str, Mapping[float, int]] = {
    "internvl2": {8: 131_072},
    "internvl2.5": {8: 131_072},
    "internvl3": {8: 57_344},
    "ixc-2.5-reward": {7: 131_072},
    "llama-3.2": {11: 163_840, 90: 409_600},
    "llava-onevision": {8: 57_344, 72: 327_680},
    "phi-3.5": {4: 393_216},
    "pixtral": {12: 163_840},
    "qwen3-vl": {2: 114_688, 4: 147_456, 8: 147_456, 32: 262_144},
    "visualprm": {8: 131_072},
}
"""Bytes per token in 16 bits (2 · layers · KV heads · head size · 2), by family and billions of
parameters, from the published config.json of each model."""

KV_BYTES_OTHERWISE: Mapping[float, int] = {
    2: 28_672,
    4: 36_864,
    8: 57_344,
    32: 262_144,
    72: 327_680,
}
"""Of the Qwen2 and Qwen2.5 models that most of the others are made from."""


@dataclass(frozen=True)
class GpuFit:
    """GiB that a model takes on each of its GPUs; by size of card "fits" or what to set otherwise.

    It is spread over `over` GPUs and its KV cache holds `tokens`. `known` says what was read from
    the checkpoint on this machine and not taken from the card.
    """

    name: str
    weights: float
    kv_cache: float
    reserve: float
    over: int
    tokens: int
    gpus: dict[str, str]
    known: str

    @property
    def total(self) -> float:
        """All of it."""
        return self.weights + self.kv_cache + self.reserve


def fit_of(loaded: Loaded[Any]) -> GpuFit | None:
    """None where the model runs elsewhere, has no GPU, or its card says no size."""
    card: Card = loaded.card
    local = card.engine in ("vllm", "transformers", "none") and card.placement.gpus
    if not local or card.brought or card.size is None:
        return None
    settings = _settings(card)
    files = _local_files(loaded.model_path, card.revision)
    on_disk = sum(path.stat().st_size for path in files if path.suffix == ".safetensors")
    config = next((_config(path) for path in files if path.name == "config.json"), {})
    kv_known = _kv_of(config)
    weights = (on_disk or card.size * _bytes_per_parameter(card, settings)) / GIB
    kv_cache = (kv_known or _kv_assumed(card)) / GIB
    tokens = int(settings.get("max_model_len") or PER_SEQUENCE)
    bounded = card.engine_args.get("max_pixels") or settings.get("mm_processor_kwargs")
    reserve = RESERVE if bounded else RESERVE_UNBOUND
    over = _over(card, settings)
    used = float(settings.get("gpu_memory_utilization") or USED)
    small = min(weights, card.size * FOUR_BIT / GIB)

    def said(room: float) -> str:
        """Whether it fits into so many GiB of each GPU, or what would make it."""
        if (weights + kv_cache * tokens) / over <= room:
            return "fits"
        options = []
        shorter = int((room * over - weights) / kv_cache) // 1024 * 1024
        if card.engine == "vllm" and SHORTEST <= shorter < tokens:
            options.append(f"max_model_len: {shorter}")
        more = (k for k in SPREAD if k > over and (weights + kv_cache * tokens) / k <= room)
        if card.engine in _SPREADING and (parts := next(more, None)):
            options.append(_SPREADING[card.engine].format(parts))
        if small < weights / 2 and (small + kv_cache * min(tokens, SHORTEST)) / over <= room:
            options.append("a 4-bit checkpoint")
        return " or ".join(options) or "does not fit"

    return GpuFit(
        name=card.name,
        weights=weights / over,
        kv_cache=kv_cache * tokens / over,
        reserve=reserve,
        over=over,
        tokens=tokens,
        gpus={f"{size} GB": said(size * used - reserve) for size in GPUS},
        known=" and ".join(
            what for what, there in (("weights", on_disk), ("KV cache", kv_known)) if there
        ),
    )


def _over(card: Card, settings: Mapping[str, Any]) -> int:
    """How many GPUs share its weights."""
    if card.engine_args.get("device_map") == "auto":
        return max(1, int(card.placement.gpus))
    return int(settings.get("tensor_parallel_size") or 1)


def _settings(card: Card) -> Mapping[str, Any]:
    """vLLM's own arguments; the engine's otherwise."""
    own = card.engine_args.get("engine_args")
    return own if isinstance(own, Mapping) else card.engine_args


def _bytes_per_parameter(card: Card, settings: Mapping[str, Any]) -> float:
    said = f"{card.model} {settings.get('quantization') or ''}".lower()
    if any(word in said for word in ("awq", "gptq", "int4", "4bit", "bnb", "bitsandbytes")):
        return FOUR_BIT
    if any(word in said for word in ("fp8", "int8", "w8a8")):
        return 1.0
    return 4.0 if str(settings.get("dtype")) == "float32" else 2.0


def _kv_assumed(card: Card) -> int:
    assert card.size is not None
    size = card.size / 1e9
    family = "qwen3-vl" if "qwen3" in card.model.lower() else card.family
    known = KV_BYTES.get(family, KV_BYTES_OTHERWISE)
    return known[min(known, key=lambda one: abs(one - size) / one)]


def _kv_of(config: Mapping[str, Any]) -> int | None:
    """Bytes per token in 16 bits, by the model's own config; None where it does not say."""
    text = next(
        (config[key] for key in ("text_config", "llm_config") if isinstance(config.get(key), dict)),
        config,
    )
    try:
        heads = int(text["num_attention_heads"])
        size = int(text.get("head_dim") or text["hidden_size"] // heads)
        layers, shared = int(text["num_hidden_layers"]), int(text.get("num_key_value_heads", heads))
        return 2 * layers * shared * size * 2
    except (KeyError, TypeError, ValueError):
        return None


def _config(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _local_files(model: str, revision: str | None) -> list[Path]:
    """Files of the checkpoint that are on this machine, in its folder or the hub's cache."""
    folder = Path(model)
    if not folder.is_dir():
        folder = next(_snapshots(model, revision), folder)
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _snapshots(model: str, revision: str | None) -> Iterator[Path]:
    try:
        from huggingface_hub.constants import HF_HUB_CACHE
    except ImportError:
        return
    folder = Path(HF_HUB_CACHE) / f"models--{model.replace('/', '--')}" / "snapshots"
    there = [folder / revision] if revision else sorted(folder.glob("*"))
    yield from (one for one in there if one.is_dir())
