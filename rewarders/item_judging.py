"""One rewarder on one item: find the missing judgements, make the calls, file the verdicts.

A downstream question and a preference pair are judged by the same code, so a rewarder is asked the
same way on both axes.
"""

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import NamedTuple

from bon.choosing.designs import Design, Pair, most_pairs, most_windows, next_pairs, next_windows
from bon.choosing.opinion import Candidates, item_opinion, shown_of
from bon.choosing.race import EarlyStopping
from bon.core.errors import BonError, one_line
from bon.core.keys import content_key, item_seed
from bon.core.records import Judgement
from bon.engines.base import call_for_all
from bon.experiment.config import RewarderCard
from bon.rewarders.base import Arity, Item, Rewarder, Verdict
from bon.rewarders.registry import rewarder_class

Showing = tuple[str, str | None, int]
"""Text keys of the first and the second response, if there is one, and the vote."""


@dataclass(frozen=True, slots=True)
class Protocol:
    """How often and in which comparisons a rewarder is asked."""

    spec: str
    votes: int
    design: Design
    retries: int = 2

    def with_votes(self, votes: int) -> "Protocol":
        """Return the protocol with another number of votes."""
        return self if votes == self.votes else replace(self, votes=votes)


class Call(NamedTuple):
    """One request: these responses in this order, once per vote."""

    shown: tuple[str, ...]
    votes: tuple[int, ...]


# ------------------------------------------------------------------ judging an item


async def judge_item(
    rewarder: Rewarder,
    item: Item,
    protocol: Protocol,
    existing: Sequence[Judgement],
    early_stopping: EarlyStopping | None = None,
) -> list[Judgement]:
    """Return the judgements of `item` that are not in `existing`, in the order they were made.

    `early_stopping` and the design decide which comparisons are made; the rewarder sees neither.
    """
    card, keys, arity = rewarder.card, item.responses, rewarder.arity
    judgements: list[Judgement] = []
    failure: BonError | None = None
    known = list(existing)
    while calls := missing_calls(card, arity, keys, item.key, protocol, known, early_stopping):
        batches = await asyncio.gather(
            *(_ask(rewarder, item, protocol, call) for call in calls), return_exceptions=True
        )
        rows: list[Judgement] = []
        for batch in batches:
            if isinstance(batch, BaseException) and not isinstance(batch, BonError):
                raise batch
            rows += batch.rows if isinstance(batch, BonError) else batch
            failure = failure or (batch if isinstance(batch, BonError) else None)
        judgements += rows
        known += rows
        if failure:
            failure.rows = tuple(judgements)  # the other calls are paid for
            raise failure
        if not rows or arity == "one":  # all calls are made in the first round
            break
    return judgements


async def _ask(rewarder: Rewarder, item: Item, protocol: Protocol, call: Call) -> list[Judgement]:
    """Make one call, again after an exception; it is stored as an error if no attempt succeeds."""
    seed = item_seed(protocol.spec, item.key, call.shown)

    async def judgements_of(seeds: tuple[int, ...]) -> list[Judgement]:
        part = Call(call.shown, tuple([each - seed for each in seeds]))
        verdicts = await rewarder.judge(item, call.shown, seeds)
        _check(rewarder, verdicts, part)
        return _file(rewarder, item, protocol, part, verdicts)

    seeds = tuple([seed + vote for vote in call.votes])
    rows, left, failure = await call_for_all(judgements_of, seeds, protocol.retries)
    if failure is None:
        return rows
    missing = Call(call.shown, tuple([each - seed for each in left]))
    errors = [Verdict("error", reason=one_line(failure))] * len(left)
    return rows + _file(rewarder, item, protocol, missing, errors)


def _check(rewarder: Rewarder, verdicts: Sequence[Verdict], call: Call) -> None:
    """Raise if the result of a rewarder's `judge` cannot be stored."""
    name, votes = type(rewarder).__name__, len(call.votes)
    listed = isinstance(verdicts, Sequence) and all([isinstance(v, Verdict) for v in verdicts])
    if not listed or len(verdicts) != votes:
        raise TypeError(f"{name}.judge answered {verdicts!r:.200}, not a list of {votes} verdicts")
    for verdict in verdicts:
        if verdict.outcome == "chosen" and verdict.score not in range(len(call.shown)):
            raise ValueError(f"{name}.judge chose {verdict.score!r} of {len(call.shown)} responses")


# ------------------------------------------------------------------ missing judgements


