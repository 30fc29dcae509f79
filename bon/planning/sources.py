"""Sources of the remaining work, read from the store a page at a time.

A source walks the items of one model in order and yields the incomplete ones. It keeps a cursor,
so memory does not grow with the number of questions, and compares with the stored rows, so resuming
and extending a run work like running it.
"""

from collections.abc import Callable, Collection
from pathlib import Path

from bon.choosing.opinion import shown_of
from bon.choosing.race import EarlyStopping
from bon.core.images import IMAGE_MARK
from bon.core.records import Candidate, ImageRef, Judgement, PreferencePair, Question
from bon.dispatch.source import Source
from bon.dispatch.worker import JudgeTask, Payload
from bon.engines.base import ImagePart
from bon.experiment.cards import Loaded
from bon.experiment.config import Card, Judging, PolicyCard, RewarderCard
from bon.planning.judging_scope import stakes_of, to_judge
from bon.planning.sequential_test import SequentialTest
from bon.policies.generate import Ask, text_key
from bon.policies.prompting import policy_messages, question_block
from bon.rewarders import item_judging
from bon.rewarders.base import Item
from bon.rewarders.registry import rewarder_class
from bon.storage.store import Store


class GenerateSource(Source):
    """Questions without all candidates of a policy."""

    stage = "generate"

    def __init__(self, store: Store, policy: Loaded[PolicyCard]) -> None:
        total = 0 if policy.card.brought else store.count("questions", "active > 0")
        super().__init__(policy.card.name, total, policy.card.n)
        self._store = store
        self._policy = policy
        self._questions = iter(()) if policy.card.brought else store.questions()

    def _step(self) -> list[Payload] | None:
        question = next(self._questions, None)
        if question is None:
            self.finished = True
            return None
        card, spec = self._policy.card, self._policy.spec
        stored = self._store.indices(spec, question.key)
        missing = tuple(index for index in range(card.n) if index not in stored)
        if not missing:
            return []
        messages = policy_messages(question, self._policy.prompt, read_image, card.images)
        answer_key = question.answer if has_answer_key(card) else None
        return [Ask(question.key, messages, question.options, missing, answer_key)]


class PairSource(Source):
    """Preference pairs that a rewarder has not fully judged."""

    stage = "benchmark"

    def __init__(
        self,
        store: Store,
        rewarder: Loaded[RewarderCard],
        protocol: item_judging.Protocol,
        votes: dict[str, int],
    ) -> None:
        card = rewarder.card
        most = item_judging.max_calls(card, protocol.design, 2, max(votes.values(), default=1))
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
        if known is None:
            return []
        answer_key = pair_answer_key(self._rewarder.card, pair)
        return [JudgeTask(pair_item(pair), tuple(known), votes, answer_key=answer_key)]


class QuestionSource(Source):
    """Questions with all candidates that a rewarder has not fully judged.

    It follows generation in question order and waits at the first incomplete question until
    `generated()` returns that no more candidates will come.
    """

    stage = "judge"

    def __init__(
        self,
        store: Store,
        policy: Loaded[PolicyCard],
        rewarder: Loaded[RewarderCard],
        protocol: item_judging.Protocol,
        *,
        judging: Judging,
        subset: float = 1.0,
        generated: Callable[[], bool],
        test: SequentialTest | None = None,
    ) -> None:
        card = rewarder.card
        most = item_judging.max_calls(card, protocol.design, policy.card.n, card.votes)
        super().__init__(card.name, store.count("questions", "active > 0"), most)
        self._store = store
        self._pool = CandidatePool(store, policy)
        self._rewarder = rewarder
        self._protocol = protocol
        self._judging = judging
        self._subset = subset
        self._generated = generated
        self._questions = store.questions() if test is None else test.questions()
        self._waiting: Question | None = None
        self._test = test
        self._position = 0
        if test is not None:
            test.join(self)

    @property
    def generated(self) -> bool:
        """Return whether no more candidates will come."""
        return self._generated()

    @property
    def blocked(self) -> bool:
        """Return whether all work before the next interim analysis is done."""
        if self._test is None or self.finished or self._waiting is not None:
            return False
        return self._position >= self._test.limit(self.model) and not (self.open or self._buffer)

    def _step(self) -> list[Payload] | None:
        if self._test is not None and self._waiting is None:
            while self._position >= self._test.limit(self.model) and not self.finished:
                if not self._test.advance():
                    return None
            if self.finished:
                return None
        # Before the rows are read: what is missing then will never come.
        generated = self._generated()
        question = self._waiting or next(self._questions, None)
        self._waiting = None
        if question is None:
            self.finished = True
            return None
        pool = self._pool.candidates(question)
        if len(pool) < self._pool.n and not generated:
            self._waiting = question
            return None
        self._position += 1
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
        item = question_item(question, usable)
        answer_key = question_answer_key(self._rewarder.card, question, usable)
        return [JudgeTask(item, tuple(known), votes, race, answer_key=answer_key)]


