"""Rewarders that score without generating: reward heads, likelihoods and rerankers."""

import math
from abc import abstractmethod

from bon.engines.base import Message, RankRequest, ScoreRequest
from bon.experiment.config import RerankOptions
from bon.rewarders.base import Item, Rewarder, Seeds, Shown, Verdict


class ScoringRewarder(Rewarder):
    """Deterministic: one score for every seed."""

    arity = "one"

    @abstractmethod
    async def _score(self, item: Item, response: str) -> Verdict:
        """Return the score of a response as a verdict."""

    async def judge(self, item: Item, shown: Shown, seeds: Seeds) -> list[Verdict]:
        """Score once; a score that is not finite is an error."""
        (key,) = shown
        return [await self._score(item, item.responses[key])] * len(seeds)

    def _conversation(self, item: Item, response: str) -> ScoreRequest:
        return ScoreRequest((*self.turns(item), Message("assistant", item.parts(response))))


class ScalarHead(ScoringRewarder):
    """Raw output of a checkpoint's reward head on (user turn, response)."""

    async def _score(self, item: Item, response: str) -> Verdict:
        reward = await self.engine.reward(self._conversation(item, response))
        return scored(reward.score, reward.num_prompt_tokens)


class MeanLikelihood(ScoringRewarder):
    """Mean natural log-probability per token of the response under the card's model."""

    async def _score(self, item: Item, response: str) -> Verdict:
        likelihood = await self.engine.likelihood(self._conversation(item, response))
        mean = likelihood.logprob / max(1, likelihood.num_tokens)
        return scored(mean, likelihood.num_prompt_tokens)


class Reranker(ScoringRewarder):
    """Raw relevance score of the response (document) for the question and its images (query).

    Options: `instruction`. The prompt is the model's own layout over `instruction`, `query` and
    `document`; an endpoint has it as its `--chat-template`.
    """

    async def _score(self, item: Item, response: str) -> Verdict:
        query, document = (*item.images, *item.parts(item.prompt)), item.parts(response)
        assert isinstance(self.card.options, RerankOptions)
        request = RankRequest(query, document, self.card.options.instruction, self.prompt.text)
        reward = await self.engine.rank(request)
        return scored(reward.score, reward.num_prompt_tokens)


def scored(score: float, num_prompt_tokens: int = 0, text: str = "") -> Verdict:
    """Return a finite score as a verdict."""
    if not math.isfinite(score):
        raise ValueError(f"the model returned the score {score}")
    return Verdict("scored", score=score, text=text, num_prompt_tokens=num_prompt_tokens)
