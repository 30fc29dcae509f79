"""Items of a benchmark under construction: one row each in items.parquet, or preference pairs."""

from collections.abc import Iterable, Iterator, Mapping
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

    key: identity that annotations and verdicts refer to; `id` is the readable label.
    question: key of the run's question and cluster of the item; it lies in one split only.
    images: paths within the folder.
    text_keys: keys of the run's candidate texts.
    answers: extracted option letters (empty: none).
    better: index of the right response.
    strategy, drawn_by: all strategies that drew it; `strategy` is the control if that is among
        them, so that the control part is complete.
    probability: inclusion probability under all strategies. Weighting pairs by its inverse
        recovers the natural distribution: all (right, wrong) pairs of the filtered pools.
    """

    key: str
    id: str
    run: str
    question: str
    prompt: str
    images: tuple[str, ...]
    responses: tuple[str, ...]
    text_keys: tuple[str, ...]
    policies: tuple[str, ...]
    answers: tuple[str, ...]
    better: int
    strategy: str
    probability: float
    split: Split
    subject: str = ""
    dataset: str = ""
    drawn_by: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        assert len(self.responses) == len(self.text_keys) == 2
        assert len(self.policies) == len(self.answers) == 2
        assert self.better in (0, 1)
        assert 0 < self.probability <= 1

    @property
    def weight(self) -> float:
        """Number of population items that this one represents."""
        return 1 / self.probability

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
    ("id", _TEXT), ("key", _TEXT), ("prompt", _TEXT), ("images", pa.list_(IMAGE)),
    ("responses", _TEXTS), ("preferred", pa.int64()), ("answers", _TEXTS), ("policies", _TEXTS),
    ("lengths", pa.list_(pa.int64())), ("group", _TEXT), ("tag", _TEXT), ("cluster", _TEXT),
    ("subject", _TEXT), ("dataset", _TEXT), ("split", _TEXT), ("weight", pa.float64()),
]  # fmt: skip


def write_pairs(
    items: Iterable[CuratedItem], folder: Path, path: Path, tags: Mapping[str, str] | None = None
) -> None:
    """Write the items as preference pairs, their responses in an order that reveals nothing.

    folder: of the images. tags: annotators' error tags by item key.
    """
    write_rows(_pair_rows(items, folder, tags or {}), PAIRS, path)


def _pair_rows(
    items: Iterable[CuratedItem], folder: Path, tags: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
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
