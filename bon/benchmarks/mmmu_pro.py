"""MMMU-Pro: standard with ten or four options, and vision, where the image is the question.

Options are a Python list written as a string. `<image i>` means image_i wherever it occurs.
"""

import re

from bon.benchmarks.base import (
    IMAGE_COLUMNS,
    Adapter,
    Context,
    Form,
    Published,
    Row,
    RowError,
    bibtex,
    parse_letter,
    parse_options,
)
from bon.core.errors import BonError
from bon.core.records import Question
from bon.core.text import option_letters

CONFIGS = {
    "standard10": "standard (10 options)",
    "standard4": "standard (4 options)",
    "vision": "vision",
}


def config(name: str | None) -> str:
    """Return the published name of a config; by default the one with ten options."""
    name = CONFIGS.get(name or "standard10", name or "")
    if name not in CONFIGS.values():
        raise BonError(f"MMMU-Pro has no config {name!r}", f"use one of {', '.join(CONFIGS)}")
    return name


def convert(context: Context, row: Row) -> Question:
    """Convert a row to a question."""
    options = parse_options(row.get("options"))
    text = row.text("question")
    images = context.read_images(row)
    # In the vision config the one image shows question, options and their images.
    if text.strip() and context.spec.columns.get("image") != "":
        named = [int(token) for token in re.findall(r"<image (\d+)>", text + " ".join(options))]
        if max(named, default=0) > len(images):
            raise RowError(f"it names <image {max(named)}> but has {len(images)} images")
    if not text.strip() and not images:
        raise RowError("it has neither a question nor an image")
    letter = parse_letter(row.get("answer"))
    # One published row nests its options in a list of one, so that no candidate can be right. The
    # published scores count it.
    beyond = letter not in option_letters(options)
    return context.question(row, text, options, letter, images, answer_not_in_options=beyond)


ADAPTER = Adapter(
    kind="questions",
    title="MMMU-Pro",
    licence="Apache-2.0",
    hub="MMMU/MMMU_Pro",
    citation=bibtex("mmmupro"),
    published=Published(1730, "each of its three configs has 1,730 questions"),
    config=config,
    forms=(
        Form(
            need={"options": "options", "answer": "answer"},
            may={"image": IMAGE_COLUMNS, "difficulty": "topic_difficulty"}
            | {role: role for role in ("id", "question", "subject")},
        ),
    ),
    convert=convert,
)
