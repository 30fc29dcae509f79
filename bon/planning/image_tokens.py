"""Estimate the tokens of images, within 20% of the shipped cards' processors.

Families that cut an image into patches of one size are counted by area. Families that cut it into
tiles take about the same for any image: the mean of their published rule over `TYPICAL`.
"""

import math
from collections.abc import Sequence
from statistics import fmean

from bon.experiment.config import Card

Size = tuple[int, int]
"""Width and height in pixels."""

TYPICAL: tuple[Size, ...] = (
    (650, 640), (268, 140), (684, 290), (1150, 928), (248, 297), (534, 206), (1262, 634),
    (202, 158), (485, 232), (1399, 1123), (200, 154), (464, 480), (180, 146), (432, 273),
    (970, 1084), (432, 318), (650, 810), (600, 562), (252, 154), (282, 358), (384, 259),
    (720, 540), (1500, 1176), (177, 198), (504, 331),
)  # fmt: skip
"""Sizes of 25 images of MMMU-Pro, for datasets that are not local."""

DEFAULT_TOKENS = 1000
"""Tokens per image of families that are not listed."""

PER_TOKEN: dict[str, tuple[float, float]] = {
    **dict.fromkeys(
        ("qwen2-vl", "qwen2.5-vl", "qwen2.5-omni", "r1-reward", "unified-reward",
         "skywork-vl-reward", "llava-critic-r1"),
        (28 * 28, 12_845_056),
    ),
    **dict.fromkeys(("qwen3-vl", "qwen3.5"), (32 * 32, 16_777_216)),
    "pixtral": (16 * 16, 1024 * 1024),
    "gpt-5": (32 * 32 / 1.62, 1536 * 32 * 32),
    "claude": (750, 1600 * 750),
}  # fmt: skip
"""Family -> pixels per token and the most pixels of an image; larger images are shrunk."""

PER_IMAGE: dict[str, int] = {
    **dict.fromkeys(
        ("internvl2", "internvl2.5", "internvl3", "internvl3.5", "nvlm", "visualprm"), 2255
    ),
    **dict.fromkeys(("llava-onevision", "llava-critic", "mm-rlhf-reward"), 3007),
    "llama-3.2": 2946,
    "phi-3.5": 721,
    "molmo": 1411,
    "gpt-4o": 466,
    "gpt-4o-mini": 15527,
    "gemini": 1120,
}
"""Family -> tokens per image."""


def tokens_of(card: Card, sizes: Sequence[Size] = TYPICAL) -> float:
    """Return the mean tokens per image of these sizes for a card's model."""
    # One family on cards, two prices by the vendor.
    family = "gpt-4o-mini" if card.model.startswith("gpt-4o-mini") else card.family
    if family not in PER_TOKEN:
        return PER_IMAGE.get(family, DEFAULT_TOKENS)
    pixels, most = PER_TOKEN[family]
    most = card.engine_args.get("max_pixels") or most
    return fmean(math.ceil(min(width * height, most) / pixels) for width, height in sizes)
