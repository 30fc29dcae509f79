"""How many tokens an image takes in a prompt, by the published rule of each family of models.

For plans: an estimate from the size alone, before any processor is loaded or any image is sent.
"""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import islice, product
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Literal

from PIL import Image

from bon.benchmarks import BadRow, load_pairs, load_questions
from bon.core.images import ImageStore
from bon.experiment.config import Card, DatasetSpec

Size = tuple[int, int]
"""Width and height in pixels."""

Rule = Callable[[int, int, int | None], int]
"""Tokens of an image of this width and height, at most so many pixels."""

TYPICAL: tuple[Size, ...] = (
    (650, 640), (268, 140), (684, 290), (1150, 928), (248, 297), (534, 206), (1262, 634),
    (202, 158), (485, 232), (1399, 1123), (200, 154), (464, 480), (180, 146), (432, 273),
    (970, 1084), (432, 318), (650, 810), (600, 562), (252, 154), (282, 358), (384, 259),
    (720, 540), (1500, 1176), (177, 198), (504, 331),
)  # fmt: skip
"""Sizes of 25 images of MMMU-Pro questions, for datasets that are not on this machine."""

ROWS = 25
"""Rows of a dataset on this machine whose images are measured."""

OTHERWISE = 1000
"""Tokens of an image for a family without a rule here."""


def tokens_of(card: Card, sizes: Sequence[Size] = TYPICAL) -> float:
    """Mean tokens per image of these sizes for the card's model."""
    # One family by its cards, two prices by its vendor.
    mini = card.model.startswith("gpt-4o-mini")
    rule = RULES.get("gpt-4o-mini" if mini else card.family)
    if rule is None:
        return OTHERWISE
    return _mean(rule, tuple(sizes), card.engine_args.get("max_pixels"))


@lru_cache(maxsize=256)
def _mean(rule: Rule, sizes: tuple[Size, ...], most: int | None) -> float:
    return fmean(rule(width, height, most) for width, height in sizes)


def first_sizes(spec: DatasetSpec, kind: Literal["questions", "pairs"]) -> tuple[float, list[Size]]:
    """Images per row and their sizes in the first rows of a dataset on this machine."""
    load = load_questions if kind == "questions" else load_pairs
    with TemporaryDirectory() as folder:
        rows = list(islice(load(spec, ImageStore(folder)), ROWS))
        images = [image for row in rows if not isinstance(row, BadRow) for image in row.images]
        sizes = []
        for image in images:
            with Image.open(image.path) as opened:
                sizes.append(opened.size)
    return len(sizes) / max(1, len(rows)), sizes


def _qwen(unit: int, most_of_its_own: int) -> Rule:
    """Multiples of `unit` pixels on each side, one token per square of them."""

    def rule(width: int, height: int, most: int | None) -> int:
        most, least = most or most_of_its_own, 4 * unit * unit
        across, down = (max(unit, round(side / unit) * unit) for side in (width, height))
        if across * down > most:
            shrink = math.sqrt(width * height / most)
            across, down = (
                max(unit, math.floor(s / shrink / unit) * unit) for s in (width, height)
            )
        elif across * down < least:
            grow = math.sqrt(least / (width * height))
            across, down = (math.ceil(side * grow / unit) * unit for side in (width, height))
        return across // unit * (down // unit) + 2

    return rule


def _internvl(width: int, height: int, most: int | None) -> int:
    """Up to 12 tiles of 448 pixels in the grid closest in shape, and the whole: 256 tokens each."""
    across, down = _closest_grid(width, height, 448, 12)
    tiles = across * down
    return 256 * (tiles + (tiles > 1)) + 2


def _closest_grid(width: int, height: int, side: int, most: int) -> tuple[int, int]:
    grids = sorted(
        ((a, d) for a, d in product(range(1, most + 1), repeat=2) if a * d <= most),
        key=lambda grid: grid[0] * grid[1],
    )
    best, least = (1, 1), math.inf
    for across, down in grids:
        off = abs(width / height - across / down)
        roomy = width * height > 0.5 * side * side * across * down
        if off < least or (off == least and roomy):
            best, least = (across, down), off
    return best


