"""The rows of a frozen benchmark: each item as preference pairs, with its images inside.

An item of one better and k - 1 worse responses becomes k - 1 rows of one `set`. Only items of two
responses carry a `weight`: they alone were drawn from the pool of pairs. Which response comes
first follows from a hash, so no place is the better one.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bon.core.featured import IMAGE, featured
from bon.core.keys import content_key
from bon.curating.items import CuratedItem

BATCH = 64
_TEXT = pa.string()
_TEXTS = pa.list_(_TEXT)
_HEAD = [("id", _TEXT), ("key", _TEXT), ("prompt", _TEXT), ("images", pa.list_(IMAGE))]
_FACTS = [
    ("answers", _TEXTS), ("policies", _TEXTS), ("lengths", pa.list_(pa.int64())),
    ("group", _TEXT), ("tag", _TEXT), ("cluster", _TEXT), ("subject", _TEXT), ("dataset", _TEXT),
    ("split", _TEXT),
]  # fmt: skip
PAIRS = [
    *_HEAD, ("responses", _TEXTS), ("preferred", pa.int64()), *_FACTS, ("set", _TEXT),
    ("weight", pa.float64()),
]  # fmt: skip
TIES = [*_HEAD, ("responses", _TEXTS), *_FACTS]


def pair_rows(
    items: Iterable[CuratedItem], folder: Path, tags: dict[str, str]
) -> Iterator[dict[str, Any]]:
    """Rows of items with one better response; `tags`: what people said is wrong in the worse ones.

    `folder` holds the images that items name.
    """
    for item in items:
        if item.better is None:
            continue
        worse = [place for place in range(len(item.responses)) if place != item.better]
        several = len(worse) > 1
        for number, other in enumerate(worse):
            places = sorted((item.better, other), key=lambda p: content_key("place", item.key, p))
            yield {
                **_facts(item, places, folder, tags),
                "id": f"{item.id}/{number}" if several else item.id,
                "preferred": places.index(item.better),
                "set": item.id if several else "",
                "weight": None if several else item.weight,
            }


def tie_rows(items: Iterable[CuratedItem], folder: Path) -> Iterator[dict[str, Any]]:
    """Rows of items all of whose responses are right."""
    for item in items:
        if item.better is None:
            yield {**_facts(item, range(len(item.responses)), folder, {}), "id": item.id}


def _facts(
    item: CuratedItem, places: Sequence[int], folder: Path, tags: dict[str, str]
) -> dict[str, Any]:
    return {
        "key": item.key,
        "prompt": item.prompt,
        "images": [
            {"bytes": (folder / name).read_bytes(), "path": Path(name).name} for name in item.images
        ],
        "responses": [item.responses[place] for place in places],
        "answers": [item.answers[place] for place in places],
        "policies": [item.policies[place] for place in places],
        "lengths": [len(item.responses[place]) for place in places],
        "group": item.strategy,
        "tag": tags.get(item.key, ""),
        "cluster": item.question,
        "subject": item.subject,
        "dataset": item.dataset,
        "split": item.split,
    }


def write_rows(rows: Iterable[dict[str, Any]], fields: Sequence[Any], path: Path) -> int:
    """Rows as Parquet that `datasets` loads with images; how many there were."""
    schema = featured(pa.schema(fields))
    made, count = iter(rows), 0
    path.parent.mkdir(parents=True, exist_ok=True)
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        while batch := list(islice(made, BATCH)):
            writer.write_table(pa.Table.from_pylist(batch, schema))
            count += len(batch)
    return count
