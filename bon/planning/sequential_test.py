"""Interim analyses of the rewarders while they judge (`judging.decide`)."""

from collections.abc import Callable, Iterator

from bon.core.records import Question
from bon.dispatch.source import Source
from bon.experiment.cards import Loaded
from bon.experiment.config import PolicyCard
from bon.planning.judging_scope import judging_order
from bon.planning.setup import Setup, options
from bon.storage.store import Store


class SequentialTest:
    """Interim analyses of the rewarders on one policy's candidates.

    Every rewarder waits at the end of a look until all others have arrived. Decisions follow from
    the stored judgements alone, so a resumed run decides the same.
    """

    def __init__(self, setup: Setup, store: Store, policy: Loaded[PolicyCard]) -> None:
        self._setup = setup
        self._store = store
        self._policy = policy.card.name
        self._order = judging_order(setup, store)
        self._rewarders: list[tuple[Source, Callable[[], bool]]] = []
        self._limits = dict.fromkeys(_names(setup), _look_sizes(setup, store)[0])

    def join(self, rewarder: Source, generated: Callable[[], bool]) -> None:
        """Add a rewarder; `generated()` returns whether no more candidates will come."""
        self._rewarders.append((rewarder, generated))

    def questions(self) -> Iterator[Question]:
        """Iterate over the questions in the order of judging."""
        for key in self._order:
            question = self._store.question(key)
            assert question is not None
            yield question

    def limit(self, rewarder: str) -> int:
        """Return how many questions a rewarder may judge so far."""
        return self._limits[rewarder]

    def advance(self) -> bool:
        """Run the interim analysis if all have arrived; return whether a limit changed.

        A failed rewarder stops the others: the test cannot decide without its judgements.
        """
        running = [pair for pair in self._rewarders if not pair[0].finished]
        if not all(generated() and rewarder.blocked for rewarder, generated in running):
            return False
        before, self._limits = self._limits, judging_limits(self._setup, self._store)[self._policy]
        for rewarder, _ in running:
            if self._limits[rewarder.model] == before[rewarder.model]:
                rewarder.finish()
        return self._limits != before


def judging_limits(setup: Setup, store: Store) -> dict[str, dict[str, int]]:
    """Return policy -> rewarder -> number of questions to judge as decided so far.

    Empty if the experiment judges everything.
    """
    if setup.experiment.judging.decide is None:
        return {}
    from bon.analysis.data.arrays import read
    from bon.analysis.decision.sequential_decision import interim_analyses
    from bon.planning.run_tables import run_tables

    sizes = _look_sizes(setup, store)
    limits = {policy.card.name: dict.fromkeys(_names(setup), sizes[0]) for policy in setup.policies}
    tables = run_tables(setup, store)
    if len(tables.candidates):
        for policy, analysis in interim_analyses(read(tables), options(setup)).items():
            looks = zip(analysis.rewarders, analysis.test.upto, strict=True)
            limits[policy] = {name: sizes[look - 1] for name, look in looks}
    return limits


def _names(setup: Setup) -> list[str]:
    return [rewarder.card.name for rewarder in setup.rewarders]


def _look_sizes(setup: Setup, store: Store) -> tuple[int, ...]:
    from bon.analysis.decision.sequential_test import interim_ends

    count = store.count("questions", "active > 0")
    return interim_ends(count, setup.experiment.judging.looks)
