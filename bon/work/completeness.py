"""Whether a run is complete, and what each model lacks; reads no images, loads no models."""

from collections import Counter
from collections.abc import Iterable, Iterator

from bon.analysis.results.study import ModelShare, RunCompleteness
from bon.core.errors import UNANSWERED
from bon.core.records import BY_MODEL, Candidate, Question
from bon.experiment.cards import Loaded
from bon.experiment.config import PolicyCard, RewarderCard
from bon.storage.store import Store
from bon.work.setup import Setup
from bon.work.units import (
    Unit,
    grading_unit,
    lacking,
    pages,
    pair_unit,
    question_unit,
    reading_unit,
)

HOPELESS_SHARE = 0.2
"""A model with more errors is stopped, unless `cluster.max_error_share` allows more."""


def completeness(setup: Setup, store: Store) -> RunCompleteness:
    """Count stored and missing rows under the current settings."""
    counter = _Counter(setup, store)
    for pairs in pages(store.pairs()):
        for rewarder in counter.asked:
            votes = setup.pair_votes(rewarder)
            counter.judged(rewarder, (pair_unit(pair, votes[name]) for name, pair in pairs))
    for questions in pages(store.questions()):
        for policy in setup.policies:
            counter.sampled(policy, questions)
    limit = setup.experiment.cluster.max_error_share
    shares, missing = list[ModelShare](), list[str]()
    for model in setup.models:
        shares.append(counter.share(model))
        # What an import lacks, no run can add.
        allowed = max(limit, HOPELESS_SHARE) if model.card.imported else limit
        missing += _problems(shares[-1], allowed)
    return RunCompleteness(complete=not missing, models=tuple(shares), missing=tuple(missing))


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
    failed = share.errors - share.unanswered
    if failed > max_error_share * share.rows:
        yield (
            f"{failed} of {share.rows} {'candidates' if policy else 'judgements'} of "
            f"{share.model} are errors (cluster.max_error_share is {max_error_share:g})"
        )


class _Counter:
    """Counts of what is wanted and stored, by model; memory does not grow with the run."""

    def __init__(self, setup: Setup, store: Store) -> None:
        self.asked = [each for each in setup.rewarders if not each.card.imported]
        self._setup, self._store = setup, store
        self._failed: dict[str, str] = store.meta("failed", {})
        self._wanted, self._have = Counter[str](), Counter[str]()
        for each in setup.rewarders:
            if each.card.imported:  # nothing can be added
                sql = "SELECT COUNT(DISTINCT item) FROM judgements WHERE spec = ?"
                ((count,),) = store.query(sql, (each.spec,))
                self._wanted[each.card.name] = self._have[each.card.name] = count

    def judged(self, rewarder: Loaded[RewarderCard], units: Iterable[Unit]) -> None:
        """Count what a rewarder judges, grades or reads."""
        for _, known in lacking(self._setup, self._store, rewarder, units):
            self._wanted[rewarder.card.name] += 1
            self._have[rewarder.card.name] += known is None

    def sampled(self, policy: Loaded[PolicyCard], questions: Iterable[Question]) -> None:
        """Count a policy's candidates to these questions, and what is judged of them."""
        setup, card = self._setup, policy.card
        by_depth: dict[bool, list[Unit]] = {False: [], True: []}
        graded, read = [], []
        for question in questions:
            n = setup.depth(policy, question.key)
            rows = self._store.candidates(policy.spec, question.key, n)
            self._wanted[card.name] += len(rows) if card.imported else n  # nothing can be added
            self._have[card.name] += len(rows)
            shallow = deep = self._units(policy, question, rows[: card.n], card.n)
            if n > card.n:
                deep = self._units(policy, question, rows, n)
            by_depth[False] += shallow
            by_depth[True] += deep
            graded.append(grading_unit(question, rows)[0])
            if card.extractor == BY_MODEL:
                read.append(reading_unit(question, rows)[0])
        for rewarder in self.asked:
            self.judged(rewarder, by_depth[setup.is_deep(rewarder)])
        for model in setup.assistants:
            units = graded if model is setup.grader else read
            self.judged(model, [unit for unit in units if unit.texts])

    def _units(
        self, policy: Loaded[PolicyCard], question: Question, rows: list[Candidate], n: int
    ) -> list[Unit]:
        """Return what is judged of a question, if anything."""
        ready = policy.card.imported or len(rows) == n
        unit, _ = question_unit(self._setup, question, rows, ready=ready)
        return [unit] if unit.texts or not ready else []

    def share(self, loaded: Loaded[PolicyCard] | Loaded[RewarderCard]) -> ModelShare:
        """Return the progress of a model."""
        name = loaded.card.name
        rows = self._store.count(loaded.table, "spec = ?", (loaded.spec,))
        errors = self._store.errors(loaded.table, loaded.spec)
        return ModelShare(
            model=name, role="policy" if loaded.table == "candidates" else "rewarder",
            wanted=self._wanted[name], have=self._have[name], rows=rows, errors=errors,
            unanswered=self._store.errors(loaded.table, loaded.spec, UNANSWERED),
            failed=self._failed.get(name, ""),
        )  # fmt: skip
