"""Reward heads: the small network that turns the last hidden state into a score.

Read from a checkpoint's safetensors, under the names that published reward models use, because
transformers has no classes for most of them.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import SafetensorError, safe_open
from torch import nn
from transformers.activations import ACT2FN
from transformers.utils import cached_file

from bon.core.errors import BonError
from bon.engines.settings import Activation, HeadSettings

LINEAR_NAMES = (
    "score",
    "language_model.score",
    "model.language_model.score",
    "model.score",
    "v_head.summary",
    "v_head",
    "reward_head",
    "value_head",
)
"""Usual names of a single linear layer, most common first; `auto` takes the first match."""

DOWNLOAD = "copy or download the checkpoint again"
HEAD_FILES = ("value_head.safetensors",)
"""Files beside the model's own that may hold a head."""


class Head(nn.Module):  # type: ignore[misc]
    """Linear layers with activations in between; computed in float32."""

    def __init__(
        self, layers: Sequence[nn.Linear], activation: Activation, names: list[str], output: int
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.activation = ACT2FN[activation]
        self.names = names
        self.output = output

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return one score per row of hidden states."""
        value = hidden.float()
        for index, layer in enumerate(self.layers):
            value = layer(value if index == 0 else self.activation(value))
        return value[..., self.output]


def load_head(model: str, settings: HeadSettings, revision: str | None, device: Any) -> Head:
    """Load the head of a checkpoint; BonError if there is none or its layers do not fit."""
    files = tensor_files(model, revision, settings.file)
    names = settings.layers
    if names == ["auto"]:
        names = [name for name in LINEAR_NAMES if f"{name}.weight" in files][:1]
        if not names:
            raise BonError(
                f"model {model!r} has no reward head under a usual name ({', '.join(LINEAR_NAMES)})"
                f"; its tensors outside the layers are: {_outside_layers(files)}",
                "name it: head: {layers: [NAME], activation: silu}",
            )
    layers = [_linear(model, name, files) for name in names]
    sizes = [layer.out_features for layer in layers]
    for size, layer in zip(sizes, layers[1:], strict=False):
        if size != layer.in_features:
            problem = f"do not follow each other ({size} values into {layer.in_features})"
            fix = "name the layers in the order in which they are applied"
            raise BonError(f"head of {model!r}: {names} {problem}", fix)
    if settings.output is None and sizes[-1] != 1:
        fix = f"say which is the reward, from 0 (head: {{layers: [{names[-1]}], output: 0}}), "
        fix += "or name the layer that gives the score last"
        raise BonError(f"head of {model!r}: {names[-1]!r} gives {sizes[-1]} numbers, not one", fix)
    output = settings.output or 0
    if output >= sizes[-1]:
        problem = f"head of {model!r}: no output {output}, {names[-1]!r} gives {sizes[-1]}"
        raise BonError(problem, f"choose from 0 to {sizes[-1] - 1}")
    return cast(Head, Head(layers, settings.activation, names, output).to(device).eval())


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """Open a safetensors file; BonError for a damaged one."""
    try:
        with safe_open(path, "pt") as tensors:
            yield tensors
    except SafetensorError as error:
        raise BonError(f"{path} is damaged ({error})", DOWNLOAD) from None


def tensor_files(model: str, revision: str | None, file: str | None) -> dict[str, Path]:
    """Map every tensor of the checkpoint, or of one named file, to its file."""
    quiet = (f"_raise_exceptions_for_{what}" for what in ("missing_entries", "connection_errors"))
    options = {"revision": revision, **dict.fromkeys(quiet, False)}

    def locate(name: str) -> Path | None:
        path = cached_file(model, name, **options)
        return Path(path) if path else None

    files: dict[str, Path] = {}
    names = (file,) if file else ("model.safetensors", *HEAD_FILES)
    if file and not locate(file):
        raise BonError(f"model {model!r} has no file {file!r}", "correct head: {file: ...}")
    if not file and (index := locate("model.safetensors.index.json")):
        try:
            shards, names = dict(json.loads(index.read_text())["weight_map"]), HEAD_FILES
        except (ValueError, KeyError, TypeError):
            raise BonError(f"{index} is damaged", DOWNLOAD) from None
        located = {shard: locate(shard) for shard in set(shards.values())}
        files = {name: cast(Path, located[shard]) for name, shard in shards.items()}
    for path in filter(None, map(locate, names)):
        with opened(path) as tensors:
            files |= dict.fromkeys(tensors.keys(), path)
    if not files:
        fix = "convert its weights to safetensors"
        raise BonError(f"model {model!r} has no safetensors to read a reward head from", fix)
    return files


def _linear(model: str, name: str, files: Mapping[str, Path]) -> nn.Linear:
    def tensor(part: str) -> torch.Tensor | None:
        if (path := files.get(f"{name}.{part}")) is None:
            return None
        with opened(path) as tensors:
            return cast(torch.Tensor, tensors.get_tensor(f"{name}.{part}"))

    weight, bias = tensor("weight"), tensor("bias")
    if weight is None or weight.dim() != 2:
        problem = f"no matrix {name + '.weight'!r} in the checkpoint; outside the layers it has: "
        problem += _outside_layers(files)
        raise BonError(f"head of {model!r}: {problem}", "correct the name under head:")
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None)
    layer.weight.data = weight.float()
    if bias is not None:
        layer.bias.data = bias.float()
    return layer


def _outside_layers(files: Mapping[str, Path]) -> str:
    """List names that a head might have: not inside numbered blocks of the backbone."""
    names = [n for n in files if not any(f".{part}." in n for part in ("layers", "blocks"))]
    return ", ".join(sorted(names)[:12]) or "none"
