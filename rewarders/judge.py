"""One rewarder on one item: which judgements are missing, ask for them, file what came back.

The same code runs on a downstream question and on a preference pair, so a rewarder is asked
the same way on both axes.
"""

import asyncio
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from bon.choosing.designs import (
    Design,
    Pair,
    most_pairs,
    most_windows,
    next_pairs,
    next_windows,
)
from bon.choosing.opinion import Candidates, item_opinion, shown_of
from bon.choosing.race import Stakes
from bon.core.errors import BonError, one_line
from bon.core.keys import content_keys, item_seed, item_seeds
from bon.core.records import Judgement
from bon.experiment.config import RewarderCard
from bon.rewarders.base import Arity, Item, Rewarder, Verdict
from bon.rewarders.registry import rewarder_class

Showing = tuple[str, str | None, int]
"""Text keys of the first response and the second, if there is one, and the vote."""


@dataclass(frozen=True, slots=True)
class Protocol:
    """How often and in which comparisons a rewarder is asked."""

    spec: str
    votes: int
    design: Design
    retries: int = 2

    def voted(self, votes: int) -> "Protocol":
        """The same with so many votes."""
        return self if votes == self.votes else replace(self, votes=votes)


@dataclass(frozen=True, slots=True)
class Call:
    """One request: these responses in this order, once for each vote."""

    shown: tuple[str, ...]
    votes: tuple[int, ...]


async def judge_item(
    rewarder: Rewarder,
    item: Item,
    protocol: Protocol,
    known: Sequence[Judgement],
    stakes: Stakes | None = None,
) -> list[Judgement]:
    """The judgements of `item` that are not among `known`, in the order they were made.

    `stakes` decide with the design which comparisons are made; the rewarder never sees them.
    """
    made = await judge_round(rewarder, item, protocol, known, stakes)
    if rewarder.arity == "one":  # what is asked never depends on what was said
        return made
    rows = made
    while rows:
        rows = await judge_round(rewarder, item, protocol, [*known, *made], stakes)
        made += rows
    return made


async def judge_round(
    rewarder: Rewarder,
    item: Item,
    protocol: Protocol,
    known: Sequence[Judgement],
    stakes: Stakes | None = None,
) -> list[Judgement]:
    """The judgements that can be asked for at once, given what is known; empty when it is done."""
    calls = missing_calls(
        rewarder.card, rewarder.arity, item.responses, item.key, protocol, known, stakes
    )
    return await ask(rewarder, item, protocol, calls)


async def ask(
    rewarder: Rewarder, item: Item, protocol: Protocol, calls: Sequence[Call]
) -> list[Judgement]:
    """The judgements of these calls, whatever is known of the item."""
    prompt_hash = rewarder.prompt.sha256[:16]
    seeds = item_seeds(protocol.spec, item.key, last=[call.shown for call in calls])
    asked = [
        _ask(rewarder, prompt_hash, item, protocol, call, seed)
        for call, seed in zip(calls, seeds, strict=True)
    ]
    batches = await asyncio.gather(*asked)
    return [judgement for batch in batches for judgement in batch]


def missing_calls(
    card: RewarderCard,
    arity: Arity,
    responses: Iterable[str],
    item: str,
    protocol: Protocol,
    known: Sequence[Judgement],
    stakes: Stakes | None = None,
) -> list[Call]:
    """What is still to be asked, given what is known; empty when the item is done."""
    keys = sorted(responses)
    # As a run would have it that knew no other settings than today's.
    known = known and [
        row
        for row in known
        if asked_today(card.orders, protocol.votes, item, row.first, row.second, row.vote)
    ]
    wanted: list[tuple[str, ...]]
    if arity == "one":
        wanted = [(key,) for key in keys]
    elif arity == "many":
        wanted = next_windows(keys, item, card.window, known)
    else:
        wanted = [
            shown
            for pair in _open_pairs(keys, item, protocol, card, known, stakes)
            for shown in orders(pair, item, card.orders)
        ]
    if not known:
        every = tuple(range(protocol.votes))
        return [Call(shown, every) for shown in wanted]
    done: dict[tuple[str, ...], set[int]] = {}
    for row in known:
        done.setdefault(shown_of(row), set()).add(row.vote)
    calls = []
    for shown in wanted:
        votes = tuple(v for v in range(protocol.votes) if v not in done.get(shown, ()))
        if votes:
            calls.append(Call(shown, votes))
    return calls


def most_calls(card: RewarderCard, design: Design, responses: int, votes: int) -> int:
    """Judgements of one item with so many different responses, at most."""
    arity = rewarder_class(card).arity
    if arity == "one":
        return responses * votes
    if arity == "many":
        return most_windows(responses, card.window) * votes
    matches = most_pairs(design, responses)
    return matches * votes * (2 if card.orders == "both" else 1)


def has_all(
    card: RewarderCard, responses: Collection[str], item: str, votes: int, shown: set[Showing]
) -> bool:
    """Whether all that could be asked of an item was: true only where nothing is missing.

    A design may be done with less, and a bracket of many says nothing here.
    """
    arity = rewarder_class(card).arity
    if arity == "many":
        return False
    if arity == "one":
        return all((key, None, vote) in shown for key in responses for vote in range(votes))
    return all(
        (first, second, vote) in shown
        for pair in combinations(sorted(responses), 2)
        for first, second in orders(pair, item, card.orders)
        for vote in range(votes)
    )


