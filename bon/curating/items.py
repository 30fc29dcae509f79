"""Items of a benchmark under construction: one row each in items.parquet, or preference pairs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import pyarrow as pa

from bon.core.dataset_features import IMAGE, write_rows
from bon.core.keys import content_key

Split = Literal["public", "held-out"]


@dataclass(frozen=True, slots=True)
class CuratedItem:
    """A question with a right and a wrong response, listed in canonical order.

    key: identity that annotations refer to; `id` is the readable label.
    question: key of the question and cluster of the item; it lies in one split only.
    images: paths within the folder.
    answers: extracted option letters (empty: none).
    better: index of the right response.
    probability: inclusion probability. Weighting pairs by its inverse recovers the natural
        distribution: all pairs that could have been drawn.
    """

    key: str
    id: str
    question: str
    prompt: str
    images: tuple[str, ...]
    responses: tuple[str, ...]
    policies: tuple[str, ...]
    answers: tuple[str, ...]
    better: int
    strategy: str
    probability: float
    split: Split
    subject: str = ""
    dataset: str = ""

    def __post_init__(self) -> None:
        assert len(self.responses) == len(self.policies) == len(self.answers) == 2
        assert self.better in (0, 1)
        assert 0 < self.probability <= 1

    @property
    def wrong(self) -> int:
        """Index of the wrong response."""
        return 1 - self.better


def item_key(question: str, text_keys: Iterable[str]) -> str:
    """Return the key of a question with these responses in any order."""
    return content_key("curated", question, sorted(text_keys))


def write_items(items: Iterable[CuratedItem], path: Path) -> None:
    """Write all items atomically."""
    names = [field.name for field in fields(CuratedItem)]
    temporary = path.with_name(f".{path.name}.tmp")
    pd.DataFrame([asdict(item) for item in items], columns=names).to_parquet(temporary, index=False)
    temporary.replace(path)


def read_items(path: Path) -> list[CuratedItem]:
    """Read items that `write_items` wrote."""
    lists = [field.name for field in fields(CuratedItem) if str(field.type).startswith("tuple")]
    rows: Any = pd.read_parquet(path).to_dict("records")
    return [CuratedItem(**row | {name: tuple(row[name]) for name in lists}) for row in rows]


_TEXT = pa.string()
_TEXTS = pa.list_(_TEXT)
PAIRS = [
    ("id", _TEXT), ("query", _TEXT), ("response", _TEXTS), ("human_ranking", pa.list_(pa.int64())),
    ("models", _TEXTS), ("query_source", _TEXT), ("group", _TEXT), ("tag", _TEXT),
    ("cluster", _TEXT), ("weight", pa.float64()), ("key", _TEXT), ("answers", _TEXTS),
    ("subject", _TEXT), ("split", _TEXT),
]  # fmt: skip
"""VL-RewardBench's columns, then those that only bon reads."""


def write_pairs(
    items: Sequence[CuratedItem], folder: Path, path: Path, tags: Mapping[str, str] | None = None
) -> None:
    """Write the items as preference pairs, their responses in an order that reveals nothing.

    A set without several images per item has the column `image`, as VL-RewardBench has, others
    the list `images`.

    folder: of the images. tags: annotators' error tags by item key.
    """
    one = all(len(item.images) <= 1 for item in items)
    image = ("image", IMAGE) if one else ("images", pa.list_(IMAGE))
    write_rows(_pair_rows(items, folder, tags or {}, one), [*PAIRS, image], path)


def _pair_rows(
    items: Iterable[CuratedItem], folder: Path, tags: Mapping[str, str], one: bool
) -> Iterator[dict[str, Any]]:
    for item in items:
        order = sorted((0, 1), key=lambda i: content_key("place", item.key, i))
        images = [
            {"bytes": (folder / name).read_bytes(), "path": Path(name).name} for name in item.images
        ]
        yield {
            "id": item.id,
            "query": item.prompt,
            "response": [item.responses[i] for i in order],
            "human_ranking": [int(i != item.better) for i in order],
            "models": [item.policies[i] for i in order],
            "query_source": item.dataset,
            "group": item.strategy,
            "tag": tags.get(item.key, ""),
            "cluster": item.question,
            "weight": 1 / item.probability,
            "key": item.key,
            "answers": [item.answers[i] for i in order],
            "subject": item.subject,
            "split": item.split,
            **({"image": next(iter(images), None)} if one else {"images": images}),
        }
