"""One rule on one question: the chosen answer and the order of the others."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from bon.choosing.opinion import Floats, Opinion
from bon.choosing.rules import Rule
from bon.core.keys import item_seed


@dataclass(frozen=True)
class Ranking:
    """A ranking of N answers.

    order: indexes of the answers, best first; `order[0]` is chosen.
    probabilities: the rule's choice probability of each answer; ties share.
    scores: mean score, number of times chosen or share of comparisons won of each answer; None
        where no reply could be parsed.
    rule: name of the selection rule.
    """

    order: tuple[int, ...]
    probabilities: tuple[float, ...]
    scores: tuple[float | None, ...]
    rule: str

    @property
    def best(self) -> int:
        """Index of the chosen answer."""
        return self.order[0]


def rank(rule: Rule, opinion: Opinion) -> Ranking | None:
    """Rank the candidates of one question; None where the rule lacks judgements.

    A tie for the first place is broken by a seed of the question, the rule and the texts.
    """
    shares = rule.choose(opinion)[0]
    if np.isnan(shares).any():
        return None
    scores = opinion.candidate_scores()[0]
    candidates = opinion.candidates
    best = pick(shares, candidates.items[0], rule.name, *candidates.keys[0])
    low = np.where(np.isnan(scores), -np.inf, scores)
    order = sorted(range(candidates.size), key=lambda i: (i != best, -shares[i], -low[i], i))
    return Ranking(
        tuple(order),
        tuple(float(p) for p in shares),
        tuple(None if np.isnan(score) else float(score) for score in scores),
        rule.name,
    )


def pick(probabilities: Floats, *key: Any) -> int:
    """Draw a candidate with a generator seeded by the key alone."""
    rng = np.random.default_rng(item_seed("pick", *key))
    return int(rng.choice(len(probabilities), p=probabilities))
