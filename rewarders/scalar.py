"""Rewarders that read a response without writing anything: a reward head, or a likelihood."""

import math

from bon.engines.base import Message, ScoreRequest
from bon.rewarders.base import Item, Rewarder, Verdict


class ScalarHead(Rewarder):
    """The raw output of a checkpoint's reward head on (user turn, response)."""

    arity = "one"

    async def judge(
        self, item: Item, shown: tuple[str, ...], seeds: tuple[int, ...]
    ) -> list[Verdict]:
        """Deterministic: the same score for every seed."""
        reward = await self.engine.reward(_request(self, item, shown))
        verdict = scored(reward.score, reward.num_prompt_tokens)
        return [verdict] * len(seeds)


class MeanLikelihood(Rewarder):
    """Mean natural log-probability per token of the response, under the card's model."""

    arity = "one"

    async def judge(
        self, item: Item, shown: tuple[str, ...], seeds: tuple[int, ...]
    ) -> list[Verdict]:
        """Deterministic: the same score for every seed."""
        likelihood = await self.engine.likelihood(_request(self, item, shown))
        mean = likelihood.logprob / max(1, likelihood.num_tokens)
        verdict = scored(mean, likelihood.num_prompt_tokens)
        return [verdict] * len(seeds)


def _request(rewarder: Rewarder, item: Item, shown: tuple[str, ...]) -> ScoreRequest:
    (response,) = shown
    messages = (
        *rewarder.turns(item),
        Message("assistant", item.parts(item.responses[response])),
    )
    return ScoreRequest(messages, expected=item.correct.get(response))


def scored(score: float, num_prompt_tokens: int) -> Verdict:
    """A finite score as a verdict."""
    if not math.isfinite(score):
        raise ValueError(f"the model gave the score {score}")
    return Verdict("scored", score=score, num_prompt_tokens=num_prompt_tokens)
