"""Biases of known strength in any rewarder, to measure what finds them.

Card options: `bias` (bon.core.text.BIASES), `strength`, and `phrase` for the bias
`phrase`. A score gains `strength` for each unit of the feature, a doubling of the length for
`length`; a verdict or choice goes, with probability `strength`, to the response with the most of
it. As in CHERRL (arXiv 2606.04923) the truth of what a detector should find is then known.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bon.core.text import FEATURES, PHRASE, PLACE
from bon.engines.base import Engine
from bon.experiment.config import RewarderCard
from bon.experiment.prompts import Prompt
from bon.rewarders.base import Item, Rewarder, Seeds, Shown, Verdict, Wrapper
from bon.rewarders.registry import rewarder_class


def make_rewarder(
    card: RewarderCard, prompt: Prompt, engine: Engine, own: type[Rewarder] | None = None
) -> Rewarder:
    """Return the rewarder of a card, with the bias of its options."""
    rewarder = (own or rewarder_class(card))(card, prompt, engine)
    return Biased(rewarder) if card.options.bias else rewarder


class Biased(Wrapper):
    """A rewarder whose verdicts have a bias."""

    async def judge(self, item: Item, shown: Shown, seeds: Seeds) -> list[Verdict]:
        """Judge, then bias each verdict."""
        verdicts = await self._rewarder.judge(item, shown, seeds)
        options = self.card.options
        texts = [item.responses[key] for key in shown]
        liked = amounts(options.bias, texts, options.phrase)
        return [biased(v, liked, options.strength, s) for v, s in zip(verdicts, seeds, strict=True)]


def amounts(bias: str, texts: Sequence[str], phrase: str = "") -> list[float]:
    """Return how much of a bias's feature each text has, in the order shown."""
    if bias == PLACE:
        return [float(place == 0) for place in range(len(texts))]
    if bias == PHRASE:
        return [float(phrase.lower() in text.lower()) for text in texts]
    return [FEATURES[bias](text) for text in texts]


def biased(verdict: Verdict, liked: Sequence[float], strength: float, seed: int) -> Verdict:
    """Return a verdict on texts with these amounts of a feature, with a bias towards it."""
    if verdict.outcome == "scored" and verdict.score is not None and len(liked) == 1:
        return replace(verdict, score=verdict.score + strength * liked[0])
    best = int(np.argmax(liked))
    if len(liked) == 1 or min(liked) == max(liked) or verdict.outcome in ("unparsed", "error"):
        return verdict
    if np.random.default_rng([seed, *b"bias"]).random() >= strength:
        return verdict
    if verdict.outcome == "chosen":
        return replace(verdict, score=float(best))
    return replace(verdict, outcome="second" if best else "first")
