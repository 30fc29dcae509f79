"""Whether step scores agree with step labels, as scores of the analysis."""

from collections.abc import Iterator, Sequence
from typing import Any

from bon.benchmarks.step_labels import SEPARATOR
from bon.core.keys import text_key
from bon.core.records import PreferencePair

THRESHOLD = 0.5
"""A step with a lower score is held to be wrong, as in the published evaluations."""
NO_RESPONSE = text_key("")
"""The other side of such a pair."""


def has_steps(pair: PreferencePair) -> bool:
    """Whether a pair is one solution with labels of its steps."""
    return not pair.meta.keys().isdisjoint(("first_error", "step_labels"))


def parts_of(pair: PreferencePair) -> list[tuple[str, str]]:
    """Return (key, group) of each row of a pair: itself, or each step with a label."""
    labels = pair.meta.get("step_labels")
    if labels is None:
        return [(pair.key, pair.group)]
    return [
        (f"{pair.key}#{at}", "right steps" if label > 0 else "wrong steps")
        for at, label in enumerate(labels)
        if label
    ]


def agreements(pair: PreferencePair, text: str) -> list[bool | None]:
    """Return whether the step scores in `text` agree, for each of its parts; None if unread."""
    labels, first = pair.meta.get("step_labels"), pair.meta.get("first_error")
    try:
        good = [float(score) >= THRESHOLD for score in text.split()]
    except ValueError:  # a step is unparsed
        good = []
    if len(good) != pair.responses[0].count(SEPARATOR) + 1:
        return [None] * len(parts_of(pair))
    if labels is None:
        return [(good.index(False) if False in good else -1) == first]
    return [own == (label > 0) for own, label in zip(good, labels, strict=True) if label]


def rows_of(pair: PreferencePair, row: Sequence[Any], text: str) -> Iterator[list[Any]]:
    """Yield a judgement of a solution as one of each of its parts: 1 if it agrees, else 0."""
    kind, _, first, _, vote, outcome, _, *spent = row
    for (key, _), right in zip(parts_of(pair), agreements(pair, text), strict=True):
        score = float(right) if right is not None and outcome == "scored" else None
        read = "unparsed" if score is None and outcome == "scored" else outcome
        yield [kind, key, first, None, vote, read, score, *spent]
        spent = [0] * len(spent)  # the model was asked once