class CandidatePool:
    """Candidates of a policy under its current spec and n."""

    def __init__(self, store: Store, policy: Loaded[PolicyCard]) -> None:
        self.n = policy.card.n
        self._store = store
        self._spec = policy.spec

    def candidates(self, question: Question) -> list[Candidate]:
        """Return at most n candidates of a question, by index."""
        rows = self._store.candidates(self._spec, question.key)
        return [row for row in rows if row.index < self.n]


def open_calls(
    store: Store,
    rewarder: Loaded[RewarderCard],
    protocol: item_judging.Protocol,
    item: str,
    responses: Collection[str],
    votes: int,
    stakes: EarlyStopping | None = None,
) -> list[Judgement] | None:
    """Return the judgements of an incomplete item; None if it is complete."""
    known = [
        row
        for row in store.judgements(rewarder.spec, item)
        if all(key in responses for key in shown_of(row))
    ]
    card = rewarder.card
    arity = rewarder_class(card).arity
    protocol = protocol.with_votes(votes)
    calls = item_judging.missing_calls(card, arity, responses, item, protocol, known, stakes)
    return known if calls else None


def question_item(question: Question, candidates: list[Candidate]) -> Item:
    """Return the item of a question with its distinct candidate texts."""
    return Item(
        kind="question",
        key=question.key,
        prompt=question_block(question),
        images=tuple(read_image(ref) for ref in question.images),
        responses={row.text_key: row.text for row in candidates},
    )


def pair_item(pair: PreferencePair) -> Item:
    """Return the item of a preference pair, its responses in the order of their keys."""
    images = [read_image(ref) for ref in pair.images]
    inside = set(IMAGE_MARK.findall("".join((pair.prompt, *pair.responses))))
    return Item(
        kind="pair",
        key=pair.key,
        prompt=pair.prompt,
        images=tuple(image for image in images if image.sha256[:16] not in inside),
        responses=dict(sorted((text_key(response), response) for response in pair.responses)),
        marked={
            image.sha256[:16]: image
            for image in sorted(images, key=lambda i: i.sha256)
            if image.sha256[:16] in inside
        },
    )


def has_answer_key(card: Card) -> bool:
    """Return whether payloads carry right answers: bon's own classes on the echo engine only."""
    own = isinstance(card, RewarderCard) and card.kind == "python"
    return card.engine == "echo" and not own


def question_answer_key(
    card: RewarderCard, question: Question, candidates: list[Candidate]
) -> dict[str, bool] | None:
    """Return whether each text is right; None for models that must not know."""
    if not has_answer_key(card):
        return None
    return {row.text_key: row.answer == question.answer for row in candidates}


def pair_answer_key(card: RewarderCard, pair: PreferencePair) -> dict[str, bool] | None:
    """Return whether each response is preferred; None for models that must not know."""
    if not has_answer_key(card):
        return None
    return {text_key(text): side == pair.preferred for side, text in enumerate(pair.responses)}


def read_image(ref: ImageRef) -> ImagePart:
    """Read an image; empty if the file is gone, which the engine reports as an error."""
    try:
        data = Path(ref.path).read_bytes()
    except OSError:
        data = b""
    return ImagePart(ref.sha256, data)
