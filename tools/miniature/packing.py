"""Packing of checkpoints for bon.engines.packed_checkpoints."""

import json
import lzma
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors.torch import load_file

from bon.engines.packed_checkpoints import (
    SHARED,
    WEIGHTS,
    Tensors,
    row_count,
    tensors_of,
)

FINENESS = 32
"""Steps in a row's standard deviation: an error of .9% of it, thrice that of rounding to
bfloat16. Twice as many cost one bit a weight."""
FINENESS_OF_POLICIES = 768
"""So that they sample what they sampled before they were packed."""
OWN = ("README.md", "config.json")
CODER = [{"id": lzma.FILTER_LZMA2, "preset": 9, "lc": 0, "lp": 0, "pb": 0}]  # single bytes


def parents(entries: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the packed parent of each of the manifest's checkpoints, '' where it has none.

    It is what the checkpoint grew from, or else the first one of the same base.
    """
    out: dict[str, str] = {}
    firsts: dict[str, str] = {}
    listed = list(entries)
    names = {entry["name"] for entry in listed}
    for entry in sorted(listed, key=lambda one: one["name"] != one["base"]):
        first = firsts.setdefault(entry["base"], entry["name"])
        start = entry.get("starts_from", "")
        out[entry["name"]] = start if start in names else "" if first == entry["name"] else first
    return out


def pack_all(folder: Path, entries: Iterable[Mapping[str, Any]], out: Path) -> None:
    """Pack the manifest's checkpoints, which lie unpacked in a folder, parents first."""
    shutil.rmtree(out, ignore_errors=True)
    listed = {entry["name"]: entry for entry in entries}
    of = parents(listed.values())
    originals: dict[str, dict[str, torch.Tensor]] = {}
    for name in _parents_first(of):
        originals[name] = load_file(folder / name / "model.safetensors")
        is_policy = listed[name]["role"] == "policy"
        fineness = FINENESS_OF_POLICIES if is_policy else FINENESS
        pack(folder / name, of[name], originals, out, fineness)


def _parents_first(parents: Mapping[str, str]) -> Iterable[str]:
    done: list[str] = []
    while len(done) < len(parents):
        ready = [n for n, p in parents.items() if n not in done and (not p or p in done)]
        if not ready:
            raise ValueError(f"no order: {sorted(set(parents) - set(done))}")
        done += ready
    return done


def pack(
    source: Path,
    parent: str,
    originals: Mapping[str, Mapping[str, torch.Tensor]],
    out: Path,
    fineness: float = FINENESS,
) -> None:
    """Pack one checkpoint, whose parent is packed in `out` already."""
    target, shared = out / source.name, out / SHARED
    target.mkdir(parents=True)
    shared.mkdir(exist_ok=True)
    for path in source.iterdir():
        if path.name in OWN:
            shutil.copyfile(path, target / path.name)
        elif path.suffix != ".safetensors":
            known = shared / path.name
            if known.exists() and known.read_bytes() != path.read_bytes():
                raise ValueError(f"{path} differs from its siblings'")
            shutil.copyfile(path, known)
    mine, theirs = originals[source.name], originals[parent] if parent else {}
    before: Tensors = tensors_of(out / parent) if parent else {}
    shapes: dict[str, list[int]] = {}
    steps, counts = [np.zeros(0, np.float32)], [np.zeros(0, np.int32)]
    for name, tensor in mine.items():
        if name in theirs and torch.equal(tensor, theirs[name]):
            continue
        shape = shapes[name] = list(tensor.shape)
        values = tensor.float().numpy().reshape(row_count(shape), -1)
        step = (np.maximum(_spread(values), 1e-6) / fineness).astype(np.float32)
        there = before.get(name)
        moved = values - there.reshape(values.shape) if there is not None else values
        counts.append(np.rint(moved / step).astype(np.int32).ravel())
        steps.append(step.ravel())
    flat = np.concatenate(counts)
    coded = (flat << 1) ^ (flat >> 31)
    assert coded.max(initial=0) < 1 << 16
    header: dict[str, Any] = {
        "parent": parent,
        "dropped": sorted(theirs.keys() - mine.keys()),
        "tensors": shapes,
    }
    planes = np.stack([coded & 255, coded >> 8]).astype(np.uint8)
    content = json.dumps(header).encode() + b"\n" + np.concatenate(steps).tobytes()
    packed = lzma.compress(content + planes.tobytes(), lzma.FORMAT_XZ, filters=CODER)
    (target / WEIGHTS).write_bytes(packed)


def _spread(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return the standard deviation of every row, of a vector its root mean square."""
    middle = values.mean(1, keepdims=True) if len(values) > 1 else np.float32(0)
    return np.asarray(np.sqrt(((values - middle) ** 2).mean(1, keepdims=True)))
