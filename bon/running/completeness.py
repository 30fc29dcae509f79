"""Whether a run is complete, and what each model still lacks. Reads no image, loads no model."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import chain, islice
from typing import Any, Literal, NamedTuple

from bon.choosing.race import Stakes
from bon.experiment.cards import Loaded
from bon.experiment.config import PolicyCard, RewarderCard
from bon.policies.ask import text_key
from bon.rewarders.judge import Showing, has_all
from bon.running import held
from bon.running.held import PAGE, AnswerRow, QuestionRow
from bon.running.looks import look_ends
from bon.running.setup import Setup
from bon.running.stakes import look_order, stakes_of, to_judge, unanimous
from bon.running.store import Store
from bon.running.work import open_calls


@dataclass(frozen=True, slots=True)
class Share:
    """What one model was to do and did.

    `wanted` and `have` count a policy's candidates, and a rewarder's items: preference pairs and
    questions to be judged in full. `errors` of its `rows` are errors; they are not asked again
    unless `--retry-errors` says so. `failed` says why the model was stopped.
    """

    model: str
    role: Literal["policy", "rewarder"]
    wanted: int
    have: int
    rows: int
    errors: int
    failed: str = ""

    @property
    def unit(self) -> str:
        """What `wanted` and `have` count."""
        return "candidates" if self.role == "policy" else "items"

    @property
    def row_unit(self) -> str:
        """What `rows` and `errors` count."""
        return "candidates" if self.role == "policy" else "judgements"

    def problems(self, max_error_share: float) -> Iterator[str]:
        """Why this model's part is not complete; nothing where it is."""
        if self.failed:
            yield f"{self.model} failed: {self.failed}"
        if self.have < self.wanted:
            yield f"{self.model} has {self.have} of {self.wanted} {self.unit}"
        if self.errors > max_error_share * self.rows:
            yield (
                f"{self.errors} of {self.rows} {self.row_unit} of {self.model} are errors "
                f"(cluster.max_error_share is {max_error_share:g})"
            )


@dataclass(frozen=True)
class Completeness:
    """What a run has of what its settings ask for; `missing` is empty when it is complete."""

    models: tuple[Share, ...]
    missing: tuple[str, ...]

    @property
    def complete(self) -> bool:
        """Whether nothing is missing, no model failed and errors are within the limit."""
        return not self.missing

    def as_dict(self) -> dict[str, Any]:
        """For results.json, the report and `bon status --json`."""
        return {"complete": self.complete, **asdict(self)}


def completeness(setup: Setup, store: Store) -> Completeness:
    """Count what is there and what is missing under today's settings."""
    counter = _Counter(setup, store)
    shares = (
        *(counter.policy(policy) for policy in setup.policies),
        *(counter.rewarder(rewarder) for rewarder in setup.rewarders),
    )
    limit = setup.experiment.cluster.max_error_share
    missing = tuple(problem for share in shares for problem in share.problems(limit))
    return Completeness(shares, missing)


class _Item(NamedTuple):
    """A question of one policy, or a pair: its distinct texts; `ready` when all are there.

    One that is not `needed` was perhaps judged by earlier settings, and counts where it was.
    `votes`: None for those of the rewarder's card. `policy` and `place`: of a question, where looks
    say how far a rewarder is to be judged.
    """

    key: str
    texts: frozenset[str]
    votes: int | None = None
    ready: bool = True
    needed: bool = True
    stakes: Stakes | None = None
    policy: str = ""
    place: int = 0


