"""Estimate the GPU memory and disk space of local models before they are loaded.

Weights and KV cache follow from the card or the checkpoint's config.json; the vision encoder,
activations and CUDA take a reserve.
"""

import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bon.engines import ENGINES
from bon.engines.checkpoints import FOUR_BIT
from bon.experiment.cards import Loaded
from bon.experiment.config import Card
from bon.work.stored_models import on_hub

GIB = 2**30
GPUS = (24, 48, 80)
"""GPU sizes in GiB."""

RESERVE, RESERVE_UNBOUND = 2.0, 4.0
"""GiB for the vision encoder, activations and CUDA, with `max_pixels` or no images, and without."""

PER_SEQUENCE = 8192
"""Context length where a card sets no max_model_len: a judge's prompt of two answers fits."""

MIN_CONTEXT = 4096
PARALLEL_SIZES = (2, 4, 8)


@dataclass(frozen=True)
class GpuFit:
    """GiB per GPU of a model on `over` GPUs with a KV cache of `tokens`, None where unknown.

    `gpus`: GPU size -> "fits", "weights fit" without a known cache, or the setting that makes it
    fit.
    """

    name: str
    weights: float
    kv_cache: float | None
    reserve: float
    over: int
    tokens: int
    gpus: dict[str, str]

    @property
    def total(self) -> float:
        """Return weights, KV cache and reserve together."""
        return self.weights + (self.kv_cache or 0) + self.reserve


def fit_of(loaded: Loaded[Any]) -> GpuFit | None:
    """Estimate the memory of a model; None if it is remote, on CPU or of unknown size."""
    card: Card = loaded.card
    engine = ENGINES[card.engine]
    local = engine.weights_here and card.placement.gpus
    if not local or card.imported:
        return None
    known = loaded.checkpoint()
    parameters = card.size or (known.size if known is not None else None)
    if parameters is None:
        return None
    settings = _settings(card)
    width = known.bytes_per_parameter if known is not None else None
    weights = parameters * (width or _bytes_per_parameter(card, settings)) / GIB
    text_alone = known is not None and not known.reads_images
    kv_bytes = card.kv_bytes or (known.kv_bytes if known is not None else None)
    halved = str(settings.get("kv_cache_dtype")).startswith("fp8")
    kv_per_token = (kv_bytes or 0) / (2 * GIB if halved else GIB)
    tokens = int(settings.get("max_model_len") or PER_SEQUENCE)
    limits_images = card.engine_args.get("max_pixels") or settings.get("mm_processor_kwargs")
    bounded = text_alone or limits_images
    reserve = RESERVE if bounded else RESERVE_UNBOUND
    over = int(settings.get("tensor_parallel_size") or 1)
    if card.engine_args.get("device_map") == "auto":
        over = max(1, int(card.placement.gpus))
    small = min(weights, parameters * FOUR_BIT / GIB)

    def advice(available: float) -> str:
        needed = weights + kv_per_token * tokens
        if needed / over <= available:
            return "fits" if kv_bytes else "weights fit"
        options = []
        context = 0
        if kv_bytes:
            context = int((available * over - weights) / kv_per_token) // 1024 * 1024
        if engine.shorten and MIN_CONTEXT <= context < tokens:
            options.append(engine.shorten.format(context))
        sizes = (k for k in PARALLEL_SIZES if k > over and needed / k <= available)
        if engine.spread and (size := next(sizes, None)):
            options.append(engine.spread.format(size))
        small_total = small + kv_per_token * min(tokens, MIN_CONTEXT)
        if small < weights / 2 and small_total / over <= available:
            options.append("a 4-bit checkpoint")
        return " or ".join(options) or "does not fit"

    return GpuFit(
        name=card.name,
        weights=weights / over,
        kv_cache=kv_per_token * tokens / over if kv_bytes else None,
        reserve=reserve,
        over=over,
        tokens=tokens,
        gpus={f"{size} GB": advice(size * card.gpu_memory_share - reserve) for size in GPUS},
    )


def active_parameters(loaded: Loaded[Any]) -> float | None:
    """Return the parameters that each token uses, by the card or else by the checkpoint's files."""
    card: Card = loaded.card
    if known := card.active or card.size:
        return known
    found = loaded.checkpoint()
    return found.active if found is not None else None


def _settings(card: Card) -> Mapping[str, Any]:
    """Return vLLM's own arguments, or the engine's."""
    nested = card.engine_args.get("engine_args")
    return nested if isinstance(nested, Mapping) else card.engine_args


def _bytes_per_parameter(card: Card, settings: Mapping[str, Any]) -> float:
    text = f"{card.model} {settings.get('quantization') or ''}".lower()
    if any(word in text for word in ("awq", "gptq", "int4", "4bit", "bnb", "bitsandbytes")):
        return FOUR_BIT
    if any(word in text for word in ("fp8", "int8", "w8a8")):
        return 1.0
    return 4.0 if str(settings.get("dtype")) == "float32" else 2.0


CHECKPOINT_BYTES = 2
"""Bytes per parameter on disk: nearly every checkpoint is stored in 16 bits."""


@dataclass(frozen=True, slots=True)
class Weights:
    """Bytes of the distinct hub checkpoints: in all and already in the cache.

    `unknown`: checkpoints without a size on their card. `free`: space on the cache's disk.
    """

    checkpoints: int
    total: float
    here: float
    unknown: int
    free: float

    @property
    def short(self) -> float:
        """Return the bytes missing on the disk."""
        return max(0.0, self.total - self.here - self.free)


def hub_home() -> Path:
    """Return the hub's folder of models and token, as huggingface_hub locates it."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    return Path(os.environ.get("HF_HOME") or caches / "huggingface").expanduser()


def hub_cache() -> Path:
    """Return the hub's folder of checkpoints."""
    return Path(os.environ.get("HF_HUB_CACHE") or hub_home() / "hub").expanduser()


def _hub_folder(model: str) -> Path:
    return hub_cache() / f"models--{model.replace('/', '--')}"


def checkpoint_weights(models: Iterable[Loaded[Any]]) -> Weights | None:
    """Return the disk space of the models' checkpoints; None if none is from the hub."""
    sizes: dict[tuple[str, str | None], float | None] = {}
    for model in models:
        if on_hub(model):
            sizes[model.card.model, model.card.revision] = model.card.size
    if not sizes:
        return None
    cached = [key for key in sizes if _hub_folder(key[0]).is_dir()]
    cache = hub_cache()
    existing = next(folder for folder in (cache, *cache.parents) if folder.exists())
    return Weights(
        checkpoints=len(sizes),
        total=sum(CHECKPOINT_BYTES * (size or 0) for size in sizes.values()),
        here=sum(CHECKPOINT_BYTES * (sizes[key] or 0) for key in cached),
        unknown=sum(size is None for size in sizes.values()),
        free=shutil.disk_usage(existing).free,
    )
