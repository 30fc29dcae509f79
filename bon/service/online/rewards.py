"""Rewards for trainers: the judging of online Best-of-N, in groups, scaled and logged."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from bon.choosing.rules import RULES
from bon.core.records import Judgement
from bon.service.online.group_batching import Groups
from bon.service.online.question_sets import QuestionSets
from bon.service.online.reward_log import RatedGroup, RewardLog
from bon.service.online.reward_scaling import (
    TRIVIAL,
    Floats,
    OnUnparsed,
    Scale,
    consistency,
    filled,
    mean_score,
    parsed_share,
    scaled,
)
from bon.service.online.selector import Conversation, Selector, Usage


@dataclass(frozen=True, slots=True)
class RewardOptions:
    """How a request's responses are rewarded.

    group: responses of a question judged together, 1 for those of one request. wait: seconds that
    responses are held for one another.
    """

    owner: str
    run: str
    rewarder: str
    rule: str
    scale: Scale
    on_unparsed: OnUnparsed
    group: int
    wait: float


@dataclass(frozen=True, slots=True)
class Rollout:
    """A response and its question."""

    question: Conversation
    text: str


@dataclass(frozen=True, slots=True)
class Reward:
    """A sample's reward, if any, and the group it was judged in."""

    value: float | None
    group: RatedGroup


class RewardJudge:
    """Judges rollouts; shared by the reward routes."""

    def __init__(self, selector: Selector, sets: QuestionSets, log: RewardLog) -> None:
        self.sets = sets
        self.log = log
        self.groups: Groups[RatedGroup] = Groups()
        self._selector = selector

    async def rewards(
        self, options: RewardOptions, samples: Sequence[Rollout], usage: Usage
    ) -> list[Reward]:
        """Return a reward per sample, in their order; `usage` counts this request's share."""
        by_question: dict[str, list[int]] = {}
        for i, sample in enumerate(samples):
            by_question.setdefault(sample.question.key, []).append(i)
        size = options.group if options.group > 1 else len(samples)
        groups = [
            indices[start : start + size]
            for indices in by_question.values()
            for start in range(0, len(indices), size)
        ]
        # A batch uses what a model does at once: it must not fill the model's queue by itself.
        slots = asyncio.Semaphore(self._selector.online.scaling.max_ongoing_requests)
        rewards: dict[int, Reward] = {}

        async def judge(group: list[int]) -> None:
            rated = await self._group(options, [samples[i] for i in group], usage, slots)
            rewards.update(zip(group, rated, strict=True))

        await asyncio.gather(*map(judge, groups))
        return [rewards[i] for i in range(len(samples))]

    async def _group(
        self,
        options: RewardOptions,
        samples: Sequence[Rollout],
        usage: Usage,
        slots: asyncio.Semaphore,
    ) -> list[Reward]:
        question, texts = samples[0].question, [sample.text for sample in samples]

        async def judge(texts: list[str]) -> RatedGroup:
            async with slots:  # while judging, not while waiting for a group
                return await self._rate(options, question, texts)

        start = 0
        if options.group > len(texts):
            key = (options, question.key)
            rated, start = await self.groups.join(key, texts, options.group, options.wait, judge)
        else:
            rated = await judge(texts)
        share = len(texts) / len(rated.scores)
        usage.cost += rated.usage.cost * share
        usage.prompt_tokens += round(rated.usage.prompt_tokens * share)
        usage.completion_tokens += round(rated.usage.completion_tokens * share)
        usage.cached_judgements += round(rated.usage.cached_judgements * share)
        return [Reward(value, rated) for value in rated.rewards[start : start + len(texts)]]

    async def _rate(
        self, options: RewardOptions, question: Conversation, texts: list[str]
    ) -> RatedGroup:
        selector, rewarder, usage = self._selector, options.rewarder, Usage()
        kind = selector.kind(rewarder)
        scores: Floats
        probabilities: Sequence[float] = [1 / len(texts)] * len(texts)
        rows: list[Judgement] = []
        copies = len(set(texts)) == 1  # nothing to compare with
        if copies and kind == "scores":
            rows = await selector.judge(rewarder, options.rule, question, texts, usage)
            scores = [mean_score(rows)] * len(texts)
        elif copies:
            scores = [TRIVIAL[kind] if len(texts) > 1 else None] * len(texts)
        else:
            choice = await selector.choose(rewarder, options.rule, question, texts, usage)
            scores, probabilities = list(choice.ranking.scores), choice.ranking.probabilities
            rows = choice.judgements
        rated = RatedGroup(
            scores,
            filled(scaled(options.scale, kind, scores, probabilities), options.on_unparsed),
            len(rows),
            parsed_share(rows),
            consistency(rows),
            usage,
            len(question.images),
        )
        shared = (
            options.owner,
            options.run,
            rewarder,
            selector.rewarder(rewarder).spec,
            options.rule,
            options.scale,
        )
        await self.log.add(shared, question, texts, rows, rated)
        return rated


def needs_group(selector: Selector, rewarder: str, rule: str) -> bool:
    """Whether one response alone cannot be judged."""
    return selector.kind(rewarder) != "scores" and RULES[rule].judged
