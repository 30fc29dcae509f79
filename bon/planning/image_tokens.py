"""Estimate the tokens of images by a card's `image_tokens`, within 20% of what processors count.

Models that cut an image into patches of one size are counted by area. Models that cut it into
tiles take about the same for any image: the mean of their published rule over `TYPICAL`.
"""

import math
from collections.abc import Sequence
from statistics import fmean

from bon.experiment.config import Card, TokensByArea

Size = tuple[int, int]
"""Width and height in pixels."""

TYPICAL: tuple[Size, ...] = (
    (650, 640), (268, 140), (684, 290), (1150, 928), (248, 297), (534, 206), (1262, 634),
    (202, 158), (485, 232), (1399, 1123), (200, 154), (464, 480), (180, 146), (432, 273),
    (970, 1084), (432, 318), (650, 810), (600, 562), (252, 154), (282, 358), (384, 259),
    (720, 540), (1500, 1176), (177, 198), (504, 331),
)  # fmt: skip
"""Sizes of 25 images of MMMU-Pro, for datasets that are not local."""

ASSUMED_TOKENS = 1000
"""Tokens per image where the card does not tell."""


def tokens_of(card: Card, sizes: Sequence[Size] = TYPICAL) -> float:
    """Return the mean tokens per image of these sizes for a card's model."""
    known = card.image_tokens
    if not isinstance(known, TokensByArea):
        return ASSUMED_TOKENS if known is None else known
    most = card.engine_args.get("max_pixels") or known.most
    return fmean(math.ceil(min(width * height, most) / known.pixels) for width, height in sizes)