def orders(pair: Pair, item: str, policy: str) -> list[Pair]:
    """Both orders of a pair, or the one that the item's seed picks."""
    first, second = sorted(pair)
    if policy == "both":
        return [(first, second), (second, first)]
    flipped = item_seed("order", item, first, second) % 2 == 1
    return [(second, first) if flipped else (first, second)]


def asked_today(
    policy: str, votes: int, item: str, first: str, second: str | None, vote: int
) -> bool:
    """Whether today's settings ask for this vote on this showing: the others are left aside."""
    if vote >= votes:
        return False
    if policy == "both" or second is None:
        return True
    a, b = sorted((first, second))
    return (first, second) in orders((a, b), item, policy)


def _open_pairs(
    keys: list[str],
    item: str,
    protocol: Protocol,
    card: RewarderCard,
    known: Sequence[Judgement],
    stakes: Stakes | None,
) -> list[Pair]:
    """Pairs of the next round, and pairs that still lack an order or a vote."""
    votes: dict[Pair, int] = {}
    for row in known:
        if row.second is not None:
            first, second = sorted((row.first, row.second))
            votes[first, second] = votes.get((first, second), 0) + 1
    needed = protocol.votes * (2 if card.orders == "both" else 1)
    partial = [pair for pair, count in votes.items() if count < needed]
    if partial:
        return partial
    said = item_opinion("preferences", known, Candidates.of(item, keys))
    return next_pairs(protocol.design, said, stakes)


def give_up(
    card: RewarderCard,
    arity: Arity,
    prompt_hash: str,
    item: Item,
    protocol: Protocol,
    known: Sequence[Judgement],
    error: str,
    stakes: Stakes | None = None,
) -> list[Judgement]:
    """Everything that is missing of an item, filed as errors: it cannot be judged."""
    made: list[Judgement] = []
    while calls := missing_calls(
        card, arity, item.responses, item.key, protocol, [*known, *made], stakes
    ):
        made += failed(card, arity, prompt_hash, item, protocol, calls, error)
    return made


def failed(
    card: RewarderCard,
    arity: Arity,
    prompt_hash: str,
    item: Item,
    protocol: Protocol,
    calls: Sequence[Call],
    error: str,
) -> list[Judgement]:
    """These calls, filed as errors."""
    made: list[Judgement] = []
    for call in calls:
        verdicts = [Verdict("error")] * len(call.votes)
        made += _file(card, arity, prompt_hash, item, protocol, call, verdicts, error)
    return made


async def _ask(
    rewarder: Rewarder, prompt_hash: str, item: Item, protocol: Protocol, call: Call, seed: int
) -> list[Judgement]:
    seeds = tuple([seed + vote for vote in call.votes])
    error = ""
    for _ in range(protocol.retries + 1):
        try:
            verdicts = await rewarder.judge(item, call.shown, seeds)
            _check(rewarder, verdicts, call)
            break
        except BonError:
            raise
        except Exception as failure:
            error = one_line(failure)
    else:
        verdicts = [Verdict("error")] * len(seeds)
    return _file(rewarder.card, rewarder.arity, prompt_hash, item, protocol, call, verdicts, error)


def _check(rewarder: Rewarder, verdicts: Sequence[Verdict], call: Call) -> None:
    """Raise where a rewarder's answer cannot be filed: that is an error of the item."""
    name, wanted = type(rewarder).__name__, len(call.votes)
    listed = isinstance(verdicts, Sequence) and all([isinstance(one, Verdict) for one in verdicts])
    if not listed or len(verdicts) != wanted:
        raise TypeError(f"{name}.judge answered {verdicts!r:.200}, not a list of {wanted} verdicts")
    for one in verdicts:
        if one.outcome == "chosen" and one.score not in range(len(call.shown)):
            raise ValueError(f"{name}.judge chose {one.score!r} of {len(call.shown)} responses")


def _file(
    card: RewarderCard,
    arity: Arity,
    prompt_hash: str,
    item: Item,
    protocol: Protocol,
    call: Call,
    verdicts: Sequence[Verdict],
    error: str,
) -> list[Judgement]:
    keys = content_keys(protocol.spec, item.key, call.shown, last=call.votes)
    rows = []
    for key, vote, verdict in zip(keys, call.votes, verdicts, strict=True):
        # A choice that cannot be read stands at the first response; its outcome says so.
        listed = arity == "many" and verdict.outcome == "chosen"
        chosen = int(verdict.score) if listed and verdict.score is not None else 0
        rows.append(
            Judgement(  # by place, in half the time that names take
                key,
                card.name,
                protocol.spec,
                item.kind,
                item.key,
                call.shown[chosen],
                call.shown[1] if arity == "two" else None,
                vote,
                verdict.outcome,
                verdict.score,
                verdict.text,
                call.shown if arity == "many" else (),
                prompt_hash,
                verdict.num_tokens,
                verdict.num_prompt_tokens,
                cost=verdict.cost,
                error=error if verdict.outcome == "error" else verdict.reason,
            )
        )
    return rows
