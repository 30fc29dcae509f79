"""Judgements asked for once more, in other batches: `judging.repeat_check`.

They lie in a store of their own, RUN/repeats, under the keys of those that they repeat, and count
for nothing but the comparison with them.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from bon.choosing.opinion import shown_of
from bon.core.keys import item_seed
from bon.core.records import Judgement
from bon.experiment.cards import Loaded
from bon.experiment.config import PolicyCard, RewarderCard
from bon.rewarders.again import read_again, reading
from bon.rewarders.base import Item
from bon.rewarders.judge import Call
from bon.running.database import DATABASE
from bon.running.setup import Setup
from bon.running.store import Store
from bon.running.work import CandidatePool, Source, pair_item, question_item
from bon.running.worker import JudgeTask, Payload

if TYPE_CHECKING:
    import pandas as pd

FOLDER = "repeats"
"""Of a run directory: the store of what was asked again."""

_ACTIVE = "SELECT key FROM questions WHERE active > 0 UNION SELECT key FROM pairs WHERE active > 0"


class RepeatSource(Source):
    """One judgement of each of so many items, drawn by their keys, once all others are made.

    Items come in an order of their own, so that other items share their batches.
    """

    stage = "repeat"

    def __init__(
        self,
        store: Store,
        repeats: Store,
        policies: Sequence[Loaded[PolicyCard]],
        rewarder: Loaded[RewarderCard],
        count: int,
        before: Sequence[Source],
    ) -> None:
        super().__init__(rewarder.card.name, count, 1)
        self.kept_in = repeats
        self._store = store
        self._pools = [CandidatePool(store, policy) for policy in policies]
        self._spec = rewarder.spec
        self._before = before
        self._drawn: Iterator[tuple[str, str]] | None = None

    def _step(self) -> list[Payload] | None:
        if any(source.open or not source.finished for source in self._before):
            return None
        if self._drawn is None:
            drawn = to_repeat(self._store, self._spec, self.total)
            self.total = len(drawn)
            self._drawn = iter(drawn)
        found = next(self._drawn, None)
        if found is None:
            self.finished = True
            return None
        item, key = found
        assert self.kept_in is not None
        if self.kept_in.has("judgements", "key = ?", (key,)):
            return []
        row = next(one for one in self._store.judgements(self._spec, item) if one.key == key)
        shown = shown_of(row)
        asked = self._item(row)
        if not all(text in asked.responses for text in shown):  # n was larger then
            return []
        return [JudgeTask(asked, (), 1, again=(Call(shown, (row.vote,)),))]

    def _item(self, row: Judgement) -> Item:
        if row.item_kind == "pair":
            return pair_item(self._store.pair(row.item))
        question = self._store.question(row.item)
        assert question is not None
        rows = (one for pool in self._pools for one in pool.candidates(question))
        return question_item(question, [one for one in rows if one.outcome != "error"])


def to_repeat(store: Store, spec: str, count: int) -> list[tuple[str, str]]:
    """(item, key of one of its judgements) of up to `count` items that a rewarder has judged."""
    rows = store.query(
        "SELECT item, MIN(key) FROM judgements "  # a key is a hash: any of them
        f"WHERE spec = ? AND outcome != 'error' AND item IN ({_ACTIVE}) GROUP BY item",
        (spec,),
    )
    ordered = sorted(rows, key=lambda row: item_seed("repeat", row[0]))
    return [(item, key) for item, key in ordered[:count]]


def repeat_sources(
    setup: Setup, store: Store, repeats: Store, before: list[Source]
) -> list[Source]:
    """One per rewarder that is asked, each to begin when `before` has nothing left for it."""
    count = setup.experiment.judging.repeat_check
    return [
        RepeatSource(
            store,
            repeats,
            setup.policies,
            rewarder,
            count,
            [source for source in before if source.model == rewarder.card.name],
        )
        for rewarder in setup.rewarders
        if not rewarder.card.brought
    ]


def repeat_table(setup: Setup, store: Store) -> "pd.DataFrame | None":
    """What was said before and again; None where nothing was asked again.

    One row per repeated judgement: rewarder; before, again: the outcome, or the response that was
    chosen among several; score, score_again where the outcome is `scored`, else missing.
    """
    if not (store.directory / FOLDER / DATABASE).is_file():
        return None
    rows = []
    with Store(store.directory / FOLDER, readonly=True) as repeats:
        for rewarder in setup.rewarders:
            for found in repeats.stored_judgements(rewarder.spec):
                first = next(
                    (r for r in store.judgements(rewarder.spec, found.item) if r.key == found.key),
                    None,
                )
                if first is not None and first.outcome != "error":
                    again = found
                    if reading(rewarder.card) and found.outcome != "error":
                        again = read_again(rewarder.card, found)
                    rows.append((rewarder.card.name, *_said(first), *_said(again)))
    columns = ["rewarder", "before", "score", "again", "score_again"]
    import pandas as pd

    return pd.DataFrame.from_records(rows, columns=columns)


def _said(row: Judgement) -> tuple[str, Any]:
    said = row.first if row.outcome == "chosen" else row.outcome
    return said, row.score if row.outcome == "scored" else None
