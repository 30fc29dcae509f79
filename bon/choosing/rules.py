"""Selection rules: how an opinion becomes a choice. One table, read by everything that chooses.

`choose` is the definition: the choice probability (Q, M) of each candidate. Ties are broken
uniformly, so a tie of three gives ⅓ each; `pick` makes the seeded choice
where one is needed. NaN: a judgement that the rule needs is missing; nothing is imputed.
`replay` is the mean of `choose` over subsets of n candidates, computed faster. A rule without one
is replayed by choosing, so that a new rule is one entry here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bon.choosing.designs import Design
from bon.choosing.opinion import Floats, Kind, Opinion
from bon.choosing.race import settled_choice
from bon.choosing.replaying import Replayed, Trial, at_full_size, by_choosing, over_subsets, votes
from bon.choosing.subsets import best_of_n, rate_vote_values, round_robin_values
from bon.choosing.tallies import (
    beaten,
    best_if_complete,
    tied_best,
    vote_weights,
    weighted_vote,
    win_rate,
)
from bon.choosing.tournaments import alive_alike, winners
from bon.core.errors import BonError
from bon.core.keys import item_seed
from bon.core.registry import Registry

Choose = Callable[[Opinion], Floats]
Replay = Callable[[Opinion, Trial], Replayed]
Enough = Callable[[Opinion, Floats], Floats]
_READS = {
    "scores": "pointwise scores",
    "preferences": "pairwise verdicts",
    "choices": "listwise choices",
}
ANY: tuple[Kind, ...] = ("scores", "preferences", "choices")


@dataclass(frozen=True)
class Rule:
    """A selection rule.

    name: used in experiments, requests and reports.
    kinds: kinds of opinion that it reads.
    chooses: what it chooses, in a few words.
    choose: choice probabilities (Q, M) from an opinion.
    replay: expected value at every n; None: by choosing among every subset.
    designs: designs that judge all it needs; served under the first. A rule that needs less than
        all pairs is replayed from what was judged, at n = N.
    enough: where the value of the choice is certain before the choice is: a choice (Q, M) worth
        the same gold (Q, M); NaN where uncertain.
    judged: whether it reads judgements. `answers`: whether it counts answers.
    scaled: whether it needs the unit of scores, which only a run can tell.
    rank: the supported rule of lowest rank represents a rewarder.
    """

    name: str
    kinds: tuple[Kind, ...]
    chooses: str
    choose: Choose
    replay: Replay | None = None
    designs: tuple[Design, ...] = ("all_pairs",)
    enough: Enough | None = None
    judged: bool = True
    answers: bool = False
    scaled: bool = False
    rank: int = 99

    @property
    def reads(self) -> str:
        """What it needs, in words."""
        if not self.judged:
            return "answers alone"
        judgements = " or ".join(_READS[kind] for kind in self.kinds)
        return judgements + (", with answers" if self.answers else "")

    def replayed(self, opinion: Opinion, trial: Trial) -> Replayed | None:
        """Return the expected value at every n that was judged for; None where none was."""
        if self.judged:
            if (~opinion.complete & ~trial.constant).any():
                return self._replay_incomplete(opinion, trial)
            opinion = opinion.fill_ties(trial.constant)
        if self.replay is None:
            return by_choosing(self.choose, opinion, trial)
        return self.replay(opinion, trial)

    def _replay_incomplete(self, opinion: Opinion, trial: Trial) -> Replayed | None:
        if self.designs == ("all_pairs",) or trial.n != opinion.candidates.size:
            return None
        chosen = self.certain(opinion, trial.gold)
        unknown = np.isnan(chosen).any(axis=1)
        chosen[trial.constant & ~opinion.complete & unknown] = 1 / opinion.candidates.size
        return None if np.isnan(chosen).any() else at_full_size(chosen, trial)

    def certain(self, opinion: Opinion, gold: Floats) -> Floats:
        """Return the choice (Q, M), or one worth the same `gold` (Q, M); NaN where unknown."""
        chosen = self.choose(opinion)
        if self.enough is None or not np.isnan(chosen).any():
            return chosen
        unknown = np.isnan(chosen).any(axis=1, keepdims=True)
        return np.where(unknown, self.enough(opinion, gold), chosen)


def _scores(opinion: Opinion) -> Floats:
    assert opinion.scores is not None
    return opinion.scores


def _prefer(opinion: Opinion) -> Floats:
    assert opinion.prefer is not None
    return opinion.prefer


def _highest(opinion: Opinion) -> Floats:
    """The highest score or count; a candidate without one only if none has one."""
    return tied_best(_scores(opinion))


def _replay_win_rate(prefer: Floats, trial: Trial) -> Replayed:
    return over_subsets(round_robin_values(prefer, trial.gold, *trial.masks), trial)


def _weights(opinion: Opinion) -> Floats:
    if opinion.kind == "choices":
        return np.nan_to_num(_scores(opinion))
    assert opinion.scale is not None, "Rule.scaled"
    return vote_weights(_scores(opinion), opinion.scale)


def _weighted_vote(opinion: Opinion) -> Floats:
    answers = opinion.candidates.answers
    if opinion.kind != "preferences":
        return weighted_vote(answers, _weights(opinion))
    rates = win_rate(_prefer(opinion))
    complete = ~np.isnan(rates).any(axis=1, keepdims=True)
    return np.where(complete, weighted_vote(answers, rates), np.nan)


def _replay_weighted_vote(opinion: Opinion, trial: Trial) -> Replayed:
    if opinion.kind == "choices":
        return at_full_size(_weighted_vote(opinion), trial)
    if opinion.kind == "scores":
        return votes(_weights(opinion), trial)
    answers = opinion.candidates.answers
    values = rate_vote_values(answers, _prefer(opinion), trial.gold, *trial.masks)
    return over_subsets(values, trial)


def _equal(opinion: Opinion) -> Floats:
    return np.ones(opinion.candidates.answers.shape)


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


def rules_for(kind: Kind) -> list[Rule]:
    """Return the rules for a kind of opinion, in the order of the table."""
    return [rule for rule in RULES.values() if kind in rule.kinds]


def rule_of(kind: Kind, name: str | None, rewarder: str) -> Rule:
    """Return a rule that reads this kind of opinion, by default the first one."""
    rules = {rule.name: rule for rule in rules_for(kind)}
    if name is not None and name not in rules:
        raise BonError(
            f"{rewarder} cannot be used under the rule {name!r}", f"rules: {', '.join(rules)}"
        )
    return rules[name] if name else next(iter(rules.values()))


SHIPPED = (
    Rule(
        "best_score",
        ("scores",),
        "highest score; ties shared",
        _highest,
        lambda opinion, trial: Replayed(
            trial.ns, best_of_n(_scores(opinion), trial.gold, trial.ns), None
        ),
        rank=1,
    ),
    Rule(
        "listwise",
        ("choices",),
        "chosen most often",
        _highest,
        lambda opinion, trial: at_full_size(_highest(opinion), trial),
        rank=3,
    ),
    Rule(
        "round_robin",
        ("preferences",),
        "highest share of verdicts won",
        lambda opinion: best_if_complete(win_rate(_prefer(opinion))),
        lambda opinion, trial: _replay_win_rate(_prefer(opinion), trial),
        designs=("all_pairs", "race"),
        enough=settled_choice,
        rank=2,
    ),
    Rule(
        "copeland",
        ("preferences",),
        "most opponents beaten",
        lambda opinion: best_if_complete(win_rate(beaten(_prefer(opinion)))),
        lambda opinion, trial: _replay_win_rate(beaten(_prefer(opinion)), trial),
    ),
    Rule(
        "knockout",
        ("preferences",),
        "winner of a seeded bracket",
        winners,
        lambda opinion, trial: at_full_size(winners(opinion), trial),
        designs=("knockout", "all_pairs"),
        enough=alive_alike,
        rank=4,
    ),
    Rule(
        "weighted_vote",
        ANY,
        "answer with the largest sum of scores, shares won or times chosen",
        _weighted_vote,
        _replay_weighted_vote,
        answers=True,
        scaled=True,
    ),
    Rule(
        "majority",
        ANY,
        "most frequent answer; needs no rewarder",
        lambda opinion: weighted_vote(opinion.candidates.answers, _equal(opinion)),
        lambda opinion, trial: votes(_equal(opinion), trial),
        judged=False,
        answers=True,
    ),
)
RULES: Registry[Rule] = Registry(
    "selection rule",
    "bon.rules",
    lambda part: isinstance(part, Rule),
    {rule.name: rule for rule in SHIPPED},
)
"""Every rule by name; the first one of a kind is the default of the service."""
