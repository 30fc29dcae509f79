"""Labels against annotators: their consensus, and the labels that it contradicts."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from bon.curating.items import CuratedItem
from bon.curating.labelling.annotations import CANNOT, Annotation, current
from bon.curating.workbench import Workbench

UNRESOLVED = "unresolved"


def consensus(choices: Iterable[str]) -> str:
    """Return the majority choice of those who could judge.

    `unresolved` without a majority, `cannot` if nobody could judge, empty without answers.
    """
    choices = list(choices)
    judged = [choice for choice in choices if choice != CANNOT]
    if not judged:
        return CANNOT if choices else ""
    choice, count = Counter(judged).most_common(1)[0]
    return choice if 2 * count > len(judged) else UNRESOLVED


def contradicts(item: CuratedItem, outcome: str) -> bool | None:
    """Whether an outcome names another response than the label; None if it names none."""
    return int(outcome) != item.better if outcome.isdigit() else None


@dataclass(frozen=True)
class Labelling:
    """The items and their annotations."""

    items: Sequence[CuratedItem]
    annotations: Sequence[Annotation]

    @cached_property
    def by_key(self) -> dict[str, CuratedItem]:
        """Items by key."""
        return {item.key: item for item in self.items}

    @cached_property
    def answers(self) -> dict[str, list[Annotation]]:
        """Answers by item, in order of arrival."""
        answers = defaultdict(list)
        for row in self.annotations:
            if row.item in self.by_key:
                answers[row.item].append(row)
        return dict(answers)

    @cached_property
    def outcomes(self) -> dict[str, str]:
        """Consensus of each answered item."""
        return {key: consensus(row.choice for row in rows) for key, rows in self.answers.items()}

    @cached_property
    def against(self) -> dict[str, bool]:
        """Whether the consensus contradicts the label, where both name a response."""
        values = {
            item.key: contradicts(item, self.outcomes.get(item.key, "")) for item in self.items
        }
        return {key: value for key, value in values.items() if value is not None}

    @cached_property
    def tags(self) -> dict[str, str]:
        """All tags of each item."""
        return {
            key: ", ".join(sorted({tag for row in rows for tag in row.tags}))
            for key, rows in self.answers.items()
        }


def load_labelling(bench: Workbench) -> Labelling:
    """Return the items with the annotations that count."""
    return Labelling(bench.items, current(bench.annotations_path))
