"""Responses sampled during a training, and their rewards: by a rewarder loaded beside the policy.

The rewarder judges a group of responses as in the run, with the same prompt, design and votes.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from bon.analysis.results import REFERENCES
from bon.choosing.opinion import KIND_OF, Candidates, item_opinion
from bon.core.errors import BonError
from bon.core.keys import content_key, item_seed, text_key
from bon.core.records import Candidate, Question
from bon.dispatch.worker import Host, JudgeTask, RewarderSpec
from bon.engines.base import Engine, Message
from bon.experiment.cards import Loaded
from bon.experiment.config import PolicyCard, Price
from bon.graders import Grade, grades
from bon.planning.setup import Setup
from bon.policies import generate
from bon.policies.extractors import extract_answer
from bon.policies.generate import Ask
from bon.rewarders.base import Item
from bon.rewarders.registry import rewarder_class

ValueT = TypeVar("ValueT")
Scores = dict[str, float]
"""Scores by text key, NaN left out."""


def live_rewarder(setup: Setup, name: str, *, required: bool = True) -> RewarderSpec | None:
    """Return the rewarder of an arm, None for a reference.

    Raises:
        BonError: it cannot judge responses that are new; None if it is not required.
    """
    if name in REFERENCES:
        return None
    spec = setup.specs()[name]
    assert isinstance(spec, RewarderSpec)
    card = spec.loaded.card
    if card.brought or isinstance(card.cost, Price):
        if not required:
            return None
        why = "its scores were imported" if card.brought else "every reply of it costs money"
        raise BonError(
            f"{name} cannot reward responses during a training here: {why}",
            "choose others by --rewarders, or train elsewhere: --export FOLDER",
        )
    return spec


def reward_key(name: str, spec: RewarderSpec | None) -> str:
    """Return what shapes the rewards of an arm."""
    return name if spec is None else content_key(spec.loaded.spec, spec.protocol.design)


@dataclass
class LiveRewards:
    """What a training samples and how it is rewarded (`bon.engines.tuning.Live`).

    Only the arm `oracle` holds right answers.
    """

    arm: str
    policy: Loaded[PolicyCard]
    questions: tuple[Question, ...]
    messages: tuple[tuple[Message, ...], ...]
    items: tuple[Item, ...]
    seed: int
    rewarder: RewarderSpec | None = None

    def __post_init__(self) -> None:
        if self.arm != "oracle":
            self.questions = tuple(
                replace(q, answer=None, meta={"grader": q.grader}) for q in self.questions
            )
        self._judge: Judge | None = None

    def respond(
        self, engine: Engine, indices: Sequence[int], step: int, count: int
    ) -> list[list[str | None]]:
        """Return `count` responses of each prompt; None for one that was cut short."""
        places, spec = tuple(range(count)), content_key("live", self.seed, step)

        async def all_groups() -> list[list[Candidate]]:
            asks = (
                Ask(self.questions[i].key, self.messages[i], self.questions[i].options, places)
                for i in indices
            )
            card = self.policy.card
            return await asyncio.gather(
                *(generate.sample(engine, card, spec, 0, ask) for ask in asks)
            )

        groups = asyncio.run(all_groups())
        return [[r.text if r.finish == "stop" else None for r in rows] for rows in groups]

    def rewards(
        self, indices: Sequence[int], texts: Sequence[Sequence[str | None]], step: int
    ) -> list[list[float | None]]:
        """Return the reward of each response; None where there is none."""
        if self.rewarder is None:
            rows = zip(indices, texts, strict=True)
            return [self._by_reference(self.questions[i], group, step) for i, group in rows]
        if self._judge is None:
            self._judge = Judge(self.rewarder)
        items = [
            replace(self.items[i], responses={text_key(t): t for t in group if t is not None})
            for i, group in zip(indices, texts, strict=True)
        ]
        scores = self._judge.scores(items)
        return [
            [None if t is None else known.get(text_key(t)) for t in group]
            for group, known in zip(texts, scores, strict=True)
        ]

    def _by_reference(
        self, question: Question, texts: Sequence[str | None], step: int
    ) -> list[float | None]:
        reader = self.policy.card.reader
        answers = [extract_answer(t or "", question.options, reader)[0] for t in texts]
        graded = grades(question, answers, [(text_key(t or ""), t) for t in texts])
        votes = Counter(grade.answer for grade in graded)
        draw = random.Random(item_seed(self.seed, question.key, step))

        def value(grade: Grade) -> float:
            if self.arm == "oracle":
                return float(grade.right)
            if self.arm == "random":
                return draw.random()
            return float(votes[grade.answer]) if grade.answer else 0.0

        return [
            None if text is None else value(grade)
            for text, grade in zip(texts, graded, strict=True)
        ]


class Judge:
    """A rewarder loaded in this process."""

    def __init__(self, spec: RewarderSpec) -> None:
        self._spec = spec
        self._host = Host({"rewarder": spec})
        self._loop = asyncio.new_event_loop()

    def scores(self, items: Sequence[Item]) -> list[Scores]:
        """Judge the responses of each item among each other; BonError if the model cannot run."""
        card = self._spec.loaded.card
        tasks = [JudgeTask(item, (), card.votes) for item in items if len(item.responses) > 1]
        reply = self._run(self._host.run("rewarder", tasks))
        if reply.failure:
            raise BonError(reply.failure)
        kind, judged = KIND_OF[rewarder_class(card).arity], []
        for item in items:
            rows = [row for row in reply.judgements if row.item == item.key]
            keys = list(item.responses)
            opinion = item_opinion(kind, rows, Candidates.of(item.key, keys))
            values = opinion.candidate_scores()[0].tolist() if rows else []
            judged.append({k: v for k, v in zip(keys, values, strict=bool(rows)) if v == v})
        return judged

    def close(self) -> None:
        """Free the model."""
        self._run(self._host.close())
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, ValueT]) -> ValueT:
        return self._loop.run_until_complete(work)


def win_shares(spec: RewarderSpec, items: list[Item]) -> list[float]:
    """Return by item whether the first response beats the second: 1, 0, or .5 for a tie."""
    judge = Judge(spec)
    rows = judge.scores(items)
    judge.close()
    shares = []
    for item, scores in zip(items, rows, strict=True):
        first, *rest = item.responses
        if not rest:
            shares.append(0.5)
        elif len(scores) == len(item.responses):
            shares.append(0.5 + 0.5 * float(np.sign(scores[first] - scores[rest[0]])))
    return shares
