"""Small benchmarks in the making, written as the draw leaves them, and people who label them."""

import hashlib
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from bon.core.images import encode
from bon.core.keys import item_seed
from bon.curating.items import CuratedItem, item_key, write_items, write_pairs
from bon.curating.labelling.annotations import TIE, Annotation
from bon.curating.workbench import Workbench, open_workbench

LONG = "First look at the scene, then count what is asked for, one shape after another. "


def curated(number: int, **given: Any) -> CuratedItem:
    """The item of this number, about a question of its own; its right response stands anywhere."""
    texts = [f"{LONG * (1 + place)}This is response {place} of {number}." for place in range(2)]
    everything = {
        "key": item_key(f"q{number}", [f"text-{number}-{place}" for place in range(2)]),
        "id": f"item-{number:03}",
        "question": f"q{number}",
        "prompt": f"How many red squares lie left of circle {number}?\n\nA. 1\nB. 2\nC. 3",
        "images": (),
        "responses": tuple(texts),
        "policies": ("policy-one", "policy-two"),
        "answers": ("A", "B"),
        "better": item_seed("right", number) % 2,
        "strategy": "popular-wrong",
        "probability": 0.5,
        "split": "public",
    }
    return CuratedItem(**everything | given)


def made_items(
    count: int, rng: np.random.Generator, mislabelled: Collection[int] = (), **given: Any
) -> tuple[list[CuratedItem], NDArray[np.int64]]:
    """Pairs, the right response in either place; labels of `mislabelled` name the other one."""
    truth = rng.integers(0, 2, count)
    items = [
        curated(n, better=int(1 - truth[n] if n in mislabelled else truth[n]), **given)
        for n in range(count)
    ]
    return items, truth


def formed_items(longer_is_right: float, count: int = 60) -> list[CuratedItem]:
    """Pairs of a long and a short text, the long one right with this chance."""
    rng = np.random.default_rng(2)
    items = []
    for number in range(count):
        texts = ["short " * int(rng.integers(3, 9)), "long " * int(rng.integers(20, 40))]
        right = int(rng.random() < longer_is_right)
        if rng.random() < 0.5:
            texts, right = texts[::-1], 1 - right
        items.append(curated(number, better=right, responses=tuple(texts)))
    return items


def said_by(items, truth, names, rng, error, third=False, **given):  # type: ignore[no-untyped-def]
    """Each annotator errs independently at `error`; a third where the first two differ."""
    rows = []
    for item, right in zip(items, truth, strict=True):
        said = []
        for name in names:
            wrong = rng.random() < error
            said.append(str(1 - right if wrong else right))
            rows.append(Annotation(item.key, name, said[-1], (0, 1), seconds=12.0, **given))
        if third and said[0] != said[1]:
            wrong = rng.random() < error
            choice = str(1 - right if wrong else right)
            rows.append(Annotation(item.key, "third", choice, (0, 1), seconds=20.0, **given))
    return rows


def picture(number: int) -> bytes:
    """A few shapes, encoded."""
    image = Image.new("RGB", (480, 360), "white")
    pen = ImageDraw.Draw(image)
    for place in range(1 + number % 6):
        x, y = 30 + 70 * place, 40 + 37 * ((number + place) % 7)
        shape = pen.rectangle if place % 2 else pen.ellipse
        shape((x, y, x + 46, y + 46), fill=("firebrick", "steelblue", "goldenrod")[place % 3])
    return encode(image)


def make_bench(folder: Path, pairs: int = 10, images: int = 1, **annotating: object) -> Workbench:
    """A folder with a recipe, items and images."""
    (folder / "images").mkdir(parents=True)
    recipe = {"runs": ["../run"], "annotating": annotating}
    (folder / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    items = []
    for number in range(pairs):
        names = []
        for place in range(images):
            data = picture(number + place)
            names.append(f"images/{hashlib.sha256(data).hexdigest()}.png")
            (folder / names[-1]).write_bytes(data)
        items.append(curated(number, images=tuple(names)))
    write_items(items, folder / "items.parquet")
    write_pairs(items, folder, folder / "pairs.parquet")
    return open_workbench(folder)


def verdict(item: CuratedItem, annotator: str, error_rate: float) -> str:
    """What somebody says who is wrong this often: a choice, wrong ones of any kind."""
    seed = item_seed("said", annotator, item.key)
    if seed % 1000 >= 1000 * error_rate:
        return str(item.better)
    return [str(item.wrong), TIE][seed // 1000 % 2]
