"""Facts of the miniature's pictures, and the same picture with one object more or less."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from PIL import Image

from bon.miniature.scene import (
    CELL_PX,
    CELLS,
    COLOURS,
    SHAPES,
    SIDE_PX,
    VARIANTS,
    Scene,
    count_objects,
    kind_name,
    pixels,
    tiles,
)


class Changed(NamedTuple):
    """A scene that differs in one object, the right option there, the object's colour and half.

    The half is "" where the whole image has to be counted.
    """

    scene: Scene
    right: str
    colour: str
    half: str


def scene_of(image: Image.Image, *, exact: bool = True) -> Scene | None:
    """Return the scene that an image was rendered from; None for any other image.

    exact: False reads the nearest scene of an image of that size, as where some of it is hidden.
    """
    seen = np.asarray(image.convert("RGB"))
    if seen.shape != (SIDE_PX, SIDE_PX, 3):
        return None
    cells = seen.reshape(4, CELL_PX, 4, CELL_PX, 3).swapaxes(1, 2).reshape(CELLS, 1, -1)
    bank = tiles().reshape(CELLS, 17 * VARIANTS, -1)
    off = np.abs(bank[..., ::5].astype(np.int16) - cells[..., ::5]).sum(axis=2)
    kinds, variants = np.divmod(off.argmin(axis=1), VARIANTS)
    scene = Scene(tuple(kinds.tolist()), tuple(variants.tolist()))
    return scene if not exact or (pixels([scene])[0] == seen).all() else None


def right_option(text: str, scene: Scene) -> str | None:
    """Return the answer to a question that counts or locates; None to any other."""
    if match := re.search(r"How many (\w+) shapes are there", text):
        return str(count_objects(scene, colour=COLOURS.index(match[1])))
    if match := re.search(r"How many (\w+)s are there", text):
        return str(count_objects(scene, shape=SHAPES.index(match[1])))
    if match := re.search(r"What is in cell (\d+) of", text):
        return kind_name(scene.kinds[int(match[1]) - 1])
    return None


def changes(text: str, options: Sequence[str], scene: Scene) -> Iterator[Changed]:
    """Yield every scene with one object more or less where another option is right."""
    right = right_option(text, scene)
    for cell, kind in enumerate(scene.kinds if right in options else ()):
        for other in range(17) if kind == 0 else (0,):
            kinds = (*scene.kinds[:cell], other, *scene.kinds[cell + 1 :])
            changed = Scene(kinds, scene.variants)
            answer = right_option(text, changed)
            if answer is not None and answer != right and answer in options:
                colour = COLOURS[((kind or other) - 1) // 4]
                half = ("left", "right")[cell % 4 // 2] if "cell" in text else ""
                yield Changed(changed, answer, colour, half)
