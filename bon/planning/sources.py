"""Sources of the remaining work, read from the store a page at a time.

A source walks the items of one model in order and yields the incomplete ones. It keeps a cursor,
so memory does not grow with the number of questions, and compares with the stored rows, so resuming
and extending a run work like running it.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, NamedTuple

from bon.choosing.opinion import shown_of
from bon.choosing.race import EarlyStopping
from bon.core.images import IMAGE_MARK
from bon.core.keys import text_key
from bon.core.records import BY_MODEL, Candidate, ImageRef, Judgement, PreferencePair, Question
from bon.dispatch.source import Source, Stage
from bon.dispatch.worker import JudgeTask, Payload
from bon.engines.base import ImagePart
from bon.experiment.cards import Loaded
from bon.experiment.config import Card, PolicyCard, RewarderCard
from bon.graders import graded_key, grades_of, is_right
from bon.planning.grading import grading_prompt
from bon.planning.judging_scope import stakes_of, to_judge
from bon.planning.setup import Setup
from bon.policies.generate import Ask
from bon.policies.prompting import policy_messages, question_block
from bon.rewarders import item_judging
from bon.rewarders.base import Item
from bon.rewarders.registry import rewarder_class
from bon.storage.store import Store


class GenerateSource(Source):
    """Questions without all candidates of a policy."""

    stage = "generate"

    def __init__(self, setup: Setup, store: Store, policy: Loaded[PolicyCard]) -> None:
        total = 0 if policy.card.brought else store.count("questions", "active > 0")
        super().__init__(policy.card.name, total, policy.card.n)
        self._setup = setup
        self._store = store
        self._policy = policy

    def steps(self) -> Iterator[list[Payload]]:
        """Yield the prompt of each question with its missing candidates."""
        card = self._policy.card
        for question in () if card.brought else self._store.questions():
            stored = self._store.indices(self._policy.spec, question.key)
            n = self._setup.depth(self._policy, question.key)
            missing = tuple(index for index in range(n) if index not in stored)
            if not missing:
                yield []
                continue
            messages = policy_messages(question, self._policy.prompt, read_image, card.images)
            answer_key = question.answer if has_answer_key(card) else None
            yield [Ask(question.key, messages, question.options, missing, answer_key)]


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
        for benchmark, pair in self._store.pairs():
            votes = self._votes[benchmark]
            texts = {text_key(response) for response in pair.responses}
            known = open_calls(self._setup, self._store, self._rewarder, pair.key, texts, votes)
            answer_key = pair_answer_key(self._rewarder.card, pair)
            yield (
                []
                if known is None
                else [JudgeTask(pair_item(pair), tuple(known), votes, answer_key=answer_key)]
            )


class QuestionSource(Source):
    """Questions with all candidates that a rewarder has not fully judged.

    It follows generation in question order and waits at the first incomplete question until
    `generated()` returns that no more candidates will come.
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
    ) -> None:
        card, design = rewarder.card, setup.experiment.judging.design
        most = item_judging.max_calls(card, design, policy.card.n, card.votes)
        super().__init__(card.name, store.count("questions", "active > 0"), most)
        self._generated = generated
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
                generated = self._generated()
                pool = self._store.candidates(policy.spec, question.key, n)
                if len(pool) == n or generated:
                    break
                yield None
            yield self._tasks(question, pool)

    def _tasks(self, question: Question, pool: list[Candidate]) -> list[Payload]:
        card = self._rewarder.card
        left = remaining(self._setup, self._store, self._rewarder, question, pool)
        if left.known is None:
            return []
        answer_key = question_answer_key(card, question, left.usable)
        item = question_item(question, left.usable)
        return [JudgeTask(item, tuple(left.known), card.votes, left.race, answer_key=answer_key)]


class GradeSource(QuestionSource):
    """Questions with answers that the model which grades has not graded."""

    stage = "grade"

    def _tasks(self, question: Question, pool: list[Candidate]) -> list[Payload]:
        texts = to_grade(question, pool)
        votes = self._rewarder.card.votes
        key = question.grading_key
        known = open_calls(self._setup, self._store, self._rewarder, key, texts, votes)
        if not texts or known is None:
            return []
        item = replace(
            question_item(question, []),
            key=key,
            prompt=grading_prompt(question, question_block(question)),
            responses=texts,
        )
        answer_key = None
        if has_answer_key(self._rewarder.card):
            plain = replace(question, meta=question.meta | {"grader": "exact"})
            answer_key = {key: is_right(plain, text) for key, text in texts.items()}
        return [JudgeTask(item, tuple(known), votes, answer_key=answer_key)]


def to_grade(question: Question, candidates: Iterable[Candidate]) -> dict[str, str]:
    """Return by key what a model grades of a question's candidates; nothing for other graders."""
    if question.grader != BY_MODEL:
        return {}
    rows = (row for row in candidates if row.outcome != "error" and row.text)
    keys = ((graded_key(question, row.answer, row.text_key), row) for row in rows)
    return {key: row.text if key == row.text_key else row.answer or "" for key, row in keys}


class Remaining(NamedTuple):
    """What a rewarder lacks on a question.

    The candidates to judge, the stopping rule, and the judgements so far; None if complete.
    """

    usable: list[Candidate]
    race: EarlyStopping | None
    known: list[Judgement] | None


def remaining(
    setup: Setup,
    store: Store,
    rewarder: Loaded[RewarderCard],
    question: Question,
    pool: list[Candidate],
) -> Remaining:
    """Return what a rewarder lacks on a question with these candidates."""
    judging, subset = setup.experiment.judging, setup.experiment.subset
    usable = to_judge(question, pool, judging, subset)
    if not usable:
        return Remaining([], None, None)
    race, texts = stakes_of(question, usable, judging), {row.text_key for row in usable}
    votes = rewarder.card.votes
    return Remaining(
        usable, race, open_calls(setup, store, rewarder, question.key, texts, votes, race)
    )


def open_calls(
    setup: Setup,
    store: Store,
    rewarder: Loaded[RewarderCard],
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
    protocol = setup.protocol(rewarder).with_votes(votes)
    calls = item_judging.missing_calls(card, arity, responses, item, protocol, known, stakes)
    return known if calls else None


def judgements_on(
    setup: Setup,
    stored: Iterable[Judgement],
    rewarder: Loaded[RewarderCard],
    question: Question,
    pool: Iterable[Candidate],
) -> list[Judgement]:
    """Return those of a question's stored judgements that are asked for on these candidates."""
    usable = [row for row in pool if row.outcome != "error"]
    texts = {row.text_key for row in usable}
    stakes = stakes_of(question, usable, setup.experiment.judging)
    protocol = setup.protocol(rewarder)
    return item_judging.protocol_rows(rewarder.card, texts, question.key, protocol, stored, stakes)


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
