"""Parsing generated replies into a verdict, a score or P(yes); what cannot be parsed is None.

A rule names its parser: `strict` (bon.experiment.required_form) or `published`, the last match.
Parsing depends only on what the store keeps of a reply, so it can be repeated (`reparse`).
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

from bon.core.keys import content_key
from bon.core.patterns import compiled, last_match
from bon.core.records import Judgement, JudgementOutcome
from bon.core.sampling import BARE_ANSWER, Sampling
from bon.core.text import is_withheld
from bon.engines.base import Sample
from bon.experiment import required_form
from bon.experiment.config import RewarderCard, ScoreRule, VerdictRule

STATES_VERDICT = "a response states a verdict itself"
"""In `error` of every judgement whose responses contain what its rule would parse."""

WITHHELD = "the endpoint refused or filtered the reply"
"""In `error` of judgements without a reply."""


class Reading(NamedTuple):
    """The outcome of a reply, its score if it has one, and why it is `unparsed`."""

    outcome: JudgementOutcome
    score: float | None = None
    reason: str = ""


def read_reply(card: RewarderCard, sample: Sample, responses: int, *, cut: bool) -> Reading:
    """Parse a reply, `cut` if it reached its token limit, about so many responses."""
    if card.kind == "pairwise":
        assert card.verdict is not None
        return read_verdict(sample.text, card.verdict, cut=cut)
    assert card.score is not None
    reading = read_score(sample, card.score, cut=cut)
    if card.kind != "listwise" or reading.score is None:
        return reading
    if reading.score not in range(1, responses + 1):
        return _unparsed(f"chooses {reading.score:g} of {responses}")
    return Reading("chosen", reading.score - 1)  # an index


def read_verdict(text: str, rule: VerdictRule, *, cut: bool = False) -> Reading:
    """Parse which of two responses a reply prefers."""
    if is_withheld(text):
        return _unparsed(WITHHELD)
    sides: dict[str, JudgementOutcome] = dict.fromkeys(rule.tie, "tie")
    sides |= dict.fromkeys(rule.second, "second")
    sides |= dict.fromkeys(rule.first, "first")  # it wins where lists overlap
    if rule.reader == "published":
        match, reason = _last_match(text, rule.pattern, rule.delete)
        if match in sides:
            return Reading(sides[match])
        unknown = match and f"states {match[:40]!r}, which the rule does not know"
        return _unparsed(unknown or reason)

    def meaning(word: str) -> JudgementOutcome | None:
        word = word.strip()
        folded = {sides[side] for side in sides if side.casefold() == word.casefold()}
        return sides.get(word) or (folded.pop() if len(folded) == 1 else None)

    outcome: JudgementOutcome | None
    outcome, reason = required_form.read(text, rule.pattern, rule.delete, cut=cut, meaning=meaning)
    return _unparsed(reason) if outcome is None else Reading(outcome)


def read_score(sample: Sample, rule: ScoreRule, *, cut: bool = False) -> Reading:
    """Parse the number in a reply, or P(yes) where the rule names words for yes and no."""
    if is_withheld(sample.text):
        return _unparsed(WITHHELD)
    if rule.yes:
        return yes_probability(sample, rule, cut=cut)
    if rule.reader == "published":
        match, reason = _last_match(sample.text, rule.pattern, rule.delete)
        if match is None:
            return _unparsed(reason)
        score = _score(match, rule.values, rule)
        return _unparsed(f"gives {match[:40]!r}") if score is None else Reading("scored", score)
    values = {word.casefold(): value for word, value in rule.values.items()} | rule.values

    def meaning(word: str) -> float | None:
        word = word.strip()
        return _score(word if word in values else word.casefold(), values, rule)

    score, reason = required_form.read(
        sample.text, rule.pattern, rule.delete, cut=cut, meaning=meaning, unit=_unit(rule)
    )
    if score is None:
        return _unparsed(reason)
    return Reading("scored", score)


def yes_probability(sample: Sample, rule: ScoreRule, *, cut: bool = False) -> Reading:
    """Return P(yes) / (P(yes) + P(no)) at the verdict token, from raw log-probabilities.

    The verdict token is the last generated one that is a word for yes or no, spaces aside, and the
    only one of a reply of one token. All its listed alternatives count. Of a reply that was cut off
    it must be at the end.
    """
    for index in range(len(sample.tokens) - 1, -1, -1):
        token = sample.tokens[index]
        if token.token.strip() not in (*rule.yes, *rule.no) and len(sample.tokens) > 1:
            continue
        after = "".join(later.token for later in sample.tokens[index + 1 :])
        if cut and any(character.isalnum() for character in after):
            return _unparsed(required_form.CUT)
        yes = no = 0.0
        for spelling, logprob in {token.token: token.logprob, **token.top}.items():
            is_yes, is_no = (spelling.strip() in words for words in (rule.yes, rule.no))
            if (is_yes or is_no) and not logprob <= 1:  # rounding puts it above 0; refuses NaN
                return _unparsed(f"the log-probability of {spelling!r} is {logprob}")
            yes += math.exp(logprob) if is_yes else 0.0
            no += math.exp(logprob) if is_no and not is_yes else 0.0
        if yes + no == 0:
            return _unparsed("the probabilities of yes and no are both 0")
        return Reading("scored", yes / (yes + no))
    return _unparsed("states neither yes nor no")


def with_warning(reason: str, *, states_verdict: bool) -> str:
    """Append the warning about responses that state a verdict to the reason of a reading."""
    return "; ".join(filter(None, (reason, STATES_VERDICT if states_verdict else "")))


def was_cut(sample: Sample, sampling: Sampling) -> bool:
    """Whether a reply was cut off by its token limit or a full context."""
    out_of_context = sample.finish == "length" and sampling.max_tokens > BARE_ANSWER
    return out_of_context or reached(sample.num_tokens, sampling)


def reached(num_tokens: int, sampling: Sampling) -> bool:
    """Whether a reply of this length, which the store keeps, reached its token limit."""
    return num_tokens >= sampling.max_new_tokens > BARE_ANSWER


def parser_key(card: RewarderCard) -> str:
    """Identify what parses a rewarder's stored replies; empty if none can be parsed again."""
    rule = card.stored_rule
    if rule is None:
        return ""
    return content_key("reading", required_form.VERSION, rule.model_dump(mode="json"))


