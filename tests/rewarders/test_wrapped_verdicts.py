"""No wrapper around a verdict, and nothing after it, is a silent win of the strict reader."""

from functools import cache

from hypothesis import given
from hypothesis import strategies as st

from tests.rewarders.reply_rules import Rule, rule_of


@cache
def strict(name):
    rule = rule_of(name)
    return Rule(name, rule.rule.model_copy(update={"reader": "strict"}))


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
