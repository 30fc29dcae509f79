"""Checkpoints stored small: what they share once, weights as counts of steps from a parent's.

A packed checkpoint is a folder with `weights.xz`, a model card and `config.json`; files that its
siblings have too lie in the folder `shared` beside it. `unpacked` makes an ordinary Hugging Face
folder of it in the user's cache, byte for byte the same everywhere: float32 additions and
products of numpy, rounded to bfloat16. tools/miniature/packing.py packs.
"""

import hashlib
import json
import lzma
import shutil
import tempfile
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bon.core.errors import BonError
from bon.core.files import cache_folder

WEIGHTS = "weights.xz"
SHARED = "shared"
FORMAT = 1

Tensors = dict[str, npt.NDArray[np.float32]]


def is_packed(folder: Path) -> bool:
    """Return whether a folder is a packed checkpoint."""
    return (folder / WEIGHTS).is_file()


def unpacked(folder: Path) -> Path:
    """Return a folder that transformers loads: the given one, or a packed one's copy in the cache.

    The copy's name is the hash of all it is made of. It appears in one step, so that processes
    that make it at once end with the same one.

    Raises:
        BonError: the cache folder cannot be written.
    """
    if not is_packed(folder):
        return folder
    cache = cache_folder().absolute() / "checkpoints"  # workers have other working directories
    target = cache / f"{folder.name}-{packed_key(folder)[:16]}"
    if target.is_dir():
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=target.parent))
    except OSError as error:
        raise _no_cache(target.parent, error) from None
    try:
        for source in (folder.parent / SHARED, folder):
            for path in source.iterdir():
                if path.name != WEIGHTS:
                    shutil.copyfile(path, part / path.name)
        (part / "model.safetensors").write_bytes(_safetensors(tensors_of(folder)))
        part.rename(target)
    except OSError as error:
        if not target.is_dir():  # no other process was first
            raise _no_cache(target.parent, error) from None
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return target


def _no_cache(folder: Path, error: OSError) -> BonError:
    reason = error.strerror or type(error).__name__
    fix = "free some space, or set XDG_CACHE_HOME to a folder that can be written"
    return BonError(f"cannot unpack a checkpoint into {folder}: {reason}", fix)


def packed_key(folder: Path) -> str:
    """Return the SHA-256 of all that a packed checkpoint is made of; its model card apart."""
    digest = hashlib.sha256(str(FORMAT).encode())
    for source in (folder.parent / SHARED, *_lineage(folder)):
        for path in sorted(source.iterdir()):
            if path.suffix != ".md":
                digest.update(f"{path.name}:{path.stat().st_size}:".encode() + path.read_bytes())
    return digest.hexdigest()


def _lineage(folder: Path) -> Iterator[Path]:
    """Yield a packed checkpoint and its parents."""
    yield folder
    while parent := _header(folder)["parent"]:
        folder = folder.parent / parent
        yield folder


def _header(folder: Path) -> dict[str, Any]:
    """Return the header of a packed checkpoint; decompresses little more than it."""
    with lzma.open(folder / WEIGHTS) as file:
        header: dict[str, Any] = json.loads(file.readline())
    return header


@lru_cache(maxsize=4)
def tensors_of(folder: Path) -> Tensors:
    """Return a packed checkpoint's tensors, their values bfloat16's.

    The header names the tensors in the order of their numbers: float32 steps of all rows, then
    the low and the high bytes of zigzag-coded 16-bit counts of steps. What it does not name is
    the parent's own.
    """
    with lzma.open(folder / WEIGHTS) as file:
        header, numbers = json.loads(file.readline()), file.read()
    tensors = dict(tensors_of(folder.parent / header["parent"])) if header["parent"] else {}
    shapes: dict[str, list[int]] = header["tensors"]
    rows = sum(row_count(shape) for shape in shapes.values())
    steps = np.frombuffer(numbers[: 4 * rows], "<f4")
    coded = np.frombuffer(numbers[4 * rows :], np.uint8).astype(np.int32)
    low, high = coded.reshape(2, len(coded) // 2)
    coded = low | high << 8
    counts = (coded >> 1) ^ -(coded & 1)
    row = at = 0
    for name, shape in shapes.items():
        many, size = row_count(shape), int(np.prod(shape))
        step = steps[row : row + many, None]
        moved = counts[at : at + size].reshape(many, -1).astype(np.float32) * step
        before = tensors.get(name)
        if before is not None and before.shape == tuple(shape):
            moved = before.reshape(many, -1) + moved
        tensors[name] = rounded(moved).reshape(shape)
        row, at = row + many, at + size
    for name in header["dropped"]:
        del tensors[name]
    return tensors


def row_count(shape: list[int]) -> int:
    """Return how many steps a tensor has: one per row, one for a vector."""
    return shape[0] if len(shape) > 1 else 1


def rounded(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Round to the nearest bfloat16, ties to even."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    bits = (bits + 0x7FFF + (bits >> 16 & 1)) & np.uint32(0xFFFF0000)
    return bits.view(np.float32)


def _safetensors(tensors: Tensors) -> bytes:
    """Return the tensors as a safetensors file in bfloat16 (core has no torch to write it)."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    parts, at = [], 0
    for name in sorted(tensors):
        values = tensors[name]
        parts.append((values.view(np.uint32) >> 16).astype("<u2").tobytes())
        end = at + len(parts[-1])
        header[name] = {"dtype": "BF16", "shape": values.shape, "data_offsets": [at, end]}
        at = end
    head = json.dumps(header, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 8)
    return len(head).to_bytes(8, "little") + head + b"".join(parts)
