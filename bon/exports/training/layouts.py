"""Layouts of training rows: TRL (Parquet, JSONL), LLaMA-Factory, ms-swift."""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from bon.core.dataset_features import IMAGE, write_rows
from bon.engines.base import ImagePart, Message
from bon.exports import image_files
from bon.exports.image_files import ImageFolder, file_name
from bon.exports.training.preferences import Contrast, Target, Training

Row = dict[str, Any]
LLAMA_FACTORY_NAME = "bon"

_TEXT = pa.string()
_CONTENT = pa.list_(pa.struct([("type", _TEXT), ("text", _TEXT)]))
_TURNS = pa.list_(pa.struct([("role", _TEXT), ("content", _CONTENT)]))
_LABELS = [(name, _TEXT) for name in ("question", "policy", "by")]
_SCORES = [(name, pa.float64()) for name in ("chosen_score", "rejected_score", "margin")]
_PAIRED = [("chosen", _TURNS), ("rejected", _TURNS), *_SCORES]
_UNPAIRED = [("completion", _TURNS), ("label", pa.bool_()), ("score", pa.float64())]


def write_parquet(rows: Iterable[Training], target: Target) -> list[Path]:
    """Write conversations as TRL's DPO and KTO trainers read them, images inside."""
    images = [("images", pa.list_(IMAGE))] if target.images else []
    rest = _UNPAIRED if target.unpaired else _PAIRED
    columns = [*_LABELS, *images, ("prompt", _TURNS), *rest]
    path = target.folder / f"{target.stem}.parquet"
    return [write_rows(map(_parquet_row, rows), columns, path)]


def _parquet_row(row: Training) -> Row:
    images = [{"bytes": image.data, "path": file_name(image)} for image in row.query.images]
    return {**_conversation(row), "images": images}


def write_jsonl(rows: Iterable[Training], target: Target) -> list[Path]:
    """Write the same conversations as JSONL with image files."""
    images = ImageFolder(target.folder)

    def record(row: Training) -> Row:
        paths = [images.add(image) for image in row.query.images]
        return _conversation(row) | ({"images": paths} if target.images else {})

    return _write_jsonl(map(record, rows), target, images)


def _write_jsonl(records: Iterable[Row], target: Target, images: ImageFolder) -> list[Path]:
    path = image_files.write_jsonl(records, target.folder / f"{target.stem}.jsonl")
    return [path, *images.paths()]


def _conversation(row: Training) -> Row:
    """Return a training row as conversations with image placeholders."""
    query = row.query
    record: Row = {
        "question": query.question.id,
        "policy": query.policy,
        "by": query.by,
        "prompt": [_turn(message) for message in query.messages],
    }
    if isinstance(row, Contrast):
        scores = {name: getattr(row, name) for name, _ in _SCORES}
        return record | {"chosen": _reply(row.chosen), "rejected": _reply(row.rejected), **scores}
    return record | {"completion": _reply(row.text), "label": row.desirable, "score": row.score}


def _turn(message: Message) -> Row:
    content = [
        {"type": "image", "text": None}
        if isinstance(part, ImagePart)
        else {"type": "text", "text": part}
        for part in message.parts
    ]
    return {"role": message.role, "content": content}


def _reply(text: str) -> list[Row]:
    return [_turn(Message("assistant", (text,)))]


def write_ms_swift(rows: Iterable[Training], target: Target) -> list[Path]:
    """Write JSONL for `swift rlhf`; image paths are absolute, as it resolves them from the cwd."""
    images = ImageFolder(target.folder)
    home = target.home.resolve()

    def record(row: Training) -> Row:
        messages = [{"role": m.role, "content": _tagged(m)} for m in row.query.messages]
        reply = row.chosen if isinstance(row, Contrast) else row.text
        record: Row = {
            "messages": [*messages, {"role": "assistant", "content": escape_tags(reply)}]
        }
        if isinstance(row, Contrast):
            record |= {"rejected_response": escape_tags(row.rejected), "margin": row.margin}
        else:
            record["label"] = row.desirable
        paths = [str(home / images.add(image)) for image in row.query.images]
        return record | ({"images": paths} if target.images else {})

    return _write_jsonl(map(record, rows), target, images)


def write_llama_factory(rows: Iterable[Training], target: Target) -> list[Path]:
    """Write ShareGPT data and dataset_info.json for `--dataset_dir`."""
    images = ImageFolder(target.folder)
    data, info = target.folder / "data.json", target.folder / "dataset_info.json"
    with data.open("w", encoding="utf-8") as file:
        file.write("[")
        for number, row in enumerate(rows):
            record = _sharegpt(row)
            if target.images:
                record["images"] = [images.add(image) for image in row.query.images]
            file.write(("," if number else "") + "\n" + json.dumps(record, ensure_ascii=False))
        file.write("\n]\n")
    names = ["kto_tag"] if target.unpaired else ["chosen", "rejected"]
    names += ["images"] if target.images else []
    columns = {"messages": "conversations"} | {name: name for name in names}
    entry: Row = {"file_name": data.name, "formatting": "sharegpt", "columns": columns}
    entry |= {} if target.unpaired else {"ranking": True}
    info.write_text(json.dumps({LLAMA_FACTORY_NAME: entry}, indent=2) + "\n", encoding="utf-8")
    return [data, info, *images.paths()]


def _sharegpt(row: Training) -> Row:
    prompt = [{"from": "human", "value": _tagged(message)} for message in row.query.messages]
    if isinstance(row, Contrast):
        chosen, rejected = (
            {"from": "gpt", "value": escape_tags(text)} for text in (row.chosen, row.rejected)
        )
        return {"conversations": prompt, "chosen": chosen, "rejected": rejected}
    reply = {"from": "gpt", "value": escape_tags(row.text)}
    return {"conversations": [*prompt, reply], "kto_tag": row.desirable}


def _tagged(message: Message) -> str:
    """Return the text of a message with `<image>` for each image."""
    return "".join(
        "<image>" if isinstance(part, ImagePart) else escape_tags(part) for part in message.parts
    )


def escape_tags(text: str) -> str:
    """Escape `<image>` and the like in a text: trainers count them."""
    return re.sub(r"<(image|video|audio)>", r"[\1]", text)
