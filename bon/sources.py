"""What is left to do, read from the store a page at a time.

A source walks the items of one model in order and hands out those that still lack something.
It keeps a cursor, never a list, so the driver's memory does not grow with the number of
questions; and since it asks the store what is known, resuming and extending are the same thing
as running.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal, Protocol

from bon.cards import Loaded
from bon.config import PolicyCard, RewarderCard
from bon.engines.base import ImagePart
from bon.models import JudgeTask, Payload
from bon.policies.ask import Ask, candidate_key, text_key
from bon.policies.render import policy_messages, question_block
from bon.records import Candidate, ImageRef, PreferencePair, Question
from bon.rewarders import judge
from bon.rewarders.base import Item
from bon.rewarders.registry import rewarder_class
from bon.store import Store

Stage = Literal["generate", "benchmark", "judge"]


class Source(Protocol):
    """Work for one model. `take` returns fewer than asked when no more is ready just now.

    `total` and `done` count items; `open` counts those taken and not yet back; `finished`
    says that no more will be handed out.
    """

    model: str
    stage: Stage
    finished: bool
    total: int
    done: int
    open: int

    def take(self, count: int) -> list[Payload]: ...  # noqa: D102


class GenerateSource:
    """Questions that lack candidates of a policy."""

    stage: Stage = "generate"

    def __init__(self, store: Store, policy: Loaded[PolicyCard]) -> None:
        self.model = policy.card.name
        self.finished = False
        self.done = 0
        self.open = 0
        self.total = store.count("questions", "active > 0")
        self._store = store
        self._policy = policy
        self._questions = store.questions()

    def take(self, count: int) -> list[Payload]:
        """Up to `count` questions, rendered, with the indices that are missing."""
        tasks: list[Payload] = []
        while len(tasks) < count:
            question = next(self._questions, None)
            if question is None:
                self.finished = True
                break
            missing = self._missing(question)
            if missing:
                tasks.append(self._ask(question, missing))
            else:
                self.done += 1
        return tasks

    def _missing(self, question: Question) -> tuple[int, ...]:
        spec, n = self._policy.spec, self._policy.card.n
        there = {row.key for row in self._store.candidates(spec, question.key)}
        return tuple(
            index for index in range(n) if candidate_key(spec, question.key, index) not in there
        )

    def _ask(self, question: Question, missing: tuple[int, ...]) -> Ask:
        card = self._policy.card
        messages = policy_messages(question, self._policy.prompt, read_image, card.images)
        return Ask(question.key, messages, question.options, question.answer, missing)


class PairSource:
    """Preference pairs of one benchmark that a rewarder has not judged in full."""

    stage: Stage = "benchmark"

    def __init__(
        self,
        store: Store,
        rewarder: Loaded[RewarderCard],
        protocol: judge.Protocol,
        votes: dict[str, int],
    ) -> None:
        self.model = rewarder.card.name
        self.finished = False
        self.done = 0
        self.open = 0
        self.total = store.count("pairs", "active > 0")
        self._store = store
        self._rewarder = rewarder
        self._protocol = protocol
        self._votes = votes
        self._pairs = store.pairs()

    def take(self, count: int) -> list[Payload]:
        """Up to `count` pairs with what is known of them."""
        tasks: list[Payload] = []
        while len(tasks) < count:
            entry = next(self._pairs, None)
            if entry is None:
                self.finished = True
                break
            benchmark, pair = entry
            task = open_task(
                self._store, self._rewarder, self._protocol, pair_item(pair), self._votes[benchmark]
            )
            if task is None:
                self.done += 1
            else:
                tasks.append(task)
        return tasks


class QuestionSource:
    """Questions whose candidates are all there and not judged in full by a rewarder.

    It follows the generation in question order and waits at the first question that still
    lacks candidates, until `generated()` says that no more will come.
    """

    stage: Stage = "judge"

    def __init__(
        self,
        store: Store,
        policy: Loaded[PolicyCard],
        rewarder: Loaded[RewarderCard],
        protocol: judge.Protocol,
        *,
        judge_unanimous: bool,
        generated: Callable[[], bool],
    ) -> None:
        self.model = rewarder.card.name
        self.finished = False
        self.done = 0
        self.open = 0
        self.total = store.count("questions", "active > 0")
        self._store = store
        self._pool = Pool(store, policy)
        self._rewarder = rewarder
        self._protocol = protocol
        self._judge_unanimous = judge_unanimous
        self._generated = generated
        self._questions = store.questions()
        self._waiting: Question | None = None

    def take(self, count: int) -> list[Payload]:
        """Up to `count` questions with their distinct responses and what is known of them."""
        tasks: list[Payload] = []
        while len(tasks) < count:
            # Asked before the rows are read: what is not there then will never come.
            last_call = self._generated()
            question = self._waiting or next(self._questions, None)
            self._waiting = None
            if question is None:
                self.finished = True
                break
            pool = self._pool.candidates(question)
            if len(pool) < self._pool.n and not last_call:
                self._waiting = question
                break
            task = self._task(question, pool)
            if task is None:
                self.done += 1
            else:
                tasks.append(task)
        return tasks

    def _task(self, question: Question, pool: list[Candidate]) -> JudgeTask | None:
        usable = [row for row in pool if row.outcome != "error"]
        if not usable or (unanimous(usable) and not self._judge_unanimous):
            return None
        item = question_item(question, usable)
        votes = self._rewarder.card.votes
        return open_task(self._store, self._rewarder, self._protocol, item, votes)


class Pool:
    """The candidates of a policy on a question that count today: its spec and n."""

    def __init__(self, store: Store, policy: Loaded[PolicyCard]) -> None:
        self.n = policy.card.n
        self._store = store
        self._spec = policy.spec

    def candidates(self, question: Question) -> list[Candidate]:
        """At most n rows, by index."""
        rows = {row.key: row for row in self._store.candidates(self._spec, question.key)}
        keys = (candidate_key(self._spec, question.key, index) for index in range(self.n))
        return [rows[key] for key in keys if key in rows]


def unanimous(candidates: list[Candidate]) -> bool:
    """Whether no choice among them can change the accuracy."""
    return len({row.answer for row in candidates}) == 1


def open_task(
    store: Store,
    rewarder: Loaded[RewarderCard],
    protocol: judge.Protocol,
    item: Item,
    votes: int,
) -> JudgeTask | None:
    """The task that completes an item, or None where nothing is missing."""
    known = [
        row
        for row in store.judgements(rewarder.spec, item.key)
        if all(key in item.responses for key in judge.shown_of(row))
    ]
    card = rewarder.card
    wanted = replace(protocol, votes=votes)
    arity = rewarder_class(card).arity
    if not judge.missing_calls(card, arity, item.responses, item.key, wanted, known):
        return None
    return JudgeTask(item, tuple(known), votes)


def question_item(question: Question, candidates: list[Candidate]) -> Item:
    """A question with its distinct candidate texts, for a rewarder."""
    return Item(
        kind="question",
        key=question.key,
        prompt=question_block(question),
        images=tuple(read_image(ref) for ref in question.images),
        responses={row.text_key: row.text for row in candidates},
        correct={row.text_key: row.answer == question.answer for row in candidates},
    )


def pair_item(pair: PreferencePair) -> Item:
    """A preference pair, for a rewarder."""
    keys = [text_key(response) for response in pair.responses]
    return Item(
        kind="pair",
        key=pair.key,
        prompt=pair.prompt,
        images=tuple(read_image(ref) for ref in pair.images),
        responses=dict(zip(keys, pair.responses, strict=True)),
        correct={key: place == pair.preferred for place, key in enumerate(keys)},
    )


def read_image(ref: ImageRef) -> ImagePart:
    """The bytes of an image; none where the file is gone, which the engine files as an error."""
    try:
        data = Path(ref.path).read_bytes()
    except OSError:
        data = b""
    return ImagePart(ref.sha256, data)
