"""What a checkpoint is, by its config.json: decided here, for planning and for every engine.

Needs neither torch nor transformers.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bon.core.errors import BonError

_READS_IMAGES = re.compile(r"(^|_)(vision|visual|image|img|vit|mm)(_|$)")
"""Keys of config.json that only models with an image encoder have, such as `vision_config`."""

_IMAGE_PROCESSORS = ("preprocessor_config.json", "processor_config.json")
_WITHOUT_LM_HEAD = re.compile(r"For((Sequence|Token)Classification|(Process)?RewardModel)$")


@dataclass(frozen=True)
class Checkpoint:
    """`architecture` as in config.json; a `classifier` has a head of scores and writes no text.

    Where config.json and local weights tell: `size` is its number of parameters, `active` those
    that each token uses, `bytes_per_parameter` what they take where they are quantized, and
    `kv_bytes` the bytes per token of its cache.
    """

    model: str
    architecture: str
    reads_images: bool
    classifier: bool
    size: float | None
    active: float | None
    bytes_per_parameter: float | None
    kv_bytes: int | None

    def check_writes(self, fix: str) -> None:
        """Raise BonError where text is asked of a classifier."""
        if self.classifier:
            problem = f"is a reward model ({self.architecture}): it scores and writes no text"
            raise BonError(f"model {self.model!r} {problem}", fix)


def checkpoint(
    model: str, revision: str | None = None, *, download: bool = False
) -> Checkpoint | None:
    """Return what a folder or a hub model is; None if its config.json is not here.

    `download`: fetch config.json from the hub, and raise whatever prevents that.
    """
    path = _file(model, revision, "config.json", download=download)
    config: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path else {}
    if not config:
        return None
    architecture = str((config.get("architectures") or [""])[0])
    reads_images = any(map(_READS_IMAGES.search, config))
    if "auto_map" in config and not reads_images:  # code of its own may name its encoder otherwise
        reads_images = any(_file(model, revision, name) for name in _IMAGE_PROCESSORS)
    text = config.get("text_config") or config
    width = _bytes_per_parameter(config)
    weights = Path(model).expanduser().glob("*.safetensors")
    full = 4 if str(config.get("dtype") or config.get("torch_dtype")) == "float32" else 2
    size = sum(file.stat().st_size for file in weights) / (width or full) or None
    return Checkpoint(
        model=model,
        architecture=architecture,
        reads_images=reads_images,
        classifier=bool(_WITHOUT_LM_HEAD.search(architecture)),
        size=size,
        active=None if size is None else max(size - _idle_parameters(text), 0.0),
        bytes_per_parameter=width,
        kv_bytes=_kv_bytes(text, config),
    )


def _file(model: str, revision: str | None, name: str, *, download: bool = False) -> Path | None:
    """Return the path of a file in a folder or in the hub's cache."""
    folder = Path(model).expanduser()
    if folder.is_dir():
        return folder / name if (folder / name).is_file() else None
    try:
        from huggingface_hub import hf_hub_download

        options = {"revision": revision, "local_files_only": not download}
        return Path(hf_hub_download(model, name, **options))
    except (ImportError, OSError, ValueError):  # not here, or no name of a hub model
        if download:
            raise
        return None


FOUR_BIT = 0.6
"""Bytes per parameter of a 4-bit checkpoint: scales, and a vision encoder in 16 bits."""


def _bytes_per_parameter(config: dict[str, Any]) -> float | None:
    """Return the bytes of a parameter of quantized weights; None if they are not quantized."""
    found = config.get("quantization_config")
    if not isinstance(found, dict):
        return None
    method = str(found.get("quant_method"))
    groups = (found.get("config_groups") or {}).values()  # of compressed-tensors
    bits = next((w.get("num_bits") for group in groups if (w := group.get("weights"))), None)
    four = method in ("awq", "gptq", "mxfp4") or found.get("load_in_4bit")
    bits = bits or found.get("bits") or found.get("w_bit") or (4 if four else 8)
    return FOUR_BIT if bits == 4 else bits / 8


def _first(text: dict[str, Any], *names: str) -> int:
    """Return the first number that is there: of a list, one per modality, its first."""
    values = (value[0] if isinstance(value, list) and value else value
              for name in names if (value := text.get(name)))  # fmt: skip
    return next((value for value in values if isinstance(value, int)), 0)


def _idle_parameters(text: dict[str, Any]) -> int:
    """Return the parameters of the experts that a token does not use."""
    experts = _first(
        text, "num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"
    )
    used = _first(text, "num_experts_per_tok", "moe_k", "num_selected_experts")
    width = _first(text, "moe_intermediate_size", "expert_dim", "intermediate_size")
    layers = _first(text, "num_hidden_layers") - _first(text, "first_k_dense_replace")
    idle = max(experts - used, 0) if used else 0
    return layers * idle * 3 * _first(text, "hidden_size") * width


_WITHOUT_CACHE = re.compile("linear|conv|mamba|recurrent")
"""Layers whose state does not grow with the text."""


def _kv_bytes(text: dict[str, Any], config: dict[str, Any]) -> int | None:
    layers, heads = _first(text, "num_hidden_layers"), _first(text, "num_attention_heads")
    if not (layers and heads and _first(text, "hidden_size")):
        return None
    if isinstance(kinds := text.get("layer_types"), list):
        layers = sum(not _WITHOUT_CACHE.search(str(kind)) for kind in kinds)
    if rank := _first(text, "kv_lora_rank"):  # latent attention has one vector for all heads
        values = rank + _first(text, "qk_rope_head_dim")
    else:
        width = _first(text, "head_dim") or _first(text, "hidden_size") // heads
        values = 2 * (_first(text, "num_key_value_heads") or heads) * width
    scheme = (config.get("quantization_config") or {}).get("kv_cache_scheme") or {}
    return layers * values * (1 if scheme.get("num_bits") == 8 else 2)
