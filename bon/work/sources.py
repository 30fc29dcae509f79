"""Sources of the remaining work, read from the store a page at a time.

A source walks the items of one model in order and yields the incomplete ones. It keeps a cursor,
so memory does not grow with the number of questions, and compares with the stored rows, so resuming
and extending a run work like running it.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import tee
from pathlib import Path
from typing import ClassVar

from bon.core.images import IMAGE_MARK
from bon.core.keys import text_key
from bon.core.records import BY_MODEL, Candidate, ImageRef, PreferencePair, Question
from bon.dispatch.source import Source, Stage
from bon.dispatch.worker import JudgeTask, Payload
from bon.engines.base import ImagePart
from bon.experiment.cards import Loaded
from bon.experiment.config import Card, PolicyCard, RewarderCard
from bon.graders import grades_of, is_right
from bon.policies.generate import Ask
from bon.policies.prompting import policy_messages, question_block
from bon.rewarders import item_judging
from bon.rewarders.base import Item
from bon.storage.store import Store
from bon.work.grading import grading_prompt
from bon.work.setup import Setup
from bon.work.units import (
    grading_unit,
    known_judgements,
    lacking,
    pair_unit,
    question_unit,
    reading_unit,
    samplings,
)


class GenerateSource(Source):
    """Questions without all candidates of a policy."""

    stage = "generate"

    def __init__(self, setup: Setup, store: Store, policy: Loaded[PolicyCard]) -> None:
        total = 0 if policy.card.imported else store.count("questions", "active > 0")
        super().__init__(policy.card.name, total, policy.card.n)
        self._setup = setup
        self._store = store
        self._policy = policy

    def steps(self) -> Iterator[list[Payload]]:
        """Yield the prompt of each question with its missing candidates."""
        card = self._policy.card
        sees_answers = has_answer_key(card)
        for question, _, missing in samplings(self._setup, self._store, self._policy):
            if not missing:
                yield []
                continue
            messages = policy_messages(question, self._policy.prompt, read_image, card.images)
            answer_key = question.answer if sees_answers else None
            free = () if question.options else (question.grader, question.text)
            yield [Ask(question.key, messages, question.options, missing, answer_key, *free)]


class PairSource(Source):
    """Preference pairs that a rewarder has not fully judged."""

    stage = "benchmark"

    def __init__(self, setup: Setup, store: Store, rewarder: Loaded[RewarderCard]) -> None:
        self._votes = setup.pair_votes(rewarder)
        design, votes = setup.experiment.judging.design, max(self._votes.values(), default=1)
        most = item_judging.max_calls(rewarder.card, design, 2, votes)
        super().__init__(rewarder.card.name, store.count("pairs", "active > 0"), most)
        self._setup = setup
        self._store = store
        self._rewarder = rewarder

    def steps(self) -> Iterator[list[Payload]]:
        """Yield each pair with its judgements so far."""
        pairs, same = tee(self._store.pairs())
        units = (pair_unit(pair, self._votes[benchmark]) for benchmark, pair in same)
        found = lacking(self._setup, self._store, self._rewarder, units)
        for (benchmark, pair), (_, known) in zip(pairs, found, strict=True):
            if known is None:
                yield []
                continue
            item, votes = pair_item(pair), self._votes[benchmark]
            answer_key = pair_answer_key(self._rewarder.card, pair)
            yield [JudgeTask(item, tuple(known), votes, answer_key=answer_key)]


class QuestionSource(Source):
    """Questions with all candidates that a rewarder has not fully judged.

    It follows generation in question order and waits at the first incomplete question until
    `generated()` returns that no more candidates will come, and until the model that reads has
    been asked about its candidates or, as `settled()` returns, will not be.
    """

    stage: ClassVar[Stage] = "judge"

    def __init__(
        self,
        setup: Setup,
        store: Store,
        policy: Loaded[PolicyCard],
        rewarder: Loaded[RewarderCard],
        *,
        generated: Callable[[], bool],
        settled: Callable[[], bool] = lambda: True,
    ) -> None:
        card, design = rewarder.card, setup.experiment.judging.design
        most = item_judging.max_calls(card, design, policy.card.n, card.votes)
        super().__init__(card.name, store.count("questions", "active > 0"), most)
        self._generated = generated
        self._settled = settled
        self._setup = setup
        self._store = store
        self._policy = policy
        self._rewarder = rewarder

    def steps(self) -> Iterator[list[Payload] | None]:
        """Yield each question with its judgements so far."""
        policy = self._policy
        for question in self._store.questions():
            n = self._setup.depth(policy, question.key, self._rewarder)
            while True:
                # Before the rows are read: what is missing then will never come.
                generated, settled = self._generated(), self._settled()
                pool = self._store.candidates(policy.spec, question.key, n)
                if (len(pool) == n or generated) and (settled or not self._to_read(question, pool)):
                    break
                yield None
            yield self._tasks(question, pool)

    def _to_read(self, question: Question, pool: list[Candidate]) -> bool:
        reader = self._setup.reader
        unit, _ = reading_unit(question, pool)
        return bool(reader and known_judgements(self._setup, self._store, reader, unit) is not None)

    def _tasks(self, question: Question, pool: list[Candidate]) -> list[Payload]:
        card = self._rewarder.card
        unit, usable = question_unit(self._setup, question, pool)
        known = known_judgements(self._setup, self._store, self._rewarder, unit)
        if known is None:
            return []
        answer_key = question_answer_key(card, question, usable)
        item = question_item(question, usable)
        return [JudgeTask(item, tuple(known), card.votes, unit.stakes, answer_key=answer_key)]


class GradeSource(QuestionSource):
    """Questions with answers that the model which grades has not graded."""

    stage = "grade"

    def _tasks(self, question: Question, pool: list[Candidate]) -> list[Payload]:
        unit, texts = grading_unit(question, pool)
        known = known_judgements(self._setup, self._store, self._rewarder, unit)
        if known is None:
            return []
        item = replace(
            question_item(question, []),
            key=unit.key,
            prompt=grading_prompt(question, question_block(question)),
            responses=texts,
        )
        answer_key = None
        if has_answer_key(self._rewarder.card):
            plain = replace(question, meta=question.meta | {"grader": "exact"})
            answer_key = {key: is_right(plain, text) for key, text in texts.items()}
        return [JudgeTask(item, tuple(known), self._rewarder.card.votes, answer_key=answer_key)]


class ReadSource(QuestionSource):
    """Questions with responses that rules leave unread and the model that reads has not seen."""

    stage = "read"

    def _tasks(self, question: Question, pool: list[Candidate]) -> list[Payload]:
        unit, texts = reading_unit(question, pool)
        known = known_judgements(self._setup, self._store, self._rewarder, unit)
        if known is None:
            return []
        return [JudgeTask(replace(question_item(question, []), responses=texts), tuple(known), 1)]


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
    if question.grader == BY_MODEL:  # its grades may still be missing
        question = replace(question, meta=question.meta | {"grader": "exact"})
    grades = grades_of(question, candidates)
    return {row.text_key: grade.right for row, grade in zip(candidates, grades, strict=True)}


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