def reparse(card: RewarderCard, row: Judgement) -> Judgement:
    """Parse the stored reply of a judgement, whose outcome is not `error`, by the card's rule."""
    cut = reached(row.num_tokens, card.sampling) or required_form.CUT in row.error
    sample = Sample(row.text, row.num_tokens)
    result = read_reply(card, sample, len(row.shown), cut=cut)
    return row._replace(
        outcome=result.outcome,
        score=result.score,
        first=row.shown[int(result.score or 0)] if card.kind == "listwise" else row.first,
        error=with_warning(result.reason, states_verdict=STATES_VERDICT in row.error),
    )


def _unparsed(reason: str) -> Reading:
    return Reading("unparsed", None, reason)


def _last_match(text: str, pattern: str, delete: str) -> tuple[str | None, str]:
    """Return the group of the last match, as published scripts do, or None and why."""
    text = text.encode("utf-8", "replace").decode("utf-8")
    for character in delete:
        text = text.replace(character, "")
    try:
        found = last_match(compiled(pattern), text)
    except ValueError as error:
        return None, str(error)
    return (None, required_form.NOTHING) if found is None else (found.strip(), "")


def _score(text: str, values: Mapping[str, float], rule: ScoreRule) -> float | None:
    try:
        value = values[text] if text in values else float(text)
    except ValueError:
        return None
    low, high = rule.range or (-math.inf, math.inf)
    return value if math.isfinite(value) and low <= value <= high else None


def _unit(rule: ScoreRule) -> str:
    """Return the pattern of what may follow a number: points, or the end of the rule's scale."""
    if rule.range is None:
        return ""
    end = f"{rule.range[1]:g}"
    scale = rf"(?:/|out\s+of|of)\s*{end}(?:\.0+)?"
    percent = r"|\s*%" if end == "100" else ""
    return rf"(?:\.0+)?\s*\]?(?:\s*points?)?(?:\s*{scale}|\s*\({scale}\)){{0,1}}{percent}"
