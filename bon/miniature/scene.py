"""Pictures of the miniature world: a 4×4 board of coloured shapes, 112×112 pixels.

One cell is 28×28 pixels, which is one merged vision token of Qwen2.5-VL (patch 14, merge 2).
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from PIL import Image

COLOURS = ("red", "green", "blue", "yellow")
SHAPES = ("circle", "square", "triangle", "star")
CELLS = 16
CELL_PX = 28
SIDE_PX = 112
VARIANTS = 12  # drawings of the same object in the same cell: jitter, size, shade, noise

_RGB = np.array([(215, 45, 45), (45, 165, 70), (50, 80, 215), (225, 200, 50)], np.float32)
# The stripe on the left of a cell codes its row, the one on top its column: a vision tower this
# small reads absolute positions off pixels far sooner than off its rotary phases.
_STRIPES = np.array([(30, 30, 30), (200, 60, 200), (60, 200, 200), (250, 250, 250)], np.float32)

_PLACES = np.arange(CELL_PX) + 0.5  # the middles of a cell's pixels, along either side


@dataclass(frozen=True, slots=True)
class Scene:
    """What lies where. kinds: 16 of 0 (empty) or 1 + 4·colour + shape; variants: 16 drawings."""

    kinds: tuple[int, ...]
    variants: tuple[int, ...]


@lru_cache(maxsize=1)
def tiles() -> npt.NDArray[np.uint8]:
    """Every drawing of every kind in every cell: [16 cells, 17 kinds, VARIANTS, 28, 28, 3]."""
    noise = np.random.RandomState(0)  # its stream is frozen, unlike default_rng's
    bank = np.empty((CELLS, 17, VARIANTS, CELL_PX, CELL_PX, 3), np.uint8)
    for cell in range(CELLS):
        for kind in range(17):
            for variant in range(VARIANTS):
                bank[cell, kind, variant] = _draw(cell, kind, noise)
    return bank


def _draw(cell: int, kind: int, noise: np.random.RandomState) -> npt.NDArray[np.uint8]:
    row, column = divmod(cell, 4)
    tile = np.empty((CELL_PX, CELL_PX, 3), np.float32)
    tile[:] = np.array((255 - 16 * row, 240, 255 - 16 * column)) + noise.uniform(-4, 4)
    if kind:
        colour, shape = divmod(kind - 1, 4)
        mask = _mask(shape, 15 + noise.uniform(-2, 2, 2), noise.uniform(7.5, 9.8))
        shade = _RGB[colour] + noise.uniform(-22, 22, 3)
        inner = mask.copy()  # its neighbours on all sides; none reaches the edge of its cell
        inner[1:] &= mask[:-1]
        inner[:-1] &= mask[1:]
        inner[:, 1:] &= mask[:, :-1]
        inner[:, :-1] &= mask[:, 1:]
        tile[mask] = shade
        tile[mask & ~inner] = shade * 0.6
    tile[:, :3] = _STRIPES[row]
    tile[:3, 3:] = _STRIPES[column]
    return np.clip(tile + noise.normal(0, 5, tile.shape), 0, 255).astype(np.uint8)


def _mask(shape: int, centre: npt.NDArray[np.float64], radius: float) -> npt.NDArray[np.bool_]:
    dx, dy = _PLACES - centre[0], _PLACES[:, None] - centre[1]
    if SHAPES[shape] == "circle":
        return np.asarray(dx**2 + dy**2 <= radius**2)
    if SHAPES[shape] == "square":
        return np.asarray(np.maximum(abs(dx), abs(dy)) <= radius * 0.86)
    if SHAPES[shape] == "triangle":
        inside = (dy <= radius * 0.8) & (dy >= -radius)
        return np.asarray(inside & (abs(dx) <= (dy + radius) * 0.58))
    angle = np.arctan2(dx, -dy) * 5 / (2 * np.pi)
    tip = np.abs((angle % 1) - 0.5) * 2  # 1 at the five tips, 0 between them
    return np.asarray(np.hypot(dx, dy) <= radius * 1.1 * (0.42 + 0.58 * tip**1.5))


def pixels(scenes: list[Scene]) -> npt.NDArray[np.uint8]:
    """[scenes, 112, 112, 3]."""
    kinds = np.array([s.kinds for s in scenes]).reshape(-1, CELLS)
    variants = np.array([s.variants for s in scenes]).reshape(-1, CELLS)
    cells = tiles()[np.arange(CELLS), kinds, variants]
    board = cells.reshape(-1, 4, 4, CELL_PX, CELL_PX, 3).transpose(0, 1, 3, 2, 4, 5)
    return np.ascontiguousarray(board.reshape(-1, SIDE_PX, SIDE_PX, 3))


def render(scene: Scene) -> Image.Image:
    """The scene as a picture."""
    return Image.fromarray(pixels([scene])[0])
