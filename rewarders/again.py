"""Judgements read again from their stored replies, where the rule that reads them has changed."""

from bon.core.keys import content_key
from bon.core.records import Judgement
from bon.engines.base import Sample
from bon.experiment.config import RewarderCard
from bon.rewarders import strict
from bon.rewarders.asking import note, poses, reached
from bon.rewarders.replies import read_choice, read_score, read_verdict


def reading(card: RewarderCard) -> str:
    """Identity of what reads a rewarder's stored replies; empty where none can be read again."""
    rule = card.stored_rule
    return content_key("reading", strict.VERSION, rule.model_dump(mode="json")) if rule else ""


def read_again(card: RewarderCard, row: Judgement) -> Judgement:
    """The judgement as the card's rule reads its reply now; `row` is none of outcome `error`."""
    cut = reached(row.num_tokens, card.sampling) or strict.CUT in row.error
    flag = poses(row.error)
    if card.kind == "pairwise":
        assert card.verdict is not None
        verdict = read_verdict(row.text, card.verdict, cut=cut)
        return row._replace(outcome=verdict.outcome, error=note(verdict.reason, flag))
    assert card.score is not None
    sample = Sample(row.text, row.num_tokens)
    if card.kind == "pointwise":
        found = read_score(sample, card.score, cut=cut)
        return row._replace(
            outcome="unparsed" if found.score is None else "scored",
            score=found.score,
            error=note(found.reason, flag),
        )
    found = read_choice(sample, card.score, len(row.shown), cut=cut)
    return row._replace(
        outcome="unparsed" if found.score is None else "chosen",
        score=found.score,
        first=row.shown[int(found.score or 0)],
        error=note(found.reason, flag),
    )
