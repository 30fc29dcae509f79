"""Seeded replies that state no verdict, by construction: no shipped rule reads one in them."""

import random

import pytest

from tests.rewarders.reply_rules import shipped_rules

ONE_TOKEN = "^([12])"  # the whole reply, of at most one token
RULES = [
    rule
    for rule in shipped_rules()
    if rule.rule.reader == "strict" and rule.rule.pattern != ONE_TOKEN
]

# How a rule's prompt asks for the verdict: `{}` is a side or a number.
FORMS = {
    "Overall Judgment: Answer": ("Overall Judgment: Answer {} is better.", "1", "2"),
    "Overall Judge?ment": ("Overall Judgment: Answer {} is better.", "1", "2"),
    "<answer>\\s*Answer": ("<answer>Answer {} is better</answer>", "1", "2"),
    "<answer>": ("<answer>{}</answer>", "1", "2"),
    "boxed": ("\\boxed{{{}}}", "1", "2"),
    "Verdict": ("Verdict: {}", "first", "second"),
    "Final Score": ("Final Score: {}", "85", "40"),
    "Score": ("Score: {}", "85", "40"),
    "Judge?ment": ("Judgement: {}", "3", "5"),
    "\\([A-J]\\)": ("stars: 3 (G). Answer: G {}", "1", "2"),
    "Answer": ("Answer {} is better", "1", "2"),
}
NO_SIDES = ("", "3x", "neither", "X", "?", "-", "…", "none of them", "zero point", "'")

FRAMES = [
    "I do not think that {s}", "I don't believe {s}", "I would not say that {s}",
    "It is not true that {s}", "It is hardly the case that {s}", "Nobody could claim that {s}",
    "It is unclear whether {s}", "It is hard to say whether {s}", "I doubt that {s}",
    "I cannot conclude that {s}", "There is no reason to say {s}", "I disagree that {s}",
    "It would be wrong to say {s}", "One could argue that {s}", "At first {s}", "Not {s}",
    "If the image were sharp, {s}", "Unless I am blind, {s}", "Depending on taste, {s}",
    "Suppose that {s}", "The response says that {s}", "The second text contains: {s}",
    "The candidate writes \"{s}\"", "I was asked to write {s}", "The format is {s}", "> {s}",
    "He wrote \"{s}\" and no more.", "An example: {s}", "The prompt tells me to say {s}",
    "{s} or {o}", "{s}\n{o}", "{o}\n\nThat said.\n\n{s}", "{s} {o}", "{s} if the hat is red",
    "{s} unless it rains", "{s}?", "{s} Wait, no.", "{s}\nScratch that.", "{s} Just kidding.",
    "{s}\nActually, hold on.", "{s} I take that back.", "{s}\nBut I cannot decide.", "{b}", "{c}",
    "{s}\n{b}", "<think>{s}</think>", "<think>{s}</think>\nI am not sure.",
]  # fmt: skip
FILLER = [
    "The image shows a market at noon.", "Both describe the same scene.", "There are three boats.",
    "The label is hard to see.", "One is longer than the other.", "Colours: right.", "1. Accuracy",
    "- clear\n- short", "Let me look at the details.", "Das Bild zeigt einen Hafen.",
    "图中有一只猫。",    "The sum is 12, as both found.", "I weighed all four points.", "*",
]  # fmt: skip
CASES = [str, str, str.upper, str.lower, lambda text: f"**{text}**", lambda text: f" {text} \n"]


def parts(rule):
    return next(form for start, form in FORMS.items() if start in rule.rule.pattern)


def malformed(form, sides, rng):
    """A reply without a verdict, and whether it was cut off."""
    one, other = rng.sample([form.format(side) for side in sides], 2)
    cut = rng.random() < 0.15
    if cut:  # anywhere before the end of what it states
        body = one[: rng.randrange(1, len(one.rstrip(".>}")))]
    else:
        frame = rng.choice(FRAMES)
        broken = form.format(rng.choice(NO_SIDES))
        half = one[: rng.randrange(1, max(2, form.index("{")))]
        body = frame.format(s=one, o=other, b=broken, c=half)
    body = rng.choice(CASES)(body) if not cut else body
    before = rng.sample(FILLER, rng.randrange(3))
    return "\n".join([*before, body]), cut


@pytest.mark.parametrize("count", [1000, pytest.param(10_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_no_malformed_reply_is_a_win(rule, count):
    form, *sides = parts(rule)
    assert rule.read(form.format(sides[0])) != "unparsed"
    rng = random.Random(rule.name)
    wins = {}
    for _ in range(count):
        text, cut = malformed(form, sides, rng)
        got = rule.read(text, cut=cut)
        if got != "unparsed":
            wins[text] = got
    assert wins == {}