def missing_calls(
    card: RewarderCard,
    arity: Arity,
    responses: Iterable[str],
    item: str,
    protocol: Protocol,
    existing: Sequence[Judgement],
    early_stopping: EarlyStopping | None = None,
) -> list[Call]:
    """Return the calls of the next round, given what exists; empty when the item is done."""
    keys, votes = sorted(responses), protocol.votes
    # As if the run had always had today's settings.
    existing = existing and [
        row
        for row in existing
        if in_protocol(card.orders, votes, item, row.first, row.second, row.vote)
    ]
    showings: list[tuple[str, ...]]
    if arity == "one":
        showings = [(key,) for key in keys]
    elif arity == "many":
        showings = next_windows(keys, item, card.window, existing)
    else:  # pairs that lack an order or a vote, else the pairs of the next round
        shown = ((row.first, row.second) for row in existing if row.second is not None)
        counts = Counter((min(pair), max(pair)) for pair in shown)
        needed = votes * (2 if card.orders == "both" else 1)
        pairs = [pair for pair, count in counts.items() if count < needed]
        if not pairs:
            opinion = item_opinion("preferences", existing, Candidates.of(item, keys))
            pairs = next_pairs(protocol.design, opinion, early_stopping)
        showings = [order for pair in pairs for order in orders(pair, item, card.orders)]
    judged = {(shown_of(row), row.vote) for row in existing}
    calls = [
        Call(shown, tuple([vote for vote in range(votes) if (shown, vote) not in judged]))
        for shown in showings
    ]
    return [call for call in calls if call.votes]


def protocol_rows(
    card: RewarderCard,
    responses: Collection[str],
    item: str,
    protocol: Protocol,
    rows: Iterable[Judgement],
    early_stopping: EarlyStopping | None = None,
) -> list[Judgement]:
    """Return the judgements that the protocol asks for on these responses alone.

    The windows of lists and the matches of a tournament depend on who takes part: those of another
    policy's candidates, or of another n, do not count even where they show only these responses.
    """
    made = {
        (shown_of(row), row.vote): row
        for row in rows
        if all(key in responses for key in shown_of(row))
        and in_protocol(card.orders, protocol.votes, item, row.first, row.second, row.vote)
    }
    if card.imported or not depends_on_others(card, protocol.design):
        return list(made.values())
    own: list[Judgement] = []
    arity = rewarder_class(card).arity
    while calls := missing_calls(card, arity, responses, item, protocol, own, early_stopping):
        asked = ((call.shown, vote) for call in calls for vote in call.votes)
        new = [made.pop(showing) for showing in asked if showing in made]
        if not new:
            break
        own += new
    return own


def depends_on_others(card: RewarderCard, design: Design) -> bool:
    """Whether who else takes part decides which responses are shown together."""
    arity = rewarder_class(card).arity
    return arity == "many" or (arity == "two" and design not in ("all_pairs", "race"))


def orders(pair: Pair, item: str, policy: str) -> list[Pair]:
    """Return both orders of a pair, or the one that the item's seed picks."""
    first, second = sorted(pair)
    if policy == "both":
        return [(first, second), (second, first)]
    flipped = item_seed("order", item, first, second) % 2 == 1
    return [(second, first) if flipped else (first, second)]


def in_protocol(
    policy: str, votes: int, item: str, first: str, second: str | None, vote: int
) -> bool:
    """Whether today's settings include this vote on this showing."""
    one_order = policy != "both" and second is not None
    return vote < votes and (
        not one_order or (first, second) in orders((first, str(second)), item, policy)
    )


def is_complete(
    card: RewarderCard, responses: Collection[str], item: str, votes: int, shown: set[Showing]
) -> bool:
    """Whether every possible call was made, in which case nothing is missing.

    A design may be done with less, and listwise windows are not known in advance: always False.
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


def max_calls(card: RewarderCard, design: Design, responses: int, votes: int) -> int:
    """Return the maximum number of judgements of an item with so many different responses."""
    arity = rewarder_class(card).arity
    if arity == "one":
        return responses * votes
    if arity == "many":
        return most_windows(responses, card.window) * votes
    return most_pairs(design, responses) * votes * (2 if card.orders == "both" else 1)


# ------------------------------------------------------------------ filing verdicts


def _file(
    rewarder: Rewarder, item: Item, protocol: Protocol, call: Call, verdicts: Sequence[Verdict]
) -> list[Judgement]:
    spec, arity, prompt_hash = protocol.spec, rewarder.arity, rewarder.prompt.sha256[:16]
    rows = []
    for vote, verdict in zip(call.votes, verdicts, strict=True):
        # An unparsed choice names the first response; its outcome says that it is unparsed.
        picked = arity == "many" and verdict.outcome == "chosen"
        index = int(verdict.score) if picked and verdict.score is not None else 0
        shown = call.shown[index], call.shown[1] if arity == "two" else None
        listed = call.shown if arity == "many" else ()
        # By position: twice as fast as by name.
        key = content_key(spec, item.key, call.shown, vote)
        name = key, rewarder.card.name, spec, item.kind, item.key, *shown, vote
        reply = verdict.outcome, verdict.score, verdict.text, listed, prompt_hash
        tokens = verdict.num_tokens, verdict.num_prompt_tokens
        row = Judgement(*name, *reply, *tokens, cost=verdict.cost, error=verdict.reason)
        rows.append(row)
    return rows