class _Counter:
    def __init__(self, setup: Setup, store: Store) -> None:
        self._setup = setup
        self._store = store
        self._failed: dict[str, str] = store.meta("failed", {})
        self._asked: list[_Item] = []
        self._ends = look_ends(setup, store)
        order = look_order(setup, store) if self._ends else []
        self._places = {key: place for place, key in enumerate(order)}

    def policy(self, policy: Loaded[PolicyCard]) -> Share:
        """Its candidates; the questions that rewarders are to judge are noted on the way."""
        judging = self._setup.experiment.judging
        subset = self._setup.experiment.questions.subset
        n = policy.card.n
        wanted = have = 0
        for question, rows in self._answered(policy):
            wanted += n
            have += len(rows)
            ready = policy.card.brought or len(rows) == n
            needed = bool(to_judge(question, rows, judging, subset)) or not ready
            usable = [row for row in rows if row.outcome != "error"]
            if needed or (usable and not unanimous(usable)):
                texts = frozenset(row.text_key for row in usable)
                stakes = stakes_of(question, usable, judging)
                place = self._places.get(question.key, 0)
                self._asked.append(
                    _Item(question.key, texts, None, ready, needed, stakes, policy.card.name, place)
                )
        if policy.card.brought:  # there will never be more
            wanted = have
        return self._share(policy, "policy", wanted, have)

    def rewarder(self, rewarder: Loaded[RewarderCard]) -> Share:
        """Its preference pairs, and the questions of every policy."""
        if rewarder.card.brought:  # there will never be more
            (items,) = self._store.query(
                "SELECT COUNT(DISTINCT item) FROM judgements WHERE spec = ?", (rewarder.spec,)
            )[0]
            return self._share(rewarder, "rewarder", items, items)
        wanted = have = 0
        asked = chain(self._pairs(self._setup.pair_votes(rewarder)), self._asked)
        while page := list(islice(asked, PAGE)):
            shown = held.shown(self._store, rewarder.spec, [item.key for item in page])
            for item in page:
                judged = item.ready and self._judged(rewarder, item, shown[item.key])
                wanted += judged or (item.needed and not self._settled(rewarder, item))
                have += judged
        return self._share(rewarder, "rewarder", wanted, have)

    def _settled(self, rewarder: Loaded[RewarderCard], item: _Item) -> bool:
        """Whether it need not be judged, as the rewarder was settled before."""
        ends = self._ends.get(item.policy)
        return ends is not None and item.place >= ends[rewarder.card.name]

    def _answered(
        self, policy: Loaded[PolicyCard]
    ) -> Iterator[tuple[QuestionRow, list[AnswerRow]]]:
        for page in held.asked(self._store):
            keys = [question.key for question in page]
            rows = held.answered(self._store, policy.spec, policy.card.n, keys)
            yield from ((question, rows[question.key]) for question in page)

    def _pairs(self, votes: dict[str, int]) -> Iterator[_Item]:
        for benchmark, key, texts in self._paired:
            yield _Item(key, texts, votes[benchmark])

    @cached_property
    def _paired(self) -> list[tuple[str, str, frozenset[str]]]:
        """Benchmark, key and texts of every pair: read once, and asked for by every rewarder."""
        return [
            (benchmark, pair.key, frozenset(map(text_key, pair.responses)))
            for benchmark, pair in self._store.pairs()
        ]

    def _judged(self, rewarder: Loaded[RewarderCard], item: _Item, shown: set[Showing]) -> bool:
        votes = rewarder.card.votes if item.votes is None else item.votes
        if has_all(rewarder.card, item.texts, item.key, votes, shown):
            return True
        protocol = self._setup.protocol(rewarder)
        return (
            open_calls(self._store, rewarder, protocol, item.key, item.texts, votes, item.stakes)
            is None
        )

    def _share(
        self,
        loaded: Loaded[PolicyCard] | Loaded[RewarderCard],
        role: Literal["policy", "rewarder"],
        wanted: int,
        have: int,
    ) -> Share:
        rows = self._store.count(loaded.table, "spec = ?", (loaded.spec,))
        errors = self._store.errors(loaded.table, loaded.spec)
        name = loaded.card.name
        return Share(name, role, wanted, have, rows, errors, self._failed.get(name, ""))
