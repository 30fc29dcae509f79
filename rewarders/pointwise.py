"""A generative critic that reads one response and gives it a score or a yes/no verdict."""

from bon.engines.base import GenerateRequest
from bon.rewarders.asking import Shown, was_cut
from bon.rewarders.base import Item, Rewarder, Verdict
from bon.rewarders.replies import read_score

ALTERNATIVES = 20  # what most OpenAI-compatible endpoints allow


class PointwiseCritic(Rewarder):
    """Template names: `prompt`, `response`. Parsed with the card's `score` rule."""

    arity = "one"

    async def judge(
        self, item: Item, shown: tuple[str, ...], seeds: tuple[int, ...]
    ) -> list[Verdict]:
        """One generation per seed, all in one request."""
        assert self.card.score is not None
        rule = self.card.score
        (response,) = shown
        quoted = Shown(self.prompt, rule.pattern, [item.responses[response]])
        messages = self.turns(item, response=quoted.shown[0])
        words = (rule.yes[0], rule.no[0]) if rule.yes else tuple(rule.values)
        right = item.correct.get(response)
        expected = words[0 if right else 1] if right is not None and len(words) == 2 else None
        generation = await self.engine.generate(
            GenerateRequest(
                messages,
                self.card.sampling,
                seeds,
                logprobs=ALTERNATIVES if rule.yes else 0,
                choices=words,
                expected=expected,
            )
        )
        share = 1 / len(seeds)
        verdicts = []
        for sample in generation.samples:
            read = read_score(sample, rule, cut=was_cut(sample, self.card.sampling))
            verdicts.append(
                Verdict(
                    "unparsed" if read.score is None else "scored",
                    score=read.score,
                    text=sample.text,
                    num_tokens=sample.num_tokens,
                    num_prompt_tokens=generation.num_prompt_tokens,
                    cost=generation.cost * share,
                    reason=quoted.note(read.reason),
                )
            )
        return verdicts
