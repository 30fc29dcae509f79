"""Parsing stored replies again, by a changed rule or by the other reader."""

from collections.abc import Iterable

from bon.core.keys import content_key
from bon.core.records import Judgement
from bon.engines.base import Sample
from bon.experiment.config import RewarderCard
from bon.rewarders import verdict_parser
from bon.rewarders.generative import POSING, reached, with_warning
from bon.rewarders.reply_parsing import read_reply


def parser_key(card: RewarderCard) -> str:
    """Identify what parses a rewarder's stored replies; empty if none can be parsed again."""
    rule = card.stored_rule
    if rule is None:
        return ""
    return content_key("reading", verdict_parser.VERSION, rule.model_dump(mode="json"))


def reparse(card: RewarderCard, row: Judgement) -> Judgement:
    """Parse the stored reply of a judgement, whose outcome is not `error`, by the card's rule."""
    cut = reached(row.num_tokens, card.sampling) or verdict_parser.CUT in row.error
    sample = Sample(row.text, row.num_tokens)
    result = read_reply(card, sample, len(row.shown), cut=cut)
    return row._replace(
        outcome=result.outcome,
        score=result.score,
        first=row.shown[int(result.score or 0)] if card.kind == "listwise" else row.first,
        error=with_warning(result.reason, posing=POSING in row.error),
    )


def strict_difference(card: RewarderCard, replies: Iterable[Judgement]) -> str:
    """Return how often the strict reader differs from a card's published one; empty otherwise."""
    rule = card.stored_rule
    if rule is None or rule.reader != "published":
        return ""
    name = "verdict" if card.kind == "pairwise" else "score"
    strict = card.model_copy(update={name: rule.model_copy(update={"reader": "strict"})})
    pairs = [[reparse(c, row)[:-1] for c in (card, strict)] for row in replies]
    differ = sum(published != other for published, other in pairs)
    share = f"{differ:,} of {len(pairs):,} replies"
    return f"the strict reader reads {share} of {card.name} differently from its published reader"
