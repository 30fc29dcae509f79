"""Layouts of training rows: TRL, LLaMA-Factory, ms-swift, verl."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from bon.core.dataset_features import IMAGE, write_rows
from bon.core.records import Question
from bon.engines.base import ImagePart, Message
from bon.exports.contents import file_name
from bon.exports.preferences import Contrast

Row = dict[str, Any]
LLAMA_FACTORY_NAME = "bon"
FOLDER = "images"

_TEXT = pa.string()
_CONTENT = pa.list_(pa.struct([("type", _TEXT), ("text", _TEXT)]))
_TURNS = pa.list_(pa.struct([("role", _TEXT), ("content", _CONTENT)]))
_LABELS = [(name, _TEXT) for name in ("question", "policy", "by")]
_SCORES = [(name, pa.float64()) for name in ("chosen_score", "rejected_score", "margin")]


class ImageFolder:
    """Writes images, each once, into the folder `images` next to a table."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / FOLDER
        self._names: dict[str, str] = {}

    def add(self, image: ImagePart) -> str:
        """Write an image and return its path relative to the table."""
        name = self._names.get(image.sha256)
        if name is None:
            name = self._names[image.sha256] = file_name(image)
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_bytes(image.data)
        return f"{FOLDER}/{name}"

    def paths(self) -> list[Path]:
        """Return the folder if it has any image."""
        return [self.folder] if self._names else []


@dataclass(frozen=True, slots=True)
class Target:
    """Output files called `stem`, written into `folder` and then moved to `home`."""

    folder: Path
    home: Path
    stem: str
    images: bool


def write_parquet(rows: Iterable[Contrast], target: Target) -> list[Path]:
    """Write conversations as TRL's DPO trainer reads them, images inside."""
    images = [("images", pa.list_(IMAGE))] if target.images else []
    turns = [(name, _TURNS) for name in ("prompt", "chosen", "rejected")]
    columns = [*_LABELS, *images, *turns, *_SCORES]
    path = target.folder / f"{target.stem}.parquet"
    whole = ({**_conversation(row), "images": _inside(row.images)} for row in rows)
    return [write_rows(whole, columns, path)]


def _inside(images: Iterable[ImagePart]) -> list[Row]:
    return [{"bytes": image.data, "path": file_name(image)} for image in images]


def _conversation(row: Contrast) -> Row:
    """Return a training row as conversations with image placeholders."""
    return {
        "question": row.question.id,
        "policy": row.policy,
        "by": row.by,
        "prompt": [_turn(message) for message in row.messages],
        "chosen": _reply(row.chosen),
        "rejected": _reply(row.rejected),
        **{name: getattr(row, name) for name, _ in _SCORES},
    }


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


def write_verl(rows: Iterable[tuple[Question, tuple[Message, ...]]], target: Target) -> Path:
    """Write prompts as verl's GRPO reads them.

    verl shows no image to a reward function, so the question's id in `online.sets` is sent.
    """
    text = [(name, _TEXT) for name in ("role", "content")]
    columns = [
        ("data_source", _TEXT),
        ("prompt", pa.list_(pa.struct(text))),
        *([("images", pa.list_(IMAGE))] if target.images else []),
        ("reward_model", pa.struct([("style", _TEXT), ("ground_truth", _TEXT)])),
        ("extra_info", pa.struct([("index", _TEXT), ("bon", _TEXT)])),
    ]

    def record(question: Question, messages: tuple[Message, ...]) -> Row:
        images = [p for m in messages for p in m.parts if isinstance(p, ImagePart)]
        turns = [{"role": m.role, "content": _tagged(m)} for m in messages]
        name = quote(question.dataset)
        return {
            "data_source": question.dataset,
            "prompt": turns,
            "images": _inside(images),
            "reward_model": {"style": "rule", "ground_truth": ""},
            "extra_info": {"index": question.id, "bon": f"bon://{name}/{quote(question.id)}"},
        }

    path = target.folder / f"{target.stem}.parquet"
    return write_rows((record(*row) for row in rows), columns, path)


def write_ms_swift(rows: Iterable[Contrast], target: Target) -> list[Path]:
    """Write JSONL for `swift rlhf`; image paths are absolute, as it resolves them from the cwd."""
    images = ImageFolder(target.folder)
    home = target.home.resolve()

    def record(row: Contrast) -> Row:
        messages = [{"role": m.role, "content": _tagged(m)} for m in row.messages]
        record: Row = {
            "messages": [*messages, {"role": "assistant", "content": escape_tags(row.chosen)}],
            "rejected_response": escape_tags(row.rejected),
            "margin": row.margin,
        }
        paths = [str(home / images.add(image)) for image in row.images]
        return record | ({"images": paths} if target.images else {})

    path = target.folder / f"{target.stem}.jsonl"
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(record(row), ensure_ascii=False) + "\n" for row in rows)
    return [path, *images.paths()]


def write_llama_factory(rows: Iterable[Contrast], target: Target) -> list[Path]:
    """Write ShareGPT data and dataset_info.json for `--dataset_dir`."""
    images = ImageFolder(target.folder)
    data, info = target.folder / "data.json", target.folder / "dataset_info.json"
    with data.open("w", encoding="utf-8") as file:
        file.write("[")
        for number, row in enumerate(rows):
            record: Row = {
                "conversations": [{"from": "human", "value": _tagged(m)} for m in row.messages],
                "chosen": {"from": "gpt", "value": escape_tags(row.chosen)},
                "rejected": {"from": "gpt", "value": escape_tags(row.rejected)},
            }
            if target.images:
                record["images"] = [images.add(image) for image in row.images]
            file.write(("," if number else "") + "\n" + json.dumps(record, ensure_ascii=False))
        file.write("\n]\n")
    names = ["chosen", "rejected", *(["images"] if target.images else [])]
    columns = {"messages": "conversations"} | {name: name for name in names}
    entry = {"file_name": data.name, "formatting": "sharegpt", "columns": columns, "ranking": True}
    info.write_text(json.dumps({LLAMA_FACTORY_NAME: entry}, indent=2) + "\n", encoding="utf-8")
    return [data, info, *images.paths()]


def _tagged(message: Message) -> str:
    """Return the text of a message with `<image>` for each image."""
    return "".join(
        "<image>" if isinstance(part, ImagePart) else escape_tags(part) for part in message.parts
    )


def escape_tags(text: str) -> str:
    """Escape `<image>` and the like in a text: trainers count them."""
    return re.sub(r"<(image|video|audio)>", r"[\1]", text)
