"""Looks at rewarders while they are judged: who is asked on, who is settled (`judging.decide`).

Questions are judged in a seeded order, and every rewarder waits at the end of a look until all that
are still in have come as far. What a look settles follows from the judgements alone
(bon.analysis.decision.looked), so a run that is killed and goes on settles the same.
"""

from collections.abc import Iterator
from typing import Protocol

from bon.core.records import Question
from bon.experiment.cards import Loaded
from bon.experiment.config import PolicyCard
from bon.running.setup import Setup, options
from bon.running.stakes import look_order
from bon.running.store import Store


class LookedAt(Protocol):
    """What looks need to know of a rewarder's work."""

    @property
    def model(self) -> str: ...  # noqa: D102
    @property
    def finished(self) -> bool: ...  # noqa: D102
    @property
    def blocked(self) -> bool: ...  # noqa: D102
    @property
    def generated(self) -> bool: ...  # noqa: D102
    def finish(self) -> None: ...  # noqa: D102


class Looks:
    """The looks at the rewarders on one policy's candidates."""

    def __init__(self, setup: Setup, store: Store, policy: Loaded[PolicyCard]) -> None:
        self._setup = setup
        self._store = store
        self._policy = policy.card.name
        self._order = look_order(setup, store)
        self._joined: list[LookedAt] = []
        self._ends = _at_first(setup, store)

    def join(self, rewarder: LookedAt) -> None:
        """One of those that are looked at."""
        self._joined.append(rewarder)

    def questions(self) -> Iterator[Question]:
        """In the order of asking."""
        for key in self._order:
            question = self._store.question(key)
            assert question is not None
            yield question

    def end(self, rewarder: str) -> int:
        """How many of the questions a rewarder may be asked about so far."""
        return self._ends[rewarder]

    def advanced(self) -> bool:
        """Look, if all have come as far; whether that changed what anybody may be asked.

        One that stopped on its way, because its model failed, stops the others too: who it would
        have been better than is not known. The same command goes on from here.
        """
        going = [one for one in self._joined if not one.finished]
        if not all(one.generated and one.blocked for one in going):
            return False
        before, self._ends = self._ends, look_ends(self._setup, self._store)[self._policy]
        for one in going:
            if self._ends[one.model] == before[one.model]:
                one.finish()
        return self._ends != before


def look_ends(setup: Setup, store: Store) -> dict[str, dict[str, int]]:
    """Policy -> rewarder -> how many questions it is to be judged on, as far as that is known.

    In the order of asking. Empty where the experiment judges everything.
    """
    if setup.experiment.judging.decide is None:
        return {}
    from bon.analysis.data.arrays import read
    from bon.analysis.decision.looked import looked
    from bon.running.frames import run_tables

    found = {policy.card.name: _at_first(setup, store) for policy in setup.policies}
    tables = run_tables(setup, store)
    if len(tables.candidates):
        ends = _ends(setup, store)
        for policy, one in looked(read(tables), options(setup)).items():
            upto = zip(one.rewarders, one.found.upto, strict=True)
            found[policy] = {name: ends[look - 1] for name, look in upto}
    return found


def _at_first(setup: Setup, store: Store) -> dict[str, int]:
    ends = _ends(setup, store)
    return {rewarder.card.name: ends[0] for rewarder in setup.rewarders}


def _ends(setup: Setup, store: Store) -> tuple[int, ...]:
    from bon.analysis.decision.settling import ends_of

    count = store.count("questions", "active > 0")
    return ends_of(count, setup.experiment.judging.looks)
