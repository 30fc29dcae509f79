"""Logs of inspect_ai, `.eval` and `.json`: answers of every epoch, with options and images.

An `.eval` is a ZIP with one member per sample and epoch, compressed with Zstandard, which Python's
zipfile cannot read before 3.14. Interrupted logs have their samples too.
"""

import json
import re
import struct
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bon.benchmarks.rows import RawRow
from bon.core.errors import BonError
from bon.core.files import open_zip
from bon.core.text import LETTERS
from bon.formats.base import Format, starts_with

_SAMPLE = re.compile(r"samples/.+_epoch_\d+\.json")
_MAX_WINDOW = 1 << 27
_CHUNKED = re.compile(r"samples/.+_epoch_\d+/sample\.json")


def recognises(path: Path) -> bool:
    """By suffix, or as JSON that begins like such a log."""
    return path.suffix == ".eval" or starts_with(path, b'"version"', b'"status"', b'"eval"')


def rows(path: Path) -> Iterator[RawRow]:
    """Yield one row per sample; each epoch is one candidate."""
    samples = _zipped(path) if path.suffix == ".eval" else _whole(path)
    epochs = {(int(sample.get("epoch") or 1), str(sample.get("id"))): sample for sample in samples}
    for _, sample in sorted(epochs.items(), key=lambda item: item[0][0]):
        yield None, _row(sample)


def _row(sample: Mapping[str, Any]) -> dict[str, Any]:
    text, images = _input(sample)
    options = [str(choice) for choice in sample.get("choices") or []]
    target = sample.get("target")
    _refuse_shuffled(sample, options)
    replies = (sample.get("output") or {}).get("choices") or []
    failed = sample.get("error") is not None or not replies
    scores = (sample.get("scores") or {}).values()
    score = next((score for score in scores if isinstance(score, dict)), {})
    return {
        "id": str(sample.get("id")),
        "question": text,
        "options": options,
        "answer": target[0] if isinstance(target, list) and len(target) == 1 else target,
        "images": images,
        "subject": (sample.get("metadata") or {}).get("subject"),
        "response": [None] if failed else [_text(reply) for reply in replies],
        "parsed": [score.get("answer")],
        "correct": [{"C": True, "I": False}.get(str(score.get("value")))],
    }


def _input(sample: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Return text and images of the prompt."""
    messages = sample.get("input")
    if isinstance(messages, str):
        return messages, []
    texts, images = [], []
    attachments = sample.get("attachments") or {}
    for message in messages or []:
        content = message.get("content")
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for part in parts or []:
            if part.get("type") == "text":
                texts.append(part["text"])
            elif part.get("type") == "image":
                image = str(part.get("image"))
                images.append(attachments.get(image.removeprefix("attachment://"), image))
    return "\n".join(texts), images


def _text(choice: Mapping[str, Any]) -> str | None:
    """Return the reply without its reasoning, as a judge should see it."""
    content = (choice.get("message") or {}).get("content")
    if isinstance(content, list):
        return "".join(part.get("text") or "" for part in content if part.get("type") == "text")
    return content if isinstance(content, str) else None


def _refuse_shuffled(sample: Mapping[str, Any], options: list[str]) -> None:
    messages = [m for m in sample.get("messages") or [] if m.get("role") == "user"]
    text = _input({"input": messages[:1]})[0]
    lettered = dict(re.findall(r"^([A-Z])[).] (.*)$", text, re.M))
    shown = (lettered.get(letter, option) for letter, option in zip(LETTERS, options, strict=False))
    if [option.strip() for option in shown] != [option.strip() for option in options]:
        raise BonError(
            f"sample {sample.get('id')!r}: its options were shuffled, so letters in the answers "
            "refer to another order than the one listed",
            "log with shuffle_choices off",
        )


def _whole(path: Path) -> list[dict[str, Any]]:
    try:
        return list(json.loads(path.read_bytes()).get("samples") or [])
    except (ValueError, AttributeError, RecursionError) as error:
        raise BonError(f"{path} is not a complete inspect log: {error}", "copy it again") from None


def _zipped(path: Path) -> Iterator[dict[str, Any]]:
    try:
        with open_zip(path) as log, path.open("rb") as file:
            for member in log.infolist():
                if _CHUNKED.fullmatch(member.filename):
                    raise BonError(
                        f"{path}: {member.filename} is chunked, which is not supported",
                        "convert it: inspect log convert --to json",
                    )
                if _SAMPLE.fullmatch(member.filename):
                    yield json.loads(_bytes(log, file, member))
    except (zipfile.BadZipFile, ValueError, struct.error, OSError, RecursionError) as error:
        raise BonError(f"{path} is not a complete inspect log: {error}", "copy it again") from None


def _bytes(log: zipfile.ZipFile, file: Any, member: zipfile.ZipInfo) -> bytes:
    if member.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return log.read(member)
    try:
        import zstandard
    except ImportError:
        raise BonError(
            "reading an .eval log needs the package zstandard", "pip install 'bon[interop]'"
        ) from None
    file.seek(member.header_offset + 26)  # lengths of the name and of the extra field
    name, extra = struct.unpack("<2H", file.read(4))
    file.seek(member.header_offset + 30 + name + extra)
    raw = file.read(member.compress_size)
    try:
        reader = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW).stream_reader(
            raw, read_across_frames=True
        )
        return bytes(reader.read(member.file_size))
    except zstandard.ZstdError as error:
        raise ValueError(f"{member.filename}: {error}") from None


FORMAT = Format(
    "inspect_ai",
    "Logs of inspect_ai",
    ".eval (pip install 'bon[interop]') or .json of a multiple-choice task; epochs are candidates",
    "answers",
    recognises,
    rows,
)
