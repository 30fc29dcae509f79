"""A generative judge that reads two responses and says which is better."""

from bon.engines.base import GenerateRequest
from bon.rewarders.asking import Shown, was_cut
from bon.rewarders.base import Item, Rewarder, Verdict
from bon.rewarders.replies import read_verdict


class PairwiseJudge(Rewarder):
    """Template names: `prompt`, `first`, `second`. Parsed with the card's `verdict` rule."""

    arity = "two"

    async def judge(
        self, item: Item, shown: tuple[str, ...], seeds: tuple[int, ...]
    ) -> list[Verdict]:
        """One generation per seed, all in one request."""
        assert self.card.verdict is not None
        rule = self.card.verdict
        first, second = shown
        quoted = Shown(self.prompt, rule.pattern, [item.responses[key] for key in shown])
        one, two = quoted.shown
        messages = self.turns(item, first=one, second=two)
        choices = (rule.first[0], rule.second[0])
        right = (item.correct.get(first, False), item.correct.get(second, False))
        expected = {(True, False): choices[0], (False, True): choices[1]}.get(right)
        generation = await self.engine.generate(
            GenerateRequest(messages, self.card.sampling, seeds, choices=choices, expected=expected)
        )
        share = 1 / len(seeds)
        verdicts = []
        for sample in generation.samples:
            read = read_verdict(sample.text, rule, cut=was_cut(sample, self.card.sampling))
            verdicts.append(
                Verdict(
                    read.outcome,
                    text=sample.text,
                    num_tokens=sample.num_tokens,
                    num_prompt_tokens=generation.num_prompt_tokens,
                    cost=generation.cost * share,
                    reason=quoted.note(read.reason),
                )
            )
        return verdicts
