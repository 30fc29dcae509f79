"""A reward model that bon does not know: a class with one method.

python examples/own_rewarder.py [OUT]
"""

import sys

import bon
from bon import Rewarder, Verdict


class Shortest(Rewarder):
    """Prefers the shorter answer. A real one would load a model once and score with it."""

    arity = "one"  # a score for one response; "two" is a verdict, "many" a choice

    async def judge(self, item, shown, seeds):
        """One verdict per seed on the response shown."""
        (key,) = shown
        return [Verdict("scored", score=-float(len(item.responses[key])))] * len(seeds)


bon.register(Shortest)

if __name__ == "__main__":
    print(bon.score(Shortest, "Why is the sky blue?", ["Rayleigh scattering.", "It just is."]))

    settings = ["questions.limit=8", "pairs.limit=8", "policies.0.n=4"]
    own = "[mini-critic-a, {name: shortest, kind: python, python: Shortest, engine: none}]"
    out = sys.argv[1] if len(sys.argv) > 1 else "runs/own-rewarder"
    study = bon.demo(out, settings=[*settings, f"rewarders={own}"])
    print(study.tables.judgements.groupby("rewarder").score.describe())
