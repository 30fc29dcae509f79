"""The items of a benchmark in the making: one question and its responses, of known correctness.

`items.parquet` has one row an item, with the fields of `CuratedItem` as columns.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from bon.core.keys import content_key

Split = Literal["public", "held-out"]


@dataclass(frozen=True, slots=True)
class CuratedItem:
    """A question and two to four responses. Lists over the responses are in their canonical order.

    `id` is what people read, `key` what annotations and verdicts refer to. `question` is the key
    of the run's question, and the cluster of the item: a question is in one split only. `images`
    are paths within the folder. `text_keys` are those of the run's candidates. `answers` are the
    letters read from the responses (empty: none was read). `better` is the place of the right
    response, or None where all are right (`ties`). `drawn_by` are all strategies that drew it, and
    `strategy` is one of them, the control where that did: so the control part is whole.
    `probability` is that with which any of them draws the item: 1 / probability weighs a pair back
    to the natural distribution, all pairs of a right and a wrong text of the filtered pools alike.
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
    correct: tuple[bool, ...]
    better: int | None
    strategy: str
    probability: float
    split: Split
    subject: str = ""
    dataset: str = ""
    drawn_by: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        assert 2 <= len(self.responses) == len(self.text_keys) == len(self.correct)
        assert len(self.policies) == len(self.answers) == len(self.responses)
        assert 0 < self.probability <= 1
        right = [place for place, one in enumerate(self.correct) if one]
        assert self.better is None or right == [self.better]

    @property
    def weight(self) -> float:
        """How many items of the population this one stands for."""
        return 1 / self.probability


def item_key(question: str, text_keys: Iterable[str]) -> str:
    """The identity of an item: the question and its responses, in any order."""
    return content_key("curated", question, sorted(text_keys))


def write_items(items: Iterable[CuratedItem], path: Path) -> None:
    """All items as Parquet, in one step."""
    names = [one.name for one in fields(CuratedItem)]
    temporary = path.with_name(f".{path.name}.tmp")
    pd.DataFrame([asdict(item) for item in items], columns=names).to_parquet(temporary, index=False)
    temporary.replace(path)


def read_items(path: Path) -> list[CuratedItem]:
    """What `write_items` wrote."""
    lists = [one.name for one in fields(CuratedItem) if str(one.type).startswith("tuple")]
    items = []
    for row in pd.read_parquet(path).to_dict("records"):
        values: dict[str, Any] = {str(name): value for name, value in row.items()}
        values |= {name: tuple(values[name]) for name in lists}
        values["better"] = None if pd.isna(values["better"]) else int(values["better"])
        items.append(CuratedItem(**values))
    return items
