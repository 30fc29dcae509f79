"""Multimodal RewardBench 2, its reasoning task: 1,000 pairs of answers that hold images themselves.

Two forms: the JSON that the benchmark's own scripts build beside its folders of images, and the
copy on the hub that they build it from. Images stand where they are named, in prompts as well as
in responses. The published accuracy is over judgements, each pair judged in both orders.
"""

import re
from collections.abc import Iterator
from typing import Any, Literal

from bon.benchmarks.base import Adapter, Context, Form, Row, RowError, image_bytes
from bon.core.images import image_mark
from bon.core.records import ImageRef, PreferencePair

TASK = "reasoning"

_PLACEHOLDER = re.compile(r"<image_\d+>")
Segment = tuple[Literal["text", "image"], Any]


def convert(context: Context, row: Row) -> PreferencePair:
    """One row as a preference pair."""
    better = row.text("better").strip().upper()
    if better not in ("A", "B"):
        raise RowError(f"its better response is {row.get('better')!r}, neither A nor B")
    listed = "prompt_images" not in row.columns
    images: dict[str, ImageRef] = {}
    prompt, first, second = (
        _written(context, row, _listed(row, role) if listed else _placed(row, role), images)
        for role in ("prompt", "first", "second")
    )
    chosen, rejected = (first, second) if better == "A" else (second, first)
    return context.pair(
        row,
        prompt=prompt,
        chosen=chosen,
        rejected=rejected,
        group=TASK,
        images=tuple(images.values()),
    )


def _written(
    context: Context, row: Row, segments: Iterator[Segment], images: dict[str, ImageRef]
) -> str:
    """The segments as one text with marks; the images that it names are added to `images`."""
    parts: list[str] = []
    after_text = False
    for kind, value in segments:
        if kind == "image":
            found = context.images.add(image_bytes(value, row.folder))
            images.setdefault(found.sha256, found)
            parts.append(image_mark(found.sha256))
        else:
            parts.append(f"\n{value}" if after_text else str(value))
        after_text = kind == "text"
    text = "".join(parts)
    if not text.strip():
        raise RowError("its prompt or a response is empty")
    return text


def _listed(row: Row, role: str) -> Iterator[Segment]:
    """The built form: a list of ["text", TEXT] and ["image", PATH]."""
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


def _placed(row: Row, role: str) -> Iterator[Segment]:
    """The hub's form: a text with placeholders that are filled in order, and its images.

    As the benchmark's script reads it: the numbers of the placeholders mean nothing, and images
    for which there is none stand at the end.
    """
    images = list(row.get(f"{role}_images") or [])
    for place, text in enumerate(_PLACEHOLDER.split(row.text(role))):
        if place and images:
            yield "image", images.pop(0)
        if text:
            yield "text", text
    for image in images:
        yield "image", image


CITATION = """@article{hu2025multimodalrewardbench2,
  title   = {Multimodal RewardBench 2: Evaluating Omni Reward Models for Interleaved Text
             and Image},
  author  = {Yushi Hu and Reyhane Askari-Hemmat and Melissa Hall and Emily Dinan
             and Luke Zettlemoyer and Marjan Ghazvininejad},
  journal = {arXiv preprint arXiv:2512.16899},
  year    = {2025},
}"""

ADAPTER = Adapter(
    kind="pairs",
    title="Multimodal RewardBench 2, reasoning",
    licence="CC BY-NC 4.0",
    hub="rl-research/multimodal-rewardbench-2",
    citation=CITATION,
    config=lambda config: config or TASK,
    forms=(
        Form(
            need={
                "prompt": "prompt_text",
                "prompt_images": "prompt_images",
                "first": "response_a_text",
                "first_images": "response_a_images",
                "second": "response_b_text",
                "second_images": "response_b_images",
                "better": "chosen",
            },
            may={"id": "pair_id", "tag": "prompt_source"},
        ),
        Form(
            need={
                "prompt": "prompt_content",
                "first": "response_a",
                "second": "response_b",
                "better": "chosen",
            },
            may={"id": "id", "tag": "prompt_source"},
        ),
    ),
    convert=convert,
)
