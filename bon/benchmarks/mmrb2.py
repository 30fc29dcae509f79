"""Multimodal RewardBench 2, reasoning task: 1,000 pairs whose responses contain images.

Two forms: the JSON built by the benchmark's scripts, and the copy on the hub that they build it
from. The published accuracy is over judgements, with each pair judged in both orders.
"""

import re
from collections.abc import Iterator
from typing import Any, Literal

from bon.benchmarks.base import (
    Adapter,
    Context,
    Form,
    Published,
    Row,
    RowError,
    bibtex,
    image_bytes,
)
from bon.core.images import image_mark
from bon.core.records import ImageRef, PreferencePair

TASK = "reasoning"

_PLACEHOLDER = re.compile(r"<image_\d+>")
Segment = tuple[Literal["text", "image"], Any]


def convert(context: Context, row: Row) -> PreferencePair:
    """Convert a row to a preference pair."""
    better = row.text("better").strip().upper()
    if better not in ("A", "B"):
        raise RowError(f"its better response is {row.get('better')!r}, neither A nor B")
    segments = _hub_segments if "prompt_images" in row.columns else _built_segments
    images: dict[str, ImageRef] = {}
    prompt, first, second = (
        _join(context, row, segments(row, role), images) for role in ("prompt", "first", "second")
    )
    chosen, rejected = (first, second) if better == "A" else (second, first)
    group = context.spec.config or TASK
    return context.pair(row, prompt, chosen, rejected, group, images=tuple(images.values()))


def _join(
    context: Context, row: Row, segments: Iterator[Segment], images: dict[str, ImageRef]
) -> str:
    """Join segments to a text with image marks; adds the images to `images`."""
    parts: list[str] = []
    after_text = False
    for kind, value in segments:
        if kind == "image":
            image = context.images.add(image_bytes(value, row.folder))
            images.setdefault(image.sha256, image)
            parts.append(image_mark(image.sha256))
        else:
            parts.append(f"\n{value}" if after_text else str(value))
        after_text = kind == "text"
    text = "".join(parts)
    if not text.strip():
        raise RowError("its prompt or a response is empty")
    return text


def _built_segments(row: Row, role: str) -> Iterator[Segment]:
    """Built form: a list of ["text", TEXT] and ["image", PATH]."""
    content = row.get(role)
    if isinstance(content, dict):
        content = content.get("response_content")
    if not isinstance(content, list):
        raise RowError(f"its {role} is not a list of texts and images")
    for segment in content:
        match segment:
            case ["text" | "image" as kind, value]:
                yield kind, value
            case _:
                raise RowError(f"a part of its {role} is neither a text nor an image")


def _hub_segments(row: Row, role: str) -> Iterator[Segment]:
    """Hub form: a text whose placeholders are filled in order, with further images at the end.

    The benchmark's script ignores the numbers of the placeholders, too.
    """
    images = list(row.get(f"{role}_images") or [])
    for number, text in enumerate(_PLACEHOLDER.split(row.text(role))):
        if number and images:
            yield "image", images.pop(0)
        if text:
            yield "text", text
    yield from (("image", image) for image in images)


ADAPTER = Adapter(
    kind="pairs",
    title="Multimodal RewardBench 2, reasoning",
    licence="CC BY-NC 4.0",
    hub="rl-research/multimodal-rewardbench-2",
    citation=bibtex("hu2025multimodalrewardbench2"),
    published=Published(1000, "1,000 pairs of the reasoning task", images_per_row=4.2),
    config=lambda config: config or TASK,
    forms=(
        Form(
            {"prompt": "prompt_text", "first": "response_a_text", "second": "response_b_text"}
            | {"first_images": "response_a_images", "second_images": "response_b_images"}
            | {"prompt_images": "prompt_images", "better": "chosen"},
            {"id": "pair_id", "tag": "prompt_source"},
        ),
        Form(
            {"prompt": "prompt_content", "first": "response_a", "second": "response_b"}
            | {"better": "chosen"},
            {"id": "id", "tag": "prompt_source"},
        ),
    ),
    convert=convert,
)
