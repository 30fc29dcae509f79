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

    `size` is its number of parameters and `kv_bytes` the bytes per token of its cache in 16 bits,
    where config.json and local weights tell.
    """

    model: str
    architecture: str
    reads_images: bool
    classifier: bool
    size: float | None
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
    config = read_config(model, revision, download=download)
    if not config:
        return None
    architecture = str((config.get("architectures") or [""])[0])
    reads_images = any(map(_READS_IMAGES.search, config))
    if "auto_map" in config and not reads_images:  # code of its own may name its encoder otherwise
        reads_images = any(_file(model, revision, name) for name in _IMAGE_PROCESSORS)
    return Checkpoint(
        model=model,
        architecture=architecture,
        reads_images=reads_images,
        classifier=bool(_WITHOUT_LM_HEAD.search(architecture)),
        size=_parameters(model, config),
        kv_bytes=_kv_bytes(config),
    )


def read_config(
    model: str, revision: str | None = None, *, download: bool = False
) -> dict[str, Any]:
    """Return a checkpoint's config.json; empty if it is not here."""
    path = _file(model, revision, "config.json", download=download)
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path else {}


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


def _parameters(model: str, config: dict[str, Any]) -> float | None:
    weights = Path(model).expanduser().glob("*.safetensors")
    width = 4 if str(config.get("dtype") or config.get("torch_dtype")) == "float32" else 2
    return sum(file.stat().st_size for file in weights) / width or None


def _kv_bytes(config: dict[str, Any]) -> int | None:
    text = config.get("text_config") or config
    names = ("num_hidden_layers", "hidden_size", "num_attention_heads")
    layers, hidden, heads = sizes = [text.get(name) or 0 for name in names]
    if not all(isinstance(size, int) and size for size in sizes):
        return None
    width = text.get("head_dim") or hidden // heads
    return int(2 * layers * (text.get("num_key_value_heads") or heads) * width * 2)
