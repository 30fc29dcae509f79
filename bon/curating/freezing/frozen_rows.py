"""Rows of a frozen benchmark: preference pairs with their images.

Responses are ordered by a hash, so that the position reveals nothing.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bon.core.dataset_features import IMAGE, with_features
from bon.core.keys import content_key
from bon.curating.items import CuratedItem

BATCH = 64
_TEXT = pa.string()
_TEXTS = pa.list_(_TEXT)
PAIRS = [
    ("id", _TEXT), ("key", _TEXT), ("prompt", _TEXT), ("images", pa.list_(IMAGE)),
    ("responses", _TEXTS), ("preferred", pa.int64()), ("answers", _TEXTS), ("policies", _TEXTS),
    ("lengths", pa.list_(pa.int64())), ("group", _TEXT), ("tag", _TEXT), ("cluster", _TEXT),
    ("subject", _TEXT), ("dataset", _TEXT), ("split", _TEXT), ("weight", pa.float64()),
]  # fmt: skip


def pair_rows(
    items: Iterable[CuratedItem], folder: Path, tags: dict[str, str]
) -> Iterator[dict[str, Any]]:
    """Yield the items as pairs; `tags` are the annotators' error tags, `folder` has the images."""
    for item in items:
        order = sorted((0, 1), key=lambda i: content_key("place", item.key, i))
        yield {
            "id": item.id,
            "key": item.key,
            "prompt": item.prompt,
            "images": [
                {"bytes": (folder / name).read_bytes(), "path": Path(name).name}
                for name in item.images
            ],
            "responses": [item.responses[i] for i in order],
            "preferred": order.index(item.better),
            "answers": [item.answers[i] for i in order],
            "policies": [item.policies[i] for i in order],
            "lengths": [len(item.responses[i]) for i in order],
            "group": item.strategy,
            "tag": tags.get(item.key, ""),
            "cluster": item.question,
            "subject": item.subject,
            "dataset": item.dataset,
            "split": item.split,
            "weight": item.weight,
        }


def write_rows(rows: Iterable[dict[str, Any]], path: Path) -> None:
    """Write rows as Parquet that `datasets` loads with images."""
    schema = with_features(pa.schema(PAIRS))
    rows = iter(rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        while batch := list(islice(rows, BATCH)):
            writer.write_table(pa.Table.from_pylist(batch, schema))
