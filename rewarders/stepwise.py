"""Process reward models: a score per step of a response, aggregated to one.

A step's score is what the card's `score` rule reads there, such as P('+') / (P('+') + P('-')). All
steps are requested at once: they share their prefix, which vLLM caches.
"""

import asyncio
import math
from collections.abc import Callable, Sequence

from bon.core.errors import BonError
from bon.engines.base import GenerateRequest, Generation, Message
from bon.experiment.config import StepwiseOptions
from bon.rewarders.base import Item, Rewarder, Seeds, Shown, Verdict
from bon.rewarders.generative import alternatives, score_words
from bon.rewarders.reply_parsing import read_score, was_cut

AGGREGATES: dict[str, Callable[[Sequence[float]], float]] = {
    "mean": lambda scores: sum(scores) / len(scores),
    "min": min,
    "product": math.prod,
    "last": lambda scores: scores[-1],
    "geometric": lambda scores: math.prod(scores) ** (1 / len(scores)),
}


def aggregate_steps(name: str, scores: Sequence[float]) -> float | None:
    """Aggregate step scores; None if undefined (a geometric mean of negative scores)."""
    return None if name == "geometric" and min(scores) < 0 else AGGREGATES[name](scores)


def reaggregate(name: str, text: str) -> float | None:
    """Aggregate the step scores that a judgement stores as text; None if a step is unparsed."""
    try:
        return aggregate_steps(name, [float(step) for step in text.split()] or [math.nan])
    except ValueError:
        return None


class StepwiseCritic(Rewarder):
    """Template: `prompt`, `steps` (up to the current one), `step`, `number`.

    Options: `turns: true` for models trained on a conversation: the template for the first step,
    then every further step as a user turn, answered by the first `yes` word. `max_steps` joins
    neighbouring steps of longer responses.
    """

    arity = "one"

    @property
    def _options(self) -> StepwiseOptions:
        assert isinstance(self.card.options, StepwiseOptions)
        return self.card.options

    async def judge(self, item: Item, shown: Shown, seeds: Seeds) -> list[Verdict]:
        """Generate once per step and seed; an unparsed step leaves no score."""
        (key,) = shown
        steps = self._steps(item.responses[key])
        rule = self.card.score
        options = self.card.sampling, seeds, alternatives(rule), score_words(rule)
        prompts = (self._messages(item, steps[:end]) for end in range(1, len(steps) + 1))
        requests = [GenerateRequest(messages, *options) for messages in prompts]
        replies = await asyncio.gather(*map(self.engine.generate, requests))
        return [self._verdict(replies, vote) for vote in range(len(seeds))]

    def _steps(self, response: str) -> list[str]:
        separator = self.card.step_separator
        steps = response.split(separator)
        if not self._options.turns:  # those models read steps as they were written
            steps = [step.strip() for step in steps if step.strip()] or [response.strip()]
        size = math.ceil(len(steps) / (self._options.max_steps or len(steps)))
        return [separator.join(steps[at : at + size]) for at in range(0, len(steps), size)]

    def _messages(self, item: Item, steps: list[str]) -> tuple[Message, ...]:
        if not self._options.turns:
            return self.turns(item, steps=steps, step=steps[-1], number=len(steps))
        if self.card.score is None or not self.card.score.yes:
            raise BonError(
                f"card {self.card.name!r}: options.turns needs the reply that marks a good step",
                "set score: {yes: [+], no: [-]}",
            )
        messages = self.turns(item, steps=steps[:1], step=steps[0], number=1)
        good = Message("assistant", (self.card.score.yes[0],))
        for step in steps[1:]:
            messages += (good, Message("user", item.parts(step)))
        return messages

    def _verdict(self, replies: Sequence[Generation], vote: int) -> Verdict:
        rule, sampling = self.card.score, self.card.sampling
        assert rule is not None
        samples = [reply.samples[vote] for reply in replies]
        readings = [read_score(s, rule, cut=was_cut(s, sampling)) for s in samples]
        known = [reading.score for reading in readings if reading.score is not None]
        complete = len(known) == len(readings)
        reasons = (f"step {i}: {read.reason}" for i, read in enumerate(readings, 1) if read.reason)
        return Verdict(
            "scored" if complete else "unparsed",
            score=aggregate_steps(self.card.aggregate, known) if complete else None,
            text=" ".join("?" if r.score is None else f"{r.score:.4f}" for r in readings),
            num_tokens=sum(sample.num_tokens for sample in samples),
            num_prompt_tokens=sum(reply.num_prompt_tokens for reply in replies),
            cost=sum(reply.cost / len(reply.samples) for reply in replies),
            reason=next(reasons, ""),
        )
