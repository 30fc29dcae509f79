"""Assignment of items to annotators, as pure functions.

Whoever opens an item holds a lease, so that two annotators do not take the last open slot; leases
expire.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from random import Random

from bon.core.keys import item_seed
from bon.curating.items import CuratedItem
from bon.curating.recipe import Annotating

LEASE_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Lease:
    """An item that an annotator has open until a time in seconds."""

    item: str
    annotator: str
    until: float


@dataclass(frozen=True, slots=True)
class QueueState:
    """Choices by item and annotator, and the active leases."""

    choices: Mapping[str, Mapping[str, str]]
    leases: Sequence[Lease]


def shown_order(item: str, annotator: str, responses: int) -> tuple[int, ...]:
    """Return the order in which an annotator sees the responses, by a hash."""
    order = list(range(responses))
    Random(item_seed("shown", item, annotator)).shuffle(order)
    return tuple(order)


def required_answers(annotating: Annotating, choices: Collection[str]) -> int:
    """Return how many answers an item needs: one more if its answers have no majority."""
    usual = annotating.annotators_per_item
    if not annotating.third_on_disagreement or len(choices) < max(2, usual):
        return usual
    return usual + (2 * max(Counter(choices).values()) <= len(choices))


def open_slots(item: str, annotating: Annotating, state: QueueState, annotator: str) -> int:
    """Return how many answers an item needs beyond those given or leased by others."""
    choices = state.choices.get(item, {})
    leased = {
        lease.annotator
        for lease in state.leases
        if lease.item == item and lease.annotator != annotator and lease.annotator not in choices
    }
    return required_answers(annotating, choices.values()) - len(choices) - len(leased)


def gold_checks(items: Iterable[CuratedItem], annotating: Annotating, seed: int) -> frozenset[str]:
    """Select items that everybody answers, which measure how often annotators err.

    Only items with an extracted answer in every response qualify: their label is certain.
    """
    items = list(items)
    certain = [item.key for item in items if all(item.answers)]
    certain.sort(key=lambda key: item_seed("gold check", seed, key))
    return frozenset(certain[: ceil(annotating.gold_checks * len(items))])


def remaining_items(
    keys: Sequence[str],
    checks: Collection[str],
    annotating: Annotating,
    state: QueueState,
    annotator: str,
) -> tuple[list[str], list[str]]:
    """Return the gold checks and the other items that this annotator may still answer."""
    todo = [key for key in keys if annotator not in state.choices.get(key, {})]
    others = [
        key
        for key in todo
        if key not in checks and open_slots(key, annotating, state, annotator) > 0
    ]
    return [key for key in todo if key in checks], others


def next_item(
    keys: Sequence[str],
    checks: Collection[str],
    annotating: Annotating,
    seed: int,
    state: QueueState,
    annotator: str,
) -> str | None:
    """Return the next item of an annotator, or None.

    An open item comes first, then occasionally a gold check, then the item that lacks the fewest
    answers; gold checks that remain come last.
    """
    for lease in state.leases:
        answered = annotator in state.choices.get(lease.item, {})
        if lease.annotator == annotator and lease.item in keys and not answered:
            return lease.item
    due, others = remaining_items(keys, checks, annotating, state, annotator)
    count = sum(annotator in choices for choices in state.choices.values())
    drawn = item_seed("check now", seed, annotator, count) % 1000
    if due and (not others or drawn < 1000 * annotating.gold_checks):
        return min(due, key=lambda key: item_seed("which check", seed, annotator, key))
    leased = Counter(lease.item for lease in state.leases)

    def rank(key: str) -> tuple[int, int]:
        started = len(state.choices.get(key, ())) + leased[key]
        return -started, item_seed("turn", seed, key)

    return min(others, key=rank, default=None)
