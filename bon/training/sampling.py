"""What is sampled of a policy that is being trained, and who prefers what it says afterwards."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bon.choosing.opinion import KIND_OF, Candidates, item_opinion
from bon.core.errors import BonError
from bon.core.keys import content_key
from bon.core.records import Candidate
from bon.dispatch.worker import Host, JudgeTask, ModelSpec, Reply
from bon.engines.base import Engine, Message
from bon.experiment.cards import Loaded
from bon.experiment.config import PolicyCard
from bon.policies import generate
from bon.policies.generate import Ask
from bon.rewarders.base import Item
from bon.rewarders.registry import rewarder_class


@dataclass(frozen=True)
class Sampler:
    """Samples a policy during its training (`bon.engines.tuning.Respond`).

    `prompts`: key, messages and options of each question.
    """

    policy: Loaded[PolicyCard]
    prompts: tuple[tuple[str, tuple[Message, ...], tuple[str, ...]], ...]
    seed: int

    def __call__(self, engine: Engine, indices: Sequence[int], step: int) -> list[str | None]:
        """Sample a response to each prompt; None for one that was cut short."""
        spec = content_key("live", self.seed, step)

        async def sampled() -> list[list[Candidate]]:
            asks = (Ask(*self.prompts[i], (0,)) for i in indices)
            return await asyncio.gather(
                *(generate.sample(engine, self.policy.card, spec, 0, ask) for ask in asks)
            )

        return [row.text if row.finish == "stop" else None for (row,) in asyncio.run(sampled())]


def win_shares(spec: ModelSpec, items: list[Item]) -> list[float]:
    """Return by item whether the first response beats the second: 1, 0, or .5 for a tie.

    Items that the rewarder leaves undecided are left out; BonError if it cannot run.
    """
    card = spec.loaded.card

    async def judged() -> Reply:
        host = Host({"rewarder": spec})
        tasks = [JudgeTask(item, (), card.votes) for item in items if len(item.responses) > 1]
        try:
            return await host.run("rewarder", tasks)
        finally:
            await host.close()

    reply = asyncio.run(judged())
    if reply.failure:
        raise BonError(reply.failure)
    kind, shares = KIND_OF[rewarder_class(card).arity], []
    for item in items:
        rows = [row for row in reply.judgements if row.item == item.key]
        if len(item.responses) < 2:
            shares.append(0.5)
        elif rows:
            opinion = item_opinion(kind, rows, Candidates.of(item.key, list(item.responses)))
            first, second, *_ = opinion.candidate_scores()[0]
            if np.isfinite([first, second]).all():
                shares.append(0.5 + 0.5 * float(np.sign(first - second)))
    return shares
