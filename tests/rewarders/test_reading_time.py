"""No reply hangs a reader: every shipped rule, and users' own, on adversarial replies.

How long they take is measured in tools/bench/bench_reading.py; a hang meets the tests' timeout.
"""

import pytest

from bon.core.errors import BonError
from bon.core.validation import validate
from bon.experiment.config import RewarderCard, VerdictRule
from tests.rewarders.reply_rules import Rule, shipped_rules

CHARACTERS = 2048 * 5  # of a reply of 2,048 tokens
RULES = shipped_rules()

UNITS = [
    "Therefore", "Therefore ", "Overall Judgment", "Overall Judgment: ", "Overall Judgment\n",
    "Answer 1 is better ", "Therefore Answer 1 is better. ", "Overall Judgment: Answer 2 is ",
    "Overall Judgment: Answer 1 is better.\n", "Verdict: first\n", "Verdict: ", "<answer>",
    "<answer>1</answer>", "<answer>Answer 1 is", "<think>", "</think>", "Score: ", "Score: 1",
    "Final Score: 85\n", "Final Score: [", "Judgement: 3 ", "Judgement", "1", "1,", "1 ", "-1e",
    " ", "\n", "\t \n", "-", "*", "_", '"', "'", "`", "> ", ",", ".", "(", "x", "é", "１", "\u200b",
    "not ", "no ", "if ", "I don't think that ", "Neither Answer 1 nor Answer 2 is ", "or ", "a b ",
    "the text ", "says that ", "Answer 1 is not ", "Answer 1 is a a a a ", "in in in, ", "wait ",
]  # fmt: skip
ENDS = ["", " Overall Judgment: Answer 1 is better.", "\nFinal Score: 85", "<answer>1</answer>"]


def adversarial():
    for unit in UNITS:
        for end in ENDS:
            body = unit * (CHARACTERS // len(unit))
            yield body + end
            yield "Therefore" + body + end


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
@pytest.mark.parametrize("reader", ["strict", "published"])
def test_a_shipped_rule_reads_any_reply(rule, reader):
    used = Rule(rule.name, rule.rule.model_copy(update={"reader": reader}))
    for text in adversarial():
        used.read(text)


@pytest.mark.parametrize(
    "pattern",
    [r"(?:Therefore)\s*.*\s*-*\s*(\d+)", r"(?:a+)+(b)", r"(?:\w+\s?)*:\s*(\d)", r"(?:x*)*y([12])"],
)
def test_a_pattern_of_a_users_own_cannot_hang(pattern):
    rule = Rule("own", VerdictRule(pattern=pattern))
    for text in ("Therefore" + " " * 10_000, "a" * 10_000, "word " * 2000, "x" * 10_000):
        rule.read(text)


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        (r"Answer (?=1)(\d)", "no look-around"),
        (r"(\d) \1", "no back-references"),
        (r"(?:(?:(?:a?){100}){10}){2}(b)", "repetition"),
        (r"(?:(?:ab?){100}){10}(c)", "is too large"),
        (r"(\d*)", "matches the empty text"),
        ("Answer (", "missing \\)"),
        ("Answer \ud800(1)", "not Unicode"),
    ],
)
def test_a_pattern_that_cannot_be_made_safe_is_refused(pattern, why):
    card = {"name": "x", "kind": "pairwise", "verdict": {"pattern": pattern}}
    with pytest.raises(BonError, match=why):
        validate(RewarderCard, card, "x.yaml")
