"""A process reward model: one score for every step of a response, and one for all of them.

The score of a step is what the card's `score` rule reads there, such as P('+') / (P('+') +
P('-')). All steps are asked for at once: they share their beginning, which vLLM keeps.
"""

import asyncio
import math
from collections.abc import Callable, Sequence

from bon.core.errors import BonError
from bon.engines.base import GenerateRequest, Generation, Message
from bon.rewarders.asking import was_cut
from bon.rewarders.base import Item, Rewarder, Verdict
from bon.rewarders.pointwise import ALTERNATIVES
from bon.rewarders.replies import read_score

AGGREGATES: dict[str, Callable[[Sequence[float]], float]] = {
    "mean": lambda scores: sum(scores) / len(scores),
    "min": min,
    "product": math.prod,
    "last": lambda scores: scores[-1],
    "geometric": lambda scores: math.prod(scores) ** (1 / len(scores)),
}


def aggregated(name: str, scores: Sequence[float]) -> float | None:
    """All steps as one number; None where there is none (a geometric mean of negative scores)."""
    if name == "geometric" and min(scores) < 0:
        return None
    return AGGREGATES[name](scores)


def reaggregated(name: str, text: str) -> float | None:
    """The score that a judgement's stored steps make; None where a step was not read."""
    try:
        return aggregated(name, [float(step) for step in text.split()] or [math.nan])
    except ValueError:
        return None


class StepwiseCritic(Rewarder):
    """Template names: `prompt`, `steps` (those so far, with the current one), `step`, `number`.

    Options: `turns: true` is the form of models trained on a conversation: the template for
    the first step, then every further step as a user turn of its own, answered by the first
    `yes` word. `max_steps` joins neighbours where a response has more steps than that.
    """

    arity = "one"

    async def judge(
        self, item: Item, shown: tuple[str, ...], seeds: tuple[int, ...]
    ) -> list[Verdict]:
        """One generation a step and seed; a step that cannot be read leaves no score."""
        (response,) = shown
        steps = self._steps(item.responses[response])
        right = item.correct.get(response)
        replies = await asyncio.gather(
            *(self._ask(item, steps[: place + 1], right, seeds) for place in range(len(steps)))
        )
        return [self._verdict(replies, place) for place in range(len(seeds))]

    def _steps(self, response: str) -> list[str]:
        parts = response.split(self.card.step_separator)
        steps = [part.strip() for part in parts if part.strip()] or [response.strip()]
        most = self.card.options.get("max_steps", len(steps))
        size = math.ceil(len(steps) / most)
        groups = [steps[at : at + size] for at in range(0, len(steps), size)]
        return [self.card.step_separator.join(group) for group in groups]

    async def _ask(
        self, item: Item, steps: list[str], right: bool | None, seeds: tuple[int, ...]
    ) -> Generation:
        rule = self.card.score
        assert rule is not None
        words = (rule.yes[0], rule.no[0]) if rule.yes else tuple(rule.values)
        expected = words[0 if right else 1] if right is not None and len(words) == 2 else None
        return await self.engine.generate(
            GenerateRequest(
                self._messages(item, steps),
                self.card.sampling,
                seeds,
                logprobs=ALTERNATIVES if rule.yes else 0,
                choices=words,
                expected=expected,
            )
        )

    def _messages(self, item: Item, steps: list[str]) -> tuple[Message, ...]:
        if not self.card.options.get("turns"):
            return self.turns(item, steps=steps, step=steps[-1], number=len(steps))
        assert self.card.score is not None
        if not self.card.score.yes:
            raise BonError(
                f"card {self.card.name!r}: options.turns needs the word that answers a good step",
                "set score: {yes: [+], no: [-]}",
            )
        messages = [*self.turns(item, steps=steps[:1], step=steps[0], number=1)]
        for step in steps[1:]:
            messages += [
                Message("assistant", (self.card.score.yes[0],)),
                Message("user", item.parts(step)),
            ]
        return tuple(messages)

    def _verdict(self, replies: Sequence[Generation], place: int) -> Verdict:
        rule, sampling = self.card.score, self.card.sampling
        assert rule is not None
        samples = [reply.samples[place] for reply in replies]
        read = [read_score(one, rule, cut=was_cut(one, sampling)) for one in samples]
        scores = [one.score for one in read]
        unread = [f"step {at}: {one.reason}" for at, one in enumerate(read, 1) if one.reason]
        known = [score for score in scores if score is not None]
        whole = len(known) == len(scores)
        return Verdict(
            "scored" if whole else "unparsed",
            score=aggregated(self.card.aggregate, known) if whole else None,
            text=" ".join("?" if score is None else f"{score:.4f}" for score in scores),
            num_tokens=sum(sample.num_tokens for sample in samples),
            num_prompt_tokens=sum(reply.num_prompt_tokens for reply in replies),
            cost=sum(reply.cost / len(reply.samples) for reply in replies),
            reason=unread[0] if unread else "",
        )
