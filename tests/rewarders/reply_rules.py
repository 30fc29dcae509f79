"""What the tests of replies share: the shipped rules that read text, each once."""

from dataclasses import dataclass
from pathlib import Path

from bon.engines.base import Sample
from bon.experiment.cards import load_rewarder, shipped
from bon.experiment.config import ScoreRule, VerdictRule
from bon.rewarders.reply_parsing import read_score, read_verdict


@dataclass(frozen=True)
class Rule:
    """A rule under the name of the first card that has it."""

    name: str
    rule: VerdictRule | ScoreRule

    def read(self, text: str, *, cut: bool = False) -> float | str:
        """The outcome or the number of a reply, or "unparsed"."""
        if isinstance(self.rule, VerdictRule):
            return read_verdict(text, self.rule, cut=cut).outcome
        score = read_score(Sample(text, 1), self.rule, cut=cut).score
        return "unparsed" if score is None else score


def shipped_rules() -> list[Rule]:
    """Every distinct rule of the shipped cards that reads text."""
    found: dict[str, Rule] = {}
    for name in shipped("rewarders"):
        card = load_rewarder(name, Path()).card
        for rule in (card.verdict, card.score):
            if rule is not None and rule.pattern:
                found.setdefault(rule.model_dump_json(), Rule(name, rule))
    return list(found.values())


def rule_of(name: str) -> Rule:
    """The rule of a shipped card."""
    card = load_rewarder(name, Path()).card
    rule = card.verdict or card.score
    assert rule is not None
    return Rule(name, rule)