def _llava_onevision(width: int, height: int, most: int | None) -> int:
    """A base view of 729 tokens, and tiles of 384 pixels without their padding (anyres_max_9)."""
    best, used, waste = (384, 384), 0, math.inf
    for down, across in product(range(384, 2305, 384), repeat=2):
        scale = min(across / width, down / height)
        useful = min(int(width * scale) * int(height * scale), width * height)
        if useful > used or (useful == used and across * down - useful < waste):
            best, used, waste = (across, down), useful, across * down - useful
    columns, rows = best[0] // 384 * 27, best[1] // 384 * 27
    if width / height > columns / rows:
        rows -= 2 * ((rows - int(round(height * (columns / width), 7))) // 2)
    else:
        columns -= 2 * ((columns - int(round(width * (rows / height), 7))) // 2)
    ratio = math.sqrt(rows * columns / (9 * 27**2))
    if ratio > 1.1:
        rows, columns = int(rows // ratio), int(columns // ratio)
    return rows * columns + rows + 729


def _llama(width: int, height: int, most: int | None) -> int:
    """Up to four tiles of 560 pixels, 1,601 tokens each, that the text attends to."""
    across, down = _closest_grid(width, height, 560, 4)
    return 1601 * across * down


def _phi(width: int, height: int, most: int | None) -> int:
    """Crops of 336 pixels (at most 4), 144 tokens each, with the whole and line ends."""
    across = 1
    turned = max(width, height) / min(width, height)
    while (across + 1) * math.ceil((across + 1) / turned) <= 4:
        across += 1
    down = math.ceil(across / turned)
    short = down if width >= height else across
    return (across * down + 1) * 144 + 1 + (short + 1) * 12


def _pixtral(width: int, height: int, most: int | None) -> int:
    """Patches of 16 pixels, at most 1,024 pixels a side, and a line end per row."""
    shrink = max(1.0, width / 1024, height / 1024)
    across, down = (math.ceil(int(side / shrink) / 16) for side in (width, height))
    return across * down + down


def _molmo(width: int, height: int, most: int | None) -> int:
    """Up to 12 overlapping crops of 336 pixels and the whole: 144 tokens each."""
    across, down = _closest_grid(width, height, 224, 12)
    return 144 * (across * down + 1)


def _gpt_4o(base: int, per_tile: int) -> Rule:
    """Within 2,048 pixels, the short side at most 768, tiles of 512."""

    def rule(width: int, height: int, most: int | None) -> int:
        shrink = max(1.0, width / 2048, height / 2048)
        shrink = max(shrink, min(width, height) / 768)
        across, down = (math.ceil(side / shrink / 512) for side in (width, height))
        return base + per_tile * across * down

    return rule


def _gpt_mini(width: int, height: int, most: int | None) -> int:
    """Patches of 32 pixels, at most 1,536, times 1.62."""
    return math.ceil(1.62 * min(1536, math.ceil(width / 32) * math.ceil(height / 32)))


def _claude(width: int, height: int, most: int | None) -> int:
    """Pixels over 750, after the long side is brought to 1,568; at most about 1,600."""
    shrink = max(1.0, width / 1568, height / 1568)
    return min(1600, math.ceil(width * height / shrink**2 / 750))


def _gemini(width: int, height: int, most: int | None) -> int:
    """1,120 tokens at the default resolution of the third generation."""
    return 1120


_QWEN2 = _qwen(28, 12_845_056)
RULES: dict[str, Rule] = {
    "qwen2-vl": _QWEN2,
    "qwen2.5-vl": _QWEN2,
    "r1-reward": _QWEN2,
    "unified-reward": _QWEN2,
    "skywork-vl-reward": _QWEN2,
    "llava-critic-r1": _QWEN2,
    "qwen2.5-omni": _QWEN2,
    "qwen3-vl": _qwen(32, 16_777_216),
    "internvl2": _internvl,
    "internvl2.5": _internvl,
    "internvl3": _internvl,
    "nvlm": _internvl,
    "visualprm": _internvl,
    "llava-onevision": _llava_onevision,
    "llava-critic": _llava_onevision,
    "mm-rlhf-reward": _llava_onevision,
    "llama-3.2": _llama,
    "phi-3.5": _phi,
    "pixtral": _pixtral,
    "molmo": _molmo,
    "gpt-4o": _gpt_4o(85, 170),
    "gpt-4o-mini": _gpt_4o(2833, 5667),
    "gpt-5": _gpt_mini,
    "claude": _claude,
    "gemini": _gemini,
}
"""Family -> its rule."""
