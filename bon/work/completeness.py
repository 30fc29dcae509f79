"""Whether a run is complete, and what each model lacks; reads no images, loads no models."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain, islice
from typing import Literal

from bon.analysis.results.study import ModelShare, RunCompleteness
from bon.core.errors import UNANSWERED
from bon.core.records import BY_MODEL, Candidate, Question
from bon.experiment.cards import Loaded
from bon.experiment.config import PolicyCard, RewarderCard
from bon.rewarders.item_judging import Showing, is_complete
from bon.storage.store import Store
from bon.work.setup import Setup
from bon.work.units import (
    Unit,
    grading_unit,
    known_judgements,
    pair_unit,
    question_unit,
    reading_unit,
)

PAGE = 256


def completeness(setup: Setup, store: Store) -> RunCompleteness:
    """Count stored and missing rows under the current settings."""
    counter = _Counter(setup, store)
    shares = (
        *(counter.policy(policy) for policy in setup.policies),
        *(counter.rewarder(rewarder) for rewarder in setup.rewarders),
        *(counter.assistant(model) for model in setup.assistants),
    )
    limit = setup.experiment.cluster.max_error_share
    missing = tuple(problem for share in shares for problem in _problems(share, limit))
    return RunCompleteness(complete=not missing, models=shares, missing=missing)


def _problems(share: ModelShare, max_error_share: float) -> Iterator[str]:
    """Yield the reasons why a model's part is incomplete."""
    policy = share.role == "policy"
    if share.failed:
        yield f"{share.model} failed: {share.failed}"
    if share.have < share.wanted:
        unit = "candidates" if policy else "items"
        yield f"{share.model} has {share.have} of {share.wanted} {unit}"
    if share.unanswered:
        unit = "candidates" if policy else "judgements"
        yield f"{share.unanswered} {unit} of {share.model} were not answered by its endpoint"
    if share.errors > max_error_share * share.rows:
        yield (
            f"{share.errors} of {share.rows} {'candidates' if policy else 'judgements'} of "
            f"{share.model} are errors (cluster.max_error_share is {max_error_share:g})"
        )


class _Counter:
    def __init__(self, setup: Setup, store: Store) -> None:
        self._setup = setup
        self._store = store
        self._failed: dict[str, str] = store.meta("failed", {})
        self._questions: dict[bool, list[Unit]] = {False: [], True: []}  # by depth
        self._graded: list[Unit] = []
        self._read: list[Unit] = []

    def policy(self, policy: Loaded[PolicyCard]) -> ModelShare:
        """Count a policy's candidates and collect its questions for the rewarders."""
        wanted = have = 0
        for question in self._store.questions():
            n = self._setup.depth(policy, question.key)
            rows = self._store.candidates(policy.spec, question.key, n)
            wanted += n
            have += len(rows)
            unit = deep = self._unit(policy, question, rows[: policy.card.n], policy.card.n)
            if n > policy.card.n:
                deep = self._unit(policy, question, rows, n)
            self._questions[False] += [unit] if unit else []
            self._questions[True] += [deep] if deep else []
            graded, _ = grading_unit(question, rows)
            self._graded += [graded] if graded.texts else []
            if policy.card.extractor == BY_MODEL:
                read, _ = reading_unit(question, rows)
                self._read += [read] if read.texts else []
        if policy.card.imported:  # nothing can be added
            wanted = have
        return self._share(policy, "policy", wanted, have)

    def _unit(
        self, policy: Loaded[PolicyCard], question: Question, rows: list[Candidate], n: int
    ) -> Unit | None:
        ready = policy.card.imported or len(rows) == n
        unit, _ = question_unit(self._setup, question, rows, ready=ready)
        return unit if unit.texts or not ready else None

    def rewarder(self, rewarder: Loaded[RewarderCard]) -> ModelShare:
        """Count a rewarder's preference pairs and questions."""
        if rewarder.card.imported:  # nothing can be added
            ((n_items,),) = self._store.query(
                "SELECT COUNT(DISTINCT item) FROM judgements WHERE spec = ?", (rewarder.spec,)
            )
            return self._share(rewarder, "rewarder", n_items, n_items)
        votes = self._setup.pair_votes(rewarder)
        pairs = (unit._replace(votes=votes[benchmark]) for benchmark, unit in self._pairs)
        return self._units(rewarder, chain(pairs, self._questions[self._setup.is_deep(rewarder)]))

    def assistant(self, model: Loaded[RewarderCard]) -> ModelShare:
        """Count the questions with answers to grade or to read, once per policy."""
        return self._units(model, iter(self._graded if model is self._setup.grader else self._read))

    def _units(self, rewarder: Loaded[RewarderCard], units: Iterator[Unit]) -> ModelShare:
        wanted = have = 0
        while page := list(islice(units, PAGE)):
            shown = self._shown(rewarder.spec, [unit.key for unit in page])
            wanted += len(page)
            have += sum(self._judged(rewarder, unit, shown[unit.key]) for unit in page)
        return self._share(rewarder, "rewarder", wanted, have)

    def _shown(self, spec: str, items: Sequence[str]) -> dict[str, set[Showing]]:
        """Return the judged (first, second, vote) of every item."""
        shown: dict[str, set[Showing]] = {item: set() for item in items}
        for item, *showing in self._store.query(
            "SELECT item, first, second, vote FROM judgements "
            f"WHERE spec = ? AND item IN ({', '.join('?' * len(items))})",
            (spec, *items),
        ):
            first, second, vote = showing
            shown[item].add((first, second, vote))
        return shown

    @cached_property
    def _pairs(self) -> list[tuple[str, Unit]]:
        """Benchmark and unit of every pair."""
        return [(benchmark, pair_unit(pair, 0)) for benchmark, pair in self._store.pairs()]

    def _judged(self, rewarder: Loaded[RewarderCard], unit: Unit, shown: set[Showing]) -> bool:
        if not unit.ready:
            return False
        votes = unit.votes or rewarder.card.votes
        if is_complete(rewarder.card, unit.texts, unit.key, votes, shown):
            return True
        return known_judgements(self._setup, self._store, rewarder, unit) is None

    def _share(
        self,
        loaded: Loaded[PolicyCard] | Loaded[RewarderCard],
        role: Literal["policy", "rewarder"],
        wanted: int,
        have: int,
    ) -> ModelShare:
        rows = self._store.count(loaded.table, "spec = ?", (loaded.spec,))
        errors = self._store.errors(loaded.table, loaded.spec)
        name = loaded.card.name
        return ModelShare(
            model=name, role=role, wanted=wanted, have=have, rows=rows, errors=errors,
            unanswered=self._store.errors(loaded.table, loaded.spec, UNANSWERED),
            failed=self._failed.get(name, ""),
        )  # fmt: skip
