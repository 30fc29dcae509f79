"""Training rows in TRL's layout."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bon.core.dataset_features import IMAGE, write_rows
from bon.core.errors import BonError
from bon.engines.base import ImagePart, Message
from bon.exports.contents import Contents, file_name
from bon.exports.preferences import Contrast, training_rows

_TEXT = pa.string()
_CONTENT = pa.list_(pa.struct([("type", _TEXT), ("text", _TEXT)]))
_TURNS = pa.list_(pa.struct([("role", _TEXT), ("content", _CONTENT)]))
_LABELS = [(name, _TEXT) for name in ("question", "policy", "by")]
_SCORES = [(name, pa.float64()) for name in ("chosen_score", "rejected_score", "margin")]


def write_training_rows(contents: Contents, out: Path) -> list[Path]:
    """Write what the preferences of an export rank."""
    store, by = contents.store, contents.preferences.by
    shown = store.has("questions", "active > 0 AND json_array_length(data, '$.images') > 0")
    rows = training_rows(contents.setup, store, contents.preferences)
    (path,) = write_trl(rows, out, images=shown)
    if not pq.read_metadata(path).num_rows:
        why = "all are right or all are wrong" if by == "correct" else "it ranks them equally"
        raise BonError(
            f"no training rows by {by!r}: no question has two answers that differ ({why})",
            "choose another --preferences",
        )
    return [path]


def write_trl(
    rows: Iterable[Contrast], folder: Path, stem: str = "train", *, images: bool
) -> list[Path]:
    """Write conversations as TRL's DPO trainer reads them, images inside."""
    image_column = [("images", pa.list_(IMAGE))] if images else []
    turns = [(name, _TURNS) for name in ("prompt", "chosen", "rejected")]
    columns = [*_LABELS, *image_column, *turns, *_SCORES]
    return [write_rows(map(_conversation, rows), columns, folder / f"{stem}.parquet")]


def _conversation(row: Contrast) -> dict[str, Any]:
    """Return a training row as conversations with image placeholders."""
    return {
        "question": row.question.id,
        "policy": row.policy,
        "by": row.by,
        "images": [{"bytes": image.data, "path": file_name(image)} for image in row.images],
        "prompt": [_turn(message) for message in row.messages],
        "chosen": [_turn(Message("assistant", (row.chosen,)))],
        "rejected": [_turn(Message("assistant", (row.rejected,)))],
        **{name: getattr(row, name) for name, _ in _SCORES},
    }


def _turn(message: Message) -> dict[str, Any]:
    content = [
        {"type": "image", "text": None}
        if isinstance(part, ImagePart)
        else {"type": "text", "text": part}
        for part in message.parts
    ]
    return {"role": message.role, "content": content}
