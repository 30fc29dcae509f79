"""What is left to do, read from the store a page at a time.

A source walks the items of one model in order and hands out those that still lack something.
It keeps a cursor, never a list, so the driver's memory does not grow with the number of
questions; and since it asks the store what is known, resuming and extending are the same thing
as running.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from pathlib import Path
from typing import ClassVar, Literal

from bon.choosing.opinion import shown_of
from bon.choosing.race import Stakes
from bon.core.images import IMAGE_MARK
from bon.core.records import Candidate, ImageRef, Judgement, PreferencePair, Question
from bon.engines.base import ImagePart
from bon.experiment.cards import Loaded
from bon.experiment.config import Judging, PolicyCard, RewarderCard
from bon.policies.ask import Ask, text_key
from bon.policies.question import policy_messages, question_block
from bon.rewarders import judge
from bon.rewarders.base import Item
from bon.rewarders.registry import rewarder_class
from bon.running.looks import Looks
from bon.running.stakes import stakes_of, to_judge
from bon.running.store import Store
from bon.running.worker import JudgeTask, Payload

Stage = Literal["generate", "benchmark", "judge", "repeat"]


class Source(ABC):
    """Work for one model, handed out in the order of its items.

    `total` and `done` count items, `known` those that lacked nothing when they were looked at,
    `answered` those that came back, which took the workers `seconds`. `open` counts those taken
    and not yet back; `finished` says that no more will be handed out. An item takes at most
    `calls` calls.
    """

    stage: ClassVar[Stage]
    kept_in: Store | None = None
    """The store that its rows go to, where that is not the run's own."""

    def __init__(self, model: str, total: int, calls: int) -> None:
        self.model = model
        self.total = total
        self.calls = calls
        self.done = 0
        self.known = 0
        self.answered = 0
        self.seconds = 0.0
        self.open = 0
        self.finished = False
        self._ahead: list[Payload] = []
        self._first: int | None = None

    @property
    def passed(self) -> int:
        """Items done since the first that lacked something: what was there before took no time."""
        return self.done - (self._first or 0)

    def take(self, count: int) -> list[Payload]:
        """Up to `count` payloads; fewer when no more is ready just now."""
        taken, self._ahead = self._ahead[:count], self._ahead[count:]
        self.open += len(taken)
        while len(taken) < count and not self.finished:
            step = self._step()
            if step is None:
                break
            if step and self._first is None:
                self._first = self.done
            taken += step
            self.open += len(step)
            self.done += not step
            self.known += not step
        return taken

    def answer(self, count: int, seconds: float) -> None:
        """So many of the items taken have come back, after so many seconds of a worker's time."""
        self.open -= count
        self.done += count
        self.answered += count
        self.seconds += seconds

    def pass_over(self) -> None:
        """Every item lacks nothing."""
        self.done = self.known = self.total
        self.finished = True

    def has_work(self) -> bool:
        """Whether anything is missing that could be asked for now, or when others are as far."""
        if not self._ahead:
            self._ahead = self.take(1)
            self.open -= len(self._ahead)
        return bool(self._ahead) or self.blocked

    @property
    def blocked(self) -> bool:
        """Whether it waits for other rewarders, and holds nothing itself."""
        return False

    def finish(self) -> None:
        """Nothing more is wanted of it."""
        self.finished = True
        self.total = self.done + self.open

    @abstractmethod
    def _step(self) -> list[Payload] | None:
        """The next item's payload, [] if it lacks nothing, None to wait or (finished) to end."""


class GenerateSource(Source):
    """Questions that lack candidates of a policy."""

    stage = "generate"

    def __init__(self, store: Store, policy: Loaded[PolicyCard]) -> None:
        asked = not policy.card.brought
        total = store.count("questions", "active > 0") if asked else 0
        super().__init__(policy.card.name, total, policy.card.n)
        self._store = store
        self._policy = policy
        self._questions = store.questions() if asked else iter(())

    def _step(self) -> list[Payload] | None:
        question = next(self._questions, None)
        if question is None:
            self.finished = True
            return None
        card, spec = self._policy.card, self._policy.spec
        there = self._store.indices(spec, question.key)
        missing = tuple(index for index in range(card.n) if index not in there)
        if not missing:
            return []
        messages = policy_messages(question, self._policy.prompt, read_image, card.images)
        return [Ask(question.key, messages, question.options, question.answer, missing)]


class PairSource(Source):
    """Preference pairs that a rewarder has not judged in full."""

    stage = "benchmark"

    def __init__(
        self,
        store: Store,
        rewarder: Loaded[RewarderCard],
        protocol: judge.Protocol,
        votes: dict[str, int],
    ) -> None:
        card = rewarder.card
        most = judge.most_calls(card, protocol.design, 2, max(votes.values(), default=1))
        super().__init__(card.name, store.count("pairs", "active > 0"), most)
        self._store = store
        self._rewarder = rewarder
        self._protocol = protocol
        self._votes = votes
        self._pairs = store.pairs()

    def _step(self) -> list[Payload] | None:
        entry = next(self._pairs, None)
        if entry is None:
            self.finished = True
            return None
        benchmark, pair = entry
        votes = self._votes[benchmark]
        texts = {text_key(response) for response in pair.responses}
        known = open_calls(self._store, self._rewarder, self._protocol, pair.key, texts, votes)
        # The item is made, and its images read, only where something is missing.
        return [] if known is None else [JudgeTask(pair_item(pair), tuple(known), votes)]


