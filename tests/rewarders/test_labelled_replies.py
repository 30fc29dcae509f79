"""Hand-written replies and what a human reads in them: no silent win, few clear ones lost.

`verdicts.yaml` and `scores.yaml` are replies in free wording, `replies.jsonl` is in twelve
languages and was written before the strict grammar, `attack.jsonl` after it and against it,
`languages.jsonl` against both, in 25 languages: each row says whether it is clear. In `prose.jsonl`
only words before a statement in the required form say that it is not meant, or is on another scale.
"""

import json
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bon.experiment.config import VerdictRule
from bon.experiment.yamlfile import load_yaml
from bon.policies.extractors import extract_answer
from tests.rewarders.reply_rules import Rule, rule_of

DATA = Path(__file__).parent / "data"
LOST = {
    "verdicts.yaml": 0.45,
    "scores.yaml": 0.27,
    "replies.jsonl": 0.17,
    "attack.jsonl": 0.67,
    "languages.jsonl": 0.15,
}
"""At most this share of the clear replies is unparsed; they are clear in words of their own."""
PUBLISHED_WINS = {
    "verdicts.yaml": 100,
    "replies.jsonl": 150,
    "attack.jsonl": 150,
    "prose.jsonl": 80,
}
ANSWERS_LOST = {"replies.jsonl": 34, "attack.jsonl": 0, "languages.jsonl": 49}
"""Clear replies of policies, most in other languages' words for "Answer:" or with reasons after."""
SOLUTIONS = 4  # of a listwise reply


@cache
def strict(name):
    rule = rule_of(name)
    return Rule(name, rule.rule.model_copy(update={"reader": "strict"}))


def read(rule, text, *, cut=False):
    value = rule.read(text, cut=cut)
    chosen = "listwise" not in rule.name or value in range(1, SOLUTIONS + 1)
    return value if chosen else "unparsed"


def labelled(file):
    """Yield rule, reply, whether it was cut off and what a human reads."""
    text = (DATA / file).read_text(encoding="utf-8")
    if file.endswith(".jsonl"):
        for row in map(json.loads, text.splitlines()):
            if row["kind"] != "answer":
                truth = "unparsed" if row["truth"] is None else row["truth"]
                yield strict(row["kind"]), row["reply"], False, truth
        return
    for block in load_yaml(text):
        if "card" in block:
            rule = rule_of(block["card"])
        else:
            rule = Rule(block["rule"]["pattern"], VerdictRule(**block["rule"]))
        for reply in block["replies"]:
            yield rule, reply, block.get("cut", False), block["reads"]


@pytest.mark.parametrize("file", LOST)
def test_no_silent_win_and_few_clear_replies_lost(file):
    rows = [(*row, read(row[0], row[1], cut=row[2])) for row in labelled(file)]
    wrong = [
        (rule.name, text, value, truth)
        for rule, text, _, truth, value in rows
        if value not in ("unparsed", truth)
    ]
    assert wrong == []
    lost = [value == "unparsed" for *_, truth, value in rows if truth != "unparsed"]
    assert sum(lost) <= LOST[file] * len(lost)
    assert len({(rule.name, text, cut) for rule, text, cut, *_ in rows}) == len(rows)


@pytest.mark.parametrize("file", PUBLISHED_WINS)
def test_the_published_readers_win_silently(file):
    """What the strict reader is for: the last match, whatever is around it."""
    wrong = 0
    for rule, text, _, truth in labelled(file):
        published = Rule(rule.name, rule.rule.model_copy(update={"reader": "published"}))
        wrong += read(published, text) not in ("unparsed", truth)
    assert wrong >= PUBLISHED_WINS[file]


@pytest.mark.parametrize("file", ANSWERS_LOST)
def test_answers_of_policies(file):
    rows = [json.loads(line) for line in (DATA / file).read_text(encoding="utf-8").splitlines()]
    answers = [row for row in rows if row["kind"] == "answer"]
    letters = [extract_answer(row["reply"], row["options"], "strict").letter for row in answers]
    read = list(zip(letters, answers, strict=True))
    assert [row for letter, row in read if letter not in (None, row["truth"])] == []
    clear = [(letter, row) for letter, row in read if row.get("clear", row["truth"] is not None)]
    assert sum(letter is None for letter, _ in clear) == ANSWERS_LOST[file]


