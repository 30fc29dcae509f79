"""What the checkpoints of an experiment take on disk, and how much of it is here. Asks no hub."""

import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bon.experiment.cards import Loaded
from bon.experiment.config import PolicyCard, RewarderCard

BYTES = 2
"""Per parameter: nearly every checkpoint is stored in 16 bits."""

_LOADS = ("transformers", "vllm", "none")
"""Engines that have the weights on this machine; `none` for rewarders that load their own."""


@dataclass(frozen=True, slots=True)
class Weights:
    """Bytes of distinct checkpoints of the hub: how many, in all and already in its cache.

    `unknown` are those of cards without a size; `free` is what the cache's disk has left.
    """

    checkpoints: int
    total: float
    here: float
    unknown: int
    free: float

    @property
    def short(self) -> float:
        """Bytes that the disk has too few."""
        return max(0.0, self.total - self.here - self.free)


def cache() -> Path:
    """Where the hub's cache is, as huggingface_hub decides it."""
    home = Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface")
    return Path(os.environ.get("HF_HUB_CACHE") or home / "hub").expanduser()


def weights(models: Iterable[Loaded[PolicyCard] | Loaded[RewarderCard]]) -> Weights | None:
    """What the checkpoints of these models take; None where none of them comes from the hub."""
    sizes: dict[tuple[str, str | None], float | None] = {}
    for model in models:
        card, name = model.card, model.model_path
        if card.engine in _LOADS and not card.brought and name.count("/") == 1:
            sizes[name, card.revision] = card.size
    if not sizes:
        return None
    place = cache()
    here = [key for key in sizes if (place / f"models--{key[0].replace('/', '--')}").is_dir()]
    existing = next(folder for folder in (place, *place.parents) if folder.exists())
    return Weights(
        checkpoints=len(sizes),
        total=sum(BYTES * (size or 0) for size in sizes.values()),
        here=sum(BYTES * (sizes[key] or 0) for key in here),
        unknown=sum(size is None for size in sizes.values()),
        free=shutil.disk_usage(existing).free,
    )
