"""Comparison designs: from the opinion so far to the next comparisons, or none.

`all_pairs` lets every rule be replayed at every n; the others cost fewer calls and allow only the
rule they are named after, at n = N (`race`: round robin).
"""

from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np

from bon.choosing.opinion import Opinion
from bon.choosing.race import EarlyStopping, next_matches
from bon.choosing.tournaments import bracket, knockout, seated
from bon.core.records import Judgement

Pair = tuple[str, str]
Design = Literal["all_pairs", "race", "knockout"]


def next_pairs(
    design: Design, opinion: Opinion, stopping: EarlyStopping | None = None
) -> list[Pair]:
    """Return the comparisons to make next on one question; empty once the design is done.

    With `stopping` a race and a knockout end as soon as their choice is settled; without it a race
    compares all pairs and a knockout ends with its last match.
    """
    order, prefer = seated(opinion, 0, ties=design != "knockout")
    keys = [str(key) for key in opinion.candidates.keys[0][order]]
    classes = np.array([stopping.classes[key] for key in keys]) if stopping is not None else None
    if design == "race" and stopping is not None and classes is not None:
        copies = np.array([stopping.copies[key] for key in keys])
        matches = next_matches(prefer, copies, classes)
        return [(keys[a], keys[b]) for a, b in matches]
    if design == "knockout":
        played = knockout(prefer)
        if classes is not None and len(np.unique(classes[played.alive])) < 2:
            return []
        return [(keys[a], keys[b]) for a, b in played.missing]
    return [(keys[a], keys[b]) for a, b in np.argwhere(np.triu(np.isnan(prefer), 1))]


def most_pairs(design: Design, responses: int) -> int:
    """Return the largest number of comparisons of a design on so many distinct responses."""
    return max(0, responses - 1) if design == "knockout" else responses * (responses - 1) // 2


def next_windows(
    responses: Iterable[str], item: str, size: int, known: Sequence[Judgement]
) -> list[tuple[str, ...]]:
    """Return the next listwise comparisons: windows of the bracket, then of their winners."""
    chosen: dict[tuple[str, ...], str | None] = {}
    for row in sorted(known, key=lambda row: row.vote):  # the first vote decides who advances
        parsed = row.outcome == "chosen" and row.score is not None
        chosen.setdefault(row.shown, row.first if parsed else None)
    order = bracket(responses, item)
    while len(order) > 1:
        windows = [tuple(order[start : start + size]) for start in range(0, len(order), size)]
        windows = [window for window in windows if len(window) > 1]
        missing = [window for window in windows if window not in chosen]
        if missing:
            return missing
        unpaired = order[sum(map(len, windows)) :]
        # A window whose choice could not be parsed passes on its first response.
        order = [chosen[window] or window[0] for window in windows] + unpaired
    return []


def most_windows(responses: int, size: int) -> int:
    """Return the number of windows that reduce so many distinct responses to one."""
    total = 0
    while responses > 1:
        full, rest = divmod(responses, size)
        total += full + (rest > 1)
        responses = full + (rest > 0)
    return total
