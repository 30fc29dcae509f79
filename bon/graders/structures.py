"""Graders of answers with several parts: `items`, a list in any order, and `iou`, a box."""

import re

from bon.graders import Gold
from bon.graders.texts import plain

IOU_THRESHOLD = 0.5

_SEPARATORS = re.compile(
    r"\s*(?:[,;、，；\n]|\band\b|&|(?<=\b[A-Za-z])/(?=[A-Za-z]\b)|(?<=\))\s*/?\s*(?=\())\s*",
    re.IGNORECASE,
)
_ENCLOSED = re.compile(r"^[\[({]([^\[\](){}]*)[\])}]$")
_BOX = re.compile(r"[\s()\[\]{}<>|,;:\"'/]|bbox_2d|bbox|box_start|box_end|box")
_CORNERS = re.compile(r"(?:(?:^|_)-?(?:\d+\.?\d*|\.\d+)){4}")


def items(answer: str, gold: Gold) -> float | None:
    """Compare lists (commas, semicolons, lines, "and") without regard to order and repetition."""
    own = _items(answer)
    return float(own in map(_items, gold.answers)) if own else None


def iou(answer: str, gold: Gold) -> float | None:
    """Accept boxes x1, y1, x2, y2 whose intersection over union is .5 or more (RefCOCO).

    Unread: anything but four numbers, or corners in another order.
    """
    own = _box(answer)
    if own is None:
        return None
    rights = [right for text in gold.answers if (right := _box(text))]
    return float(any(_overlap(own, right) >= IOU_THRESHOLD for right in rights))


def _items(text: str) -> frozenset[str]:
    parts = _SEPARATORS.split(_ENCLOSED.sub(r"\1", text.strip()))
    return frozenset(item for part in parts if (item := plain(_ENCLOSED.sub(r"\1", part))))


def _box(text: str) -> tuple[float, ...] | None:
    bare = re.sub("_+", "_", _BOX.sub("_", text)).strip("_")
    if not _CORNERS.fullmatch(bare):
        return None
    left, top, right, bottom = box = tuple(map(float, bare.split("_")))
    return box if left < right and top < bottom else None


def _overlap(own: tuple[float, ...], right: tuple[float, ...]) -> float:
    width = min(own[2], right[2]) - max(own[0], right[0])
    height = min(own[3], right[3]) - max(own[1], right[1])
    shared = max(width, 0.0) * max(height, 0.0)
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (own, right)]
    return shared / (sum(areas) - shared)
