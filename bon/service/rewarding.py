"""Rewards for trainers: the same judging as online Best-of-N, by groups, scaled, written down."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from bon.choosing.rules import RULES
from bon.core.records import Judgement
from bon.service.online import Conversation, Selector, Usage
from bon.service.question_sets import QuestionSets
from bon.service.ratings import (
    TRIVIAL,
    Floats,
    OnUnparsed,
    Rated,
    Scale,
    consistency,
    filled,
    mean_score,
    parsed_share,
    scaled,
)
from bon.service.rendezvous import Groups
from bon.service.reward_log import RewardLog


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a request wants of its responses.

    owner, run: whose training it is. group: responses of a question that are judged together, 1
    to judge what one request brings. wait: seconds that they are held for one another.
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
    """A response and what it answers."""

    asked: Conversation
    text: str


@dataclass(frozen=True, slots=True)
class Given:
    """The reward of one sample, None where there is none, and the group that gave it."""

    value: float | None
    group: Rated


class Rewarding:
    """What the reward routes share."""

    def __init__(self, selector: Selector, sets: QuestionSets, log: RewardLog) -> None:
        self.sets = sets
        self.log = log
        self.groups = Groups()
        self._selector = selector

    async def rewards(
        self, wanted: Wanted, samples: Sequence[Rollout], usage: Usage
    ) -> list[Given]:
        """One per sample, in their order; `usage` is charged this request's share."""
        places: dict[str, list[int]] = {}
        for at, sample in enumerate(samples):
            places.setdefault(sample.asked.key, []).append(at)
        size = wanted.group if wanted.group > 1 else len(samples)
        parts = [
            together[start : start + size]
            for together in places.values()
            for start in range(0, len(together), size)
        ]
        # A batch works on as much as a model does at once: it must not fill its queue by itself.
        free = asyncio.Semaphore(self._selector.online.scaling.max_ongoing_requests)
        found = await asyncio.gather(
            *(self._part(wanted, [samples[at] for at in part], usage, free) for part in parts)
        )
        by_place = {
            at: reward
            for part, rewards in zip(parts, found, strict=True)
            for at, reward in zip(part, rewards, strict=True)
        }
        return [by_place[at] for at in range(len(samples))]

    async def _part(
        self, wanted: Wanted, samples: Sequence[Rollout], usage: Usage, free: asyncio.Semaphore
    ) -> list[Given]:
        asked, texts = samples[0].asked, [sample.text for sample in samples]

        async def judge(texts: list[str]) -> Rated:
            async with free:  # while it judges, not while it waits for a group
                return await self._rate(wanted, asked, texts)

        if wanted.group > len(texts):
            key = (wanted, asked.key)
            rated, start = await self.groups.join(key, texts, wanted.group, wanted.wait, judge)
        else:
            rated, start = await judge(texts), 0
        share = len(texts) / len(rated.scores)
        usage.cost += rated.cost * share
        usage.prompt_tokens += round(rated.prompt_tokens * share)
        usage.completion_tokens += round(rated.completion_tokens * share)
        usage.cached_judgements += round(rated.cached * share)
        values = rated.rewards[start : start + len(texts)]
        return [Given(value, rated) for value in values]

    async def _rate(self, wanted: Wanted, asked: Conversation, texts: list[str]) -> Rated:
        kind = self._selector.kind(wanted.rewarder)
        usage = Usage()
        scores: Floats
        chances: Sequence[float] = [1 / len(texts)] * len(texts)
        rows: list[Judgement] = []
        alone = len(set(texts)) == 1  # nothing to compare with but copies
        if alone and kind == "scores":
            rows = await self._selector.judge(wanted.rewarder, wanted.rule, asked, texts, usage)
            scores = [mean_score(rows)] * len(texts)
        elif alone:
            scores = [TRIVIAL[kind] if len(texts) > 1 else None] * len(texts)
        else:
            choice = await self._selector.choose(wanted.rewarder, wanted.rule, asked, texts, usage)
            scores, chances = list(choice.ranking.scores), choice.ranking.probabilities
            rows = choice.judgements
        rated = Rated(
            scores,
            filled(scaled(wanted.scale, kind, scores, chances), wanted.on_unparsed),
            len(rows),
            parsed_share(rows),
            consistency(rows),
            usage.cached_judgements,
            usage.prompt_tokens,
            usage.completion_tokens,
            usage.cost,
            len(asked.images),
        )
        about = {
            "owner": wanted.owner, "run": wanted.run, "rewarder": wanted.rewarder,
            "spec": self._selector.rewarder(wanted.rewarder).spec,
            "rule": wanted.rule, "scale": wanted.scale,
        }  # fmt: skip
        await self.log.add(about, asked, texts, rows, rated)
        return rated


def needs_group(selector: Selector, rewarder: str, rule: str) -> bool:
    """Whether one response alone cannot be judged."""
    return selector.kind(rewarder) != "scores" and RULES[rule].judged