def test_a_statement_is_taken_at_its_word():
    """Whatever words before it say; never for anything else than what it states."""
    rows = [json.loads(line) for line in (DATA / "prose.jsonl").read_text("utf-8").splitlines()]
    for row in rows:
        if row["kind"] == "answer":
            found = extract_answer(row["reply"], row["options"], "strict").letter
        else:
            found = read(strict(row["kind"]), row["reply"])
        assert found == row["stated"], row


# ------------------------------------------------------------------ properties

FORMS = {
    "gpt-4o-judge": ("Overall Judgment: Answer {} is better.", "1", "2"),
    "unified-reward-7b-pair": ("Answer {} is better.", "1", "2"),
    "llava-critic-7b-pair": ("Verdict: {}", "first", "second"),
    "llava-critic-r1-7b-judge": ("<think>Look.</think>\n\\boxed{{{}}}", "1", "2"),
    "r1-reward": ("<think>Look.</think>\n<answer>{}</answer>", "1", "2"),
    "unified-reward-think-7b": ("<answer>Answer {} is better</answer>", "1", "2"),
    "omni-rrm-7b": ('{{"reasoning": "Look.", "better": "{}"}}', "A", "B"),
}  # fmt: skip
WRAPPERS = [
    'The candidate writes: "{}"', "The candidate writes:\n{}", "I do not think that {}", "> {}",
    "Ich glaube nicht, dass\n{}", "不能说\n{}", "Il est faux que {}", "No es cierto que\n{}",
    "“{}”",
    "Неверно: {}", "回答2の引用：\n{}", "다음은 사실이 아니다: {}", "ليس صحيحا أن {}",
    "Beispiel:\n```\n{}\n```",
    "{} Nein.", "{}\n不对。", "{} ou l'autre", "{}?", "{}\nWait.", "{} ✗", "{}...", "{} 아니다",
    "यह गलत है कि {}",
]  # fmt: skip
FRAGMENTS = [
    *(form.split("\n")[-1] for form, *_ in FORMS.values()), "Answer {} is right.",
    "{} wins.", "Not {}:",
    "Response {} says", "\n", " ", "\n\n", "- Clarity: {}", "Therefore, ", '"', "no", "Both fail.",
]  # fmt: skip


@given(
    st.sampled_from(sorted(FORMS)),
    st.integers(1, 2),
    st.sampled_from(["", "The cat is black.\n", "图中有猫。\n\n", "1. Clarity: even.\n\n"]),
    st.sampled_from(WRAPPERS),
)
def test_a_wrapped_verdict_is_not_the_same_win(name, side, before, wrapper):
    form, *sides = FORMS[name]
    rule, reply = strict(name), form.format(sides[side - 1])
    plain = reply if "omni" in name else before + reply.removeprefix("<think>Look.</think>\n")
    win = rule.read(plain)
    assert win == ("first", "second")[side - 1]
    thought, *rest = reply.rsplit("\n", 1)
    body = rest[0] if rest else thought
    assert rule.read(before + wrapper.replace("{}", body)) == "unparsed"


@given(st.sampled_from(sorted(FORMS)), st.text(max_size=30), st.text(max_size=30))
def test_whatever_is_said_after_a_verdict_takes_it_back(name, one, other):
    form, side, _ = FORMS[name]
    assert strict(name).read(f"{form.format(side)}\n{one}q{other}") == "unparsed"


@given(
    st.sampled_from(sorted(FORMS)),
    st.lists(st.tuples(st.sampled_from(FRAGMENTS), st.integers(0, 1)), max_size=8),
)
def test_swapping_the_sides_swaps_the_verdict(name, fragments):
    _, *sides = FORMS[name]

    def reading(order):
        return strict(name).read("".join(f.format(sides[side ^ order]) for f, side in fragments))

    swapped = {"first": "second", "second": "first", "unparsed": "unparsed"}
    assert reading(1) == swapped[reading(0)]
