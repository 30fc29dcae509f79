"""A multimodal reranker: how well a response meets a question, as documents are ranked."""

from bon.engines.base import RankRequest
from bon.rewarders.base import Item, Rewarder, Verdict
from bon.rewarders.scalar import scored


class Reranker(Rewarder):
    """The raw score of (query: the question with its images, document: the response).

    Options: `instruction`, which such models are trained to follow. Template names:
    `instruction`, `query`, `document`; it is the model's own layout, which an endpoint has as
    its `--chat-template`.
    """

    arity = "one"

    async def judge(
        self, item: Item, shown: tuple[str, ...], seeds: tuple[int, ...]
    ) -> list[Verdict]:
        """Deterministic: the same score for every seed."""
        (response,) = shown
        ranked = await self.engine.rank(
            RankRequest(
                query=(*item.images, *item.parts(item.prompt)),
                document=item.parts(item.responses[response]),
                instruction=str(self.card.options.get("instruction", "")),
                template=self.prompt.text,
                expected=item.correct.get(response),
            )
        )
        return [scored(ranked.score, ranked.num_prompt_tokens)] * len(seeds)