class QuestionSource(Source):
    """Questions whose candidates are all there and not judged in full by a rewarder.

    It follows the generation in question order and waits at the first question that still
    lacks candidates, until `generated()` says that no more will come.
    """

    stage = "judge"

    def __init__(
        self,
        store: Store,
        policy: Loaded[PolicyCard],
        rewarder: Loaded[RewarderCard],
        protocol: judge.Protocol,
        *,
        judging: Judging,
        subset: float = 1.0,
        generated: Callable[[], bool],
        looks: Looks | None = None,
    ) -> None:
        card = rewarder.card
        most = judge.most_calls(card, protocol.design, policy.card.n, card.votes)
        super().__init__(card.name, store.count("questions", "active > 0"), most)
        self._store = store
        self._pool = CandidatePool(store, policy)
        self._rewarder = rewarder
        self._protocol = protocol
        self._judging = judging
        self._subset = subset
        self._generated = generated
        self._questions = store.questions() if looks is None else looks.questions()
        self._waiting: Question | None = None
        self._looks = looks
        self._place = 0
        if looks is not None:
            looks.join(self)

    @property
    def generated(self) -> bool:
        """Whether no more candidates will come."""
        return self._generated()

    @property
    def blocked(self) -> bool:
        """Whether all that may be asked for now has come back."""
        if self._looks is None or self.finished or self._waiting is not None:
            return False
        return self._place >= self._looks.end(self.model) and not (self.open or self._ahead)

    def _step(self) -> list[Payload] | None:
        if self._looks is not None and self._waiting is None:
            while self._place >= self._looks.end(self.model) and not self.finished:
                if not self._looks.advanced():
                    return None
            if self.finished:
                return None
        # Asked before the rows are read: what is not there then will never come.
        last_call = self._generated()
        question = self._waiting or next(self._questions, None)
        self._waiting = None
        if question is None:
            self.finished = True
            return None
        pool = self._pool.candidates(question)
        if len(pool) < self._pool.n and not last_call:
            self._waiting = question
            return None
        self._place += 1
        usable = to_judge(question, pool, self._judging, self._subset)
        if not usable:
            return []
        votes = self._rewarder.card.votes
        texts = {row.text_key for row in usable}
        race = stakes_of(question, usable, self._judging)
        known = open_calls(
            self._store, self._rewarder, self._protocol, question.key, texts, votes, race
        )
        if known is None:
            return []
        return [JudgeTask(question_item(question, usable), tuple(known), votes, race)]


class CandidatePool:
    """The candidates of a policy on a question that count today: its spec and n."""

    def __init__(self, store: Store, policy: Loaded[PolicyCard]) -> None:
        self.n = policy.card.n
        self._store = store
        self._spec = policy.spec

    def candidates(self, question: Question) -> list[Candidate]:
        """At most n rows, by index."""
        rows = self._store.candidates(self._spec, question.key)
        return [row for row in rows if row.index < self.n]


def open_calls(
    store: Store,
    rewarder: Loaded[RewarderCard],
    protocol: judge.Protocol,
    item: str,
    responses: Collection[str],
    votes: int,
    stakes: Stakes | None = None,
) -> list[Judgement] | None:
    """What is known of an item that is not judged in full; None where nothing is missing."""
    known = [
        row
        for row in store.judgements(rewarder.spec, item)
        if all(key in responses for key in shown_of(row))
    ]
    card = rewarder.card
    arity = rewarder_class(card).arity
    wanted = protocol.voted(votes)
    calls = judge.missing_calls(card, arity, responses, item, wanted, known, stakes)
    return known if calls else None


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
    images = [read_image(ref) for ref in pair.images]
    inside = set(IMAGE_MARK.findall("".join((pair.prompt, *pair.responses))))
    return Item(
        kind="pair",
        key=pair.key,
        prompt=pair.prompt,
        images=tuple(image for image in images if image.sha256[:16] not in inside),
        responses=dict(zip(keys, pair.responses, strict=True)),
        correct={key: place == pair.preferred for place, key in enumerate(keys)},
        marked={key: image for image in images if (key := image.sha256[:16]) in inside},
    )


def read_image(ref: ImageRef) -> ImagePart:
    """The bytes of an image; none where the file is gone, which the engine files as an error."""
    try:
        data = Path(ref.path).read_bytes()
    except OSError:
        data = b""
    return ImagePart(ref.sha256, data)
