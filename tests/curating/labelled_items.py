"""A small benchmark in the making, written as the draw leaves it, and people who label it."""

import hashlib
from pathlib import Path

import yaml
from PIL import Image, ImageDraw

from bon.core.images import encode
from bon.core.keys import item_seed
from bon.curating.items import CuratedItem, item_key, write_items, write_pairs
from bon.curating.labelling.annotations import TIE
from bon.curating.workbench import Workbench, open_workbench

LONG = "First look at the scene, then count what is asked for, one shape after another. "


def curated(number: int, images: tuple[str, ...] = ()) -> CuratedItem:
    """The item of this number; its right response stands anywhere."""
    right = item_seed("right", number) % 2
    letters = ["ABCDE"[(number + place) % 5] for place in range(2)]
    texts = [
        f"{LONG * (1 + place % 2)}So the answer is {one}." for place, one in enumerate(letters)
    ]
    keys = tuple(f"text-{number}-{place}" for place in range(2))
    return CuratedItem(
        key=item_key(f"q{number}", keys),
        id=f"item-{number:03}",
        question=f"q{number}",
        prompt=f"How many red squares lie left of circle {number}?\n\nA. 1\nB. 2\nC. 3",
        images=images,
        responses=tuple(texts),
        policies=("policy-one", "policy-two"),
        answers=tuple(letters),
        better=right,
        strategy="popular-wrong",
        probability=0.5,
        split="public",
    )


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
        items.append(curated(number, tuple(names)))
    write_items(items, folder / "items.parquet")
    write_pairs(items, folder, folder / "pairs.parquet")
    return open_workbench(folder)


def verdict(item: CuratedItem, annotator: str, error_rate: float) -> str:
    """What somebody says who is wrong this often: a choice, wrong ones of any kind."""
    seed = item_seed("said", annotator, item.key)
    if seed % 1000 >= 1000 * error_rate:
        return str(item.better)
    return [str(item.wrong), TIE][seed // 1000 % 2]
