"""Who is asked what next, and in which order the responses stand: pure functions.

Every item is wanted from so many people; one who opens it holds a lease on a place, so that two
do not take the last one, and the lease runs out if no answer comes.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from random import Random

from bon.core.keys import item_seed
from bon.curating.items import CuratedItem
from bon.curating.wanted import Annotating

LEASE_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Lease:
    """An item that somebody has before them, until a time in seconds."""

    item: str
    annotator: str
    until: float


@dataclass(frozen=True, slots=True)
class Standing:
    """What is known when the next item is chosen: item -> annotator -> choice, and the leases."""

    choices: Mapping[str, Mapping[str, str]]
    leases: Sequence[Lease]


def shown_order(item: str, annotator: str, responses: int) -> tuple[int, ...]:
    """The places of the responses as this person sees them: always the same, never chosen."""
    order = list(range(responses))
    Random(item_seed("shown", item, annotator)).shuffle(order)
    return tuple(order)


def places_wanted(annotating: Annotating, choices: Collection[str]) -> int:
    """How many people are to answer an item that has these answers.

    One more than usual where enough have answered and no choice has more than half of them.
    """
    usual = annotating.annotators_per_item
    if not annotating.third_on_disagreement or len(choices) < max(2, usual):
        return usual
    most = max(Counter(choices).values())
    return usual + (2 * most <= len(choices))


def places_open(item: str, annotating: Annotating, standing: Standing, annotator: str) -> int:
    """How many more answers an item wants that nobody else is about to give."""
    choices = standing.choices.get(item, {})
    held = {
        lease.annotator
        for lease in standing.leases
        if lease.item == item and lease.annotator != annotator and lease.annotator not in choices
    }
    return places_wanted(annotating, choices.values()) - len(choices) - len(held)


def gold_checks(items: Iterable[CuratedItem], annotating: Annotating, seed: int) -> frozenset[str]:
    """Items that everybody is given, without being told, to see how often people err.

    Drawn from those whose right response is certain: an answer was read from every response.
    """
    every = list(items)
    certain = [item.key for item in every if item.better is not None and all(item.answers)]
    certain.sort(key=lambda key: item_seed("gold check", seed, key))
    return frozenset(certain[: ceil(annotating.gold_checks * len(every))])


def items_left(
    keys: Sequence[str],
    checks: Collection[str],
    annotating: Annotating,
    standing: Standing,
    annotator: str,
) -> tuple[list[str], list[str]]:
    """The gold checks and the other items that are still to be answered by this person."""
    left = [key for key in keys if annotator not in standing.choices.get(key, {})]
    due = [key for key in left if key in checks]
    open_ = [key for key in left if places_open(key, annotating, standing, annotator) > 0]
    return due, [key for key in open_ if key not in checks]


def next_item(
    keys: Sequence[str],
    checks: Collection[str],
    annotating: Annotating,
    seed: int,
    standing: Standing,
    annotator: str,
) -> str | None:
    """The item that a person is asked next; None where there is none for them.

    What they have before them already; now and then a gold check, and what is left of these at
    the end; else the item that lacks the fewest answers, so that items are finished one after
    another. Never one that they answered.
    """
    held = [lease.item for lease in standing.leases if lease.annotator == annotator]
    for item in held:
        if item in keys and annotator not in standing.choices.get(item, {}):
            return item
    due, others = items_left(keys, checks, annotating, standing, annotator)
    answered = sum(annotator in said for said in standing.choices.values())
    drawn = item_seed("check now", seed, annotator, answered) % 1000
    if due and (not others or drawn < 1000 * annotating.gold_checks):
        return min(due, key=lambda key: item_seed("which check", seed, annotator, key))
    holders = Counter(lease.item for lease in standing.leases)

    def rank(key: str) -> tuple[int, int]:
        begun = len(standing.choices.get(key, ())) + holders[key]
        return -begun, item_seed("turn", seed, key)

    return min(others, key=rank, default=None)
