"""A generative judge that reads several responses at once and names the best one."""

from bon.engines.base import GenerateRequest
from bon.rewarders.asking import Shown, was_cut
from bon.rewarders.base import Item, Rewarder, Verdict
from bon.rewarders.replies import read_choice


class ListwiseJudge(Rewarder):
    """Template names: `prompt`, `responses` (a list). `score` reads the number, from 1.

    The verdict's score is the place of the chosen response among those shown, from 0.
    """

    arity = "many"

    async def judge(
        self, item: Item, shown: tuple[str, ...], seeds: tuple[int, ...]
    ) -> list[Verdict]:
        """One generation per seed, all in one request."""
        assert self.card.score is not None
        rule = self.card.score
        quoted = Shown(self.prompt, rule.pattern, [item.responses[key] for key in shown])
        messages = self.turns(item, responses=quoted.shown)
        choices = tuple(str(place + 1) for place in range(len(shown)))
        right = [place for place, key in zip(choices, shown, strict=True) if item.correct.get(key)]
        generation = await self.engine.generate(
            GenerateRequest(
                messages,
                self.card.sampling,
                seeds,
                choices=choices,
                expected=right[0] if right else None,
            )
        )
        verdicts = []
        for sample in generation.samples:
            cut = was_cut(sample, self.card.sampling)
            read = read_choice(sample, rule, len(shown), cut=cut)
            verdicts.append(
                Verdict(
                    "unparsed" if read.score is None else "chosen",
                    score=read.score,
                    text=sample.text,
                    num_tokens=sample.num_tokens,
                    num_prompt_tokens=generation.num_prompt_tokens,
                    cost=generation.cost / len(seeds),
                    reason=quoted.note(read.reason),
                )
            )
        return verdicts
