"""Repeat judgements in other batches (`judging.repeat_check`).

Repeats are stored in RUN/repeats under the keys of the original judgements and only compared with
them.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from bon.choosing.opinion import shown_of
from bon.core.keys import item_seed
from bon.core.records import Judgement
from bon.dispatch.source import Source
from bon.dispatch.worker import JudgeTask, Payload
from bon.experiment.cards import Loaded
from bon.experiment.config import RewarderCard
from bon.rewarders.base import Item
from bon.rewarders.item_judging import Call
from bon.rewarders.reply_parsing import parser_key, reparse
from bon.storage.database import DATABASE
from bon.storage.store import Store
from bon.work.setup import Setup
from bon.work.sources import (
    pair_answer_key,
    pair_item,
    question_answer_key,
    question_item,
)

if TYPE_CHECKING:
    import pandas as pd

FOLDER = "repeats"
"""Folder of the repeats in a run directory."""

_ACTIVE = "SELECT key FROM questions WHERE active > 0 UNION SELECT key FROM pairs WHERE active > 0"


class RepeatSource(Source):
    """One judgement of each of `count` items, after all others.

    Items come in a seeded order, so that other items share their batches.
    """

    stage = "repeat"

    def __init__(
        self,
        setup: Setup,
        store: Store,
        repeats: Store,
        rewarder: Loaded[RewarderCard],
        before: Sequence[Source],
    ) -> None:
        super().__init__(rewarder.card.name, setup.experiment.judging.repeat_check, 1)
        self.target_store: Store = repeats
        self._store = store
        self._setup = setup
        self._card = rewarder.card
        self._spec = rewarder.spec
        self._before = before

    def steps(self) -> Iterator[list[Payload] | None]:
        """Yield the call of each drawn judgement, once all others are made."""
        while any(source.open or not source.finished for source in self._before):
            yield None
        drawn = to_repeat(self._store, self._spec, self.total)
        self.total = len(drawn)
        for item, key in drawn:
            if self.target_store.has("judgements", "key = ?", (key,)):
                yield []
                continue
            row = next(r for r in self._store.judgements(self._spec, item) if r.key == key)
            shown = shown_of(row)
            judged, answer_key = self._item(row)
            if all(text in judged.responses for text in shown):
                again = (Call(shown, (row.vote,)),)
                yield [JudgeTask(judged, (), 1, again=again, answer_key=answer_key)]
            else:  # n was larger then
                yield []

    def _item(self, row: Judgement) -> tuple[Item, dict[str, bool] | None]:
        """Return the judged item and its answer key, if the rewarder has one."""
        if row.item_kind == "pair":
            pair = self._store.pair(row.item)
            return pair_item(pair), pair_answer_key(self._card, pair)
        question = self._store.question(row.item)
        assert question is not None
        usable = [
            row
            for policy in self._setup.policies
            for row in self._store.candidates(
                policy.spec, question.key, self._setup.depth(policy, question.key)
            )
            if row.outcome != "error"
        ]
        answer_key = question_answer_key(self._card, question, usable)
        return question_item(question, usable), answer_key


def to_repeat(store: Store, spec: str, count: int) -> list[tuple[str, str]]:
    """Return (item, key of a judgement) of up to `count` items judged by a rewarder."""
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
    """Return a source per rewarder that starts after its sources in `before`."""
    return [
        RepeatSource(
            setup, store, repeats, rewarder, [s for s in before if s.model == rewarder.card.name]
        )
        for rewarder in setup.rewarders
        if not rewarder.card.imported
    ]


def repeat_table(setup: Setup, store: Store) -> "pd.DataFrame | None":
    """Return original and repeated judgements; None if nothing was repeated.

    Columns: rewarder; before, again (outcome, or the chosen response); score, score_again (for
    `scored`, else missing).
    """
    if not (store.directory / FOLDER / DATABASE).is_file():
        return None
    import pandas as pd

    rows = []
    with Store(store.directory / FOLDER, readonly=True) as repeats:
        for rewarder in setup.rewarders:
            for again in repeats.stored_judgements(rewarder.spec):
                originals = store.judgements(rewarder.spec, again.item)
                before = next((row for row in originals if row.key == again.key), None)
                if before is None or before.outcome == "error":
                    continue
                if parser_key(rewarder.card) and again.outcome != "error":
                    again = reparse(rewarder.card, again)
                rows.append((rewarder.card.name, *_result(before), *_result(again)))
    columns = ["rewarder", "before", "score", "again", "score_again"]
    return pd.DataFrame.from_records(rows, columns=columns)


def _result(row: Judgement) -> tuple[str, Any]:
    result = row.first if row.outcome == "chosen" else row.outcome
    return result, row.score if row.outcome == "scored" else None
