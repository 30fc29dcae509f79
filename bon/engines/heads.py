"""Reward heads: the small network that turns the last hidden state into one number.

Read straight from a checkpoint's safetensors, under the names that published reward models use,
because no model class of transformers carries them for vision-language models.
"""

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import safe_open
from torch import nn
from transformers.utils import cached_file

from bon.core.errors import BonError
from bon.engines.settings import Activation, HeadSettings

LINEAR_NAMES = (
    "score",
    "language_model.score",
    "model.language_model.score",
    "model.score",
    "v_head.summary",
    "reward_head",
    "value_head",
)
"""Single linear layers that are found without being named, most usual first."""

HEAD_FILES = ("value_head.safetensors",)
"""Files beside the model's own that may hold a head."""

_ACTIVATIONS: dict[str, type[nn.Module]] = {
    "silu": nn.SiLU,
    "tanh": nn.Tanh,
    "relu": nn.ReLU,
    "gelu": nn.GELU,
}


class Head(nn.Module):  # type: ignore[misc]
    """Linear layers with an activation between them; computed in float32."""

    def __init__(self, layers: Sequence[nn.Linear], activation: Activation, names: list[str]):
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.activation = _ACTIVATIONS[activation]()
        self.names = names

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """One score for every row of hidden states."""
        value = hidden.float()
        for index, layer in enumerate(self.layers):
            value = layer(value if index == 0 else self.activation(value))
        return value[..., 0]


def load_head(model: str, settings: HeadSettings, revision: str | None, device: Any) -> Head:
    """The head of a checkpoint.

    One layer called "auto" is a linear layer under a usual name.
    """
    where = tensor_files(model, revision, settings.file)
    names = settings.layers
    if names == ["auto"]:
        names = [name for name in LINEAR_NAMES if f"{name}.weight" in where][:1]
        if not names:
            raise BonError(
                f"model {model!r} has no reward head under a usual name ({', '.join(LINEAR_NAMES)})"
                f"; its tensors outside the layers are: {_unusual(where)}",
                "name it: head: {layers: [NAME], activation: silu}",
            )
    layers = [_linear(model, name, where) for name in names]
    for first, second in pairwise(layers):
        if first.out_features != second.in_features:
            raise BonError(
                f"head of {model!r}: {names} do not follow each other "
                f"({first.out_features} values into {second.in_features})",
                "name the layers in the order in which they are applied",
            )
    if layers[-1].out_features != 1:
        raise BonError(
            f"head of {model!r}: {names[-1]!r} gives {layers[-1].out_features} numbers, not one",
            "name the layer that gives the score last",
        )
    head: Head = Head(layers, settings.activation, names).to(device).eval()
    return head


def tensor_files(model: str, revision: str | None, file: str | None) -> dict[str, Path]:
    """Where every tensor of the checkpoint lies; a named file alone when one is given."""
    where: dict[str, Path] = {}
    if file is None:
        index = _find(model, "model.safetensors.index.json", revision)
        if index is not None:
            shards = json.loads(index.read_text())["weight_map"]
            paths = {shard: _find(model, shard, revision) for shard in set(shards.values())}
            where = {name: cast(Path, paths[shard]) for name, shard in shards.items()}
        elif (single := _find(model, "model.safetensors", revision)) is not None:
            where = dict.fromkeys(_names(single), single)
    for extra in (file,) if file else HEAD_FILES:
        path = _find(model, extra, revision)
        if path is not None:
            where |= dict.fromkeys(_names(path), path)
        elif file:
            raise BonError(f"model {model!r} has no file {file!r}", "correct head: {file: ...}")
    if not where:
        raise BonError(
            f"model {model!r} has no safetensors to read a reward head from",
            "convert its weights to safetensors",
        )
    return where


def _find(model: str, name: str, revision: str | None) -> Path | None:
    found = cached_file(
        model,
        name,
        revision=revision,
        _raise_exceptions_for_missing_entries=False,
        _raise_exceptions_for_connection_errors=False,
    )
    return Path(found) if found else None


def _names(path: Path) -> list[str]:
    with safe_open(path, "pt") as tensors:
        return list(tensors.keys())


def _linear(model: str, name: str, where: Mapping[str, Path]) -> nn.Linear:
    weight = _read(f"{name}.weight", where)
    if weight is None or weight.dim() != 2:
        raise BonError(
            f"head of {model!r}: no matrix {name + '.weight'!r} in the checkpoint; outside the "
            f"layers it has: {_unusual(where)}",
            "correct the name under head:",
        )
    bias = _read(f"{name}.bias", where)
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None)
    layer.weight.data = weight.float()
    if bias is not None:
        layer.bias.data = bias.float()
    return layer


def _read(name: str, where: Mapping[str, Path]) -> torch.Tensor | None:
    if name not in where:
        return None
    with safe_open(where[name], "pt") as tensors:
        return cast(torch.Tensor, tensors.get_tensor(name))


def _unusual(where: Mapping[str, Path]) -> str:
    """Names a head might have: not inside numbered blocks of the backbone."""
    names = [n for n in where if not any(f".{part}." in n for part in ("layers", "blocks"))]
    return ", ".join(sorted(names)[:12]) or "none"
