"""Answers without options: final answers, graders, their classes, and hostile replies.

What answers are worth to each grader is in tests/conformance/grading.yaml.
"""

import re
import unicodedata
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bon
from bon import graders
from bon.core.errors import BonError
from bon.core.records import Question
from bon.graders import Gold, Grade, grades, is_right, value
from bon.graders.quantities import quantity
from bon.policies.extractors import extract_answer, final_answer

needs_math = pytest.mark.skipif(find_spec("math_verify") is None, reason="needs bon[math]")


def question(grader: str, answer: str | None = "5", **meta: Any) -> Question:
    return Question("k", "q", "d", "How much?", (), answer, meta={"grader": grader, **meta})


WORTH = {  # an answer that is right, one that is not, the right answer
    "exact": ("Red.", "blue", Gold(("red",))),
    "f1": ("car red", "bike", Gold(("red car",))),
    "anls": ("red car", "bike", Gold(("red car",))),
    "vqa": ("two", "three", Gold(("2",) * 10)),
    "number": ("5.0 km", "6 km", Gold(("5",), "", "km")),
    "relaxed": ("104", "106", Gold(("100",))),
    "math": (r"\frac{1}{2}", r"\frac{1}{3}", Gold(("0.5",))),
    "items": ("blue, red", "red", Gold(("red, blue",))),
    "iou": ("0 0 10 9", "20 20 30 30", Gold(("[0, 0, 10, 10]",))),
}


@pytest.mark.parametrize("grader", graders.GRADERS)
def test_every_grader_tells_right_from_wrong(grader: str) -> None:
    if not graders.is_usable(grader):
        pytest.skip("needs bon[math]")
    right, wrong, gold = WORTH[grader]
    assert value(grader, right, gold) == 1
    assert not value(grader, wrong, gold)


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("Answer: 5", "5"),
        ("It is 4.\n\n**Answer:** 5 km.", "5 km"),
        ("The answer is 5, since 2 + 3 = 5.", None),
        ("The answer is 3.5. So it is small.", None),
        ("Answer: 5\nWait.\nAnswer: 6", None),
        (r"so \boxed{4}, then \boxed{\frac{1}{2}}", None),
        (r"The final answer is $\boxed{12}$.", "12"),
        (r"Answer: $x^2$.", "x^2"),
        ("<think>Answer: 4</think>5", "5"),
        ("<think>Answer: 4", None),
        ("<answer>dark red</answer>", "dark red"),
        ('{"reason": "x", "answer": "red"}', "red"),
        ('{"answer": 5.5}', "5.5"),
        ("Answer:\n\n7", None),
        ("答案是5", "5"),
        ("Answer: J. Smith", "J. Smith"),
        ("dark red", "dark red"),
        ("The answer is not 5.", None),
        ("The answer isn’t 5.", None),
        ("The answer is a red car.", None),
        ("Answer: O’Brien", "O’Brien"),
        ("If the answer is 5, the other is 6.", None),
        ("It could be 5.\nIt could be 6.", None),
        ("", None),
        ("[refusal] Answer: 5", None),
        ("Answer: " + "x" * 600, None),
    ],
)
def test_final_answers(reply: str, answer: str | None) -> None:
    assert extract_answer(reply, ()).letter == answer


@pytest.mark.parametrize(
    ("text", "number", "unit"),
    [
        ("−5", -5, ""), ("1,234.5", 1234.5, ""), ("1 234", 1234, ""), ("12 %", 12, "%"),
        ("3/4", 0.75, ""), ("1 1/2", 1.5, ""), ("1½", 1.5, ""), (r"\frac{3}{4}", 0.75, ""),
        (r"\frac12", 0.5, ""), ("6.02×10²³", 6.02e23, ""), ("1e3", 1000, ""), ("$5.00", 5, ""),
        ("5km", 5, "km"), ("about 5 km/h", 5, "km/h"), ("x = 5", 5, ""),
        ("£3.5 million", 3.5e6, ""),
        ("Three", 3, ""), (r"\$1{,}000", 1000, ""), (r"45^\circ", 45, "°"), (r"50\%", 50, "%"),
        ("-.5", -0.5, ""), ("5 m²", 5, "m2"), (r"5\text{ cm}", 5, "cm"),
    ],
)  # fmt: skip
def test_numbers_are_read(text: str, number: float, unit: str) -> None:
    found = quantity(text)
    assert found is not None
    assert (float(found.number), found.unit) == (number, unit)


def test_classes_are_those_of_the_grader_and_need_no_right_answer() -> None:
    answers = ["5", "5.0", None, "6", "5 km", "6", "six or so", "6.0"]
    right = grades(question("number", "5", unit="km"), answers)
    unknown = grades(question("number", None, unit="km"), answers)
    assert [grade.answer for grade in right] == ["5", "5", None, "6", "5", "6", None, "6"]
    assert [grade.answer for grade in unknown] == [grade.answer for grade in right]
    assert [grade.right for grade in right] == [True, True, False, False, True, False, False, False]
    assert not any(grade.right for grade in unknown)


def test_partly_right_answers_are_classes_of_their_own() -> None:
    found = grades(question("anls", "paris"), ["Paris", "pariss", "parts", "rome"])
    assert found == [
        Grade("Paris", 1), Grade("pariss", pytest.approx(5 / 6)),
        Grade("parts", pytest.approx(0.8)), Grade("rome", 0),
    ]  # fmt: skip
    assert [grade.right for grade in found] == [True, True, True, False]


def test_letters_are_graded_as_before() -> None:
    lettered = Question("k", "q", "d", "Which?", ("x", "y"), "B")
    assert grades(lettered, ["B", "A", None]) == [
        Grade("B", True), Grade("A", False), Grade(None, False),
    ]  # fmt: skip
    assert not is_right(Question("k", "q", "d", "Which?", ("x",), None), None)


@pytest.fixture
def registered() -> Iterator[None]:
    yield
    graders.GRADERS._added.clear()
    value.cache_clear()


@pytest.mark.usefixtures("registered")
def test_a_grader_of_ones_own() -> None:
    @bon.register
    def initials(answer: str, gold: Gold) -> float | None:
        return float(answer[:1] == gold.answers[0][:1]) if answer != "?" else None

    assert grades(question("initials", "red"), ["rose", "blue", "?"]) == [
        Grade("rose", True), Grade("blue", False), Grade(None, False),
    ]  # fmt: skip
    bon.register(lambda answer, gold: 1 / 0, name="initials")
    with pytest.raises(BonError, match="grader 'initials' fails on 'rose': ZeroDivisionError"):
        is_right(question("initials", "red"), "rose")
    bon.register(lambda answer, gold: 2, name="initials")
    with pytest.raises(BonError, match="gives 2"):
        is_right(question("initials", "red"), "rose")


def test_math_needs_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graders, "find_spec", lambda name: None)
    with pytest.raises(BonError, match="needs the package math-verify"):
        graders.grader_of("math")


HOSTILE = [
    r"\boxed{" * 14_000, "<answer>" * 12_500, "Answer:" * 15_000, "{" * 100_000, "1" * 100_000,
    "answer is " * 10_000, '"answer": "' * 8000, "\n" * 100_000, "Answer: 10**10**10",
    r"Answer: 9^{9^{9^{9}}}", "Answer: " + r"\frac{1}{" * 60 + "1" + "}" * 60,
    "Answer: " + r"\sqrt{" * 19 + "5" + "}" * 19, r"Answer: \sum_{i=1}^{10^{12}} i",
    "Answer: __import__('os').system('touch hacked')", r"Answer: \int_0^\infty e^{-x^x} dx",
    r"Answer: 170!!!", "Answer: 1e999999999", r"Answer: \text{5} \text{or} \text{6}",
    "Answer: 5 5 5 5 5 5", "Answer: all of 1, 2, 3, 4, 5, 6", "Answer: ٥\u202e6",
]  # fmt: skip


@pytest.mark.parametrize(
    "grader", ["exact", "f1", "anls", "vqa", "number", "relaxed", "items", "iou"]
)
def test_hostile_replies_end_and_never_win(grader: str) -> None:
    for reply in HOSTILE:
        if grader == "f1" and "{or}" in reply:
            continue  # sharing half of the words is its measure
        assert not is_right(question(grader), final_answer(reply)), reply[:40]


@needs_math
@pytest.mark.slow
def test_hostile_formulas_end_and_never_win() -> None:
    is_right(question("math"), "1+1")  # starts the process
    for reply in HOSTILE:
        assert not is_right(question("math"), final_answer(reply)), reply[:40]
    assert is_right(question("math", "(x+1)^2"), "x^2+2x+1")


@needs_math
@pytest.mark.slow
def test_equal_formulas_are_one_class() -> None:
    found = grades(question("math", "7"), [r"\sqrt{8}", r"2\sqrt{2}", "3", "3.0"])
    assert [grade.answer for grade in found] == [r"\sqrt{8}", r"\sqrt{8}", "3", "3"]


LENGTH = Gold(("-1,234.5",), "", "km")
UNEQUAL = [
    "1234.5", "+1,234.5 km", "-1234.5 m", "-1234.5 miles", "-1.234,5", "-12,34.5", "-1234.5 or 5",
    "not -1234.5", "-1234.5 to -1234.6", "between -1234.5 and 0", "-1234.5 -1234.6", "-1234.5²",
    "--1234.5", "-1234.5%", "-1234.5 km²", "1234.5-", "~-1234.6", "-1234.50001", "-1234.5·10",
    "‐1234.6", "-1234.5 × 10^1", "-1234.5 thousand", "-1,234.5,000", "-0x4d2", "NaN", "-inf", "",
    "-1234.5 or so, maybe 7", "it is not -1234.5", "-1234.5/0", "-1234.5**2", "1e9999", "-1234.5j",
]  # fmt: skip


@pytest.mark.parametrize("answer", UNEQUAL)
def test_signs_separators_and_units_that_say_something_else(answer: str) -> None:
    assert not value("number", answer, LENGTH)


PIECES = [
    "5", "-", "−", "–", ",", ".", "000", " ", "km", "m", "%", "or", "not", "and", "e", "^", "**",
    "(", ")", "{", "}", "\\frac", "\\text", "$", "=", "<", ">", "\n", "\u202e", "\u200b", "٥", "½",
    "five", "red", "__import__('os')", "\\write18{ls}", "\\input{/etc/passwd}", "lambda:0",
    "9" * 30,
]  # fmt: skip


@pytest.mark.parametrize("grader", [name for name in graders.GRADERS if name != "math"])
@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
@settings(max_examples=150)
def test_no_mix_of_pieces_hangs_fails_or_wins_silently(grader: str, answer: str) -> None:
    worth = value(grader, answer, Gold(("5",), "", "km"))
    assert worth is None or 0 <= worth <= 1
    if worth == 1:  # then it says five, whatever else is in it, and no other number
        plain = unicodedata.normalize("NFKC", answer).replace("٥", "5").replace("five", "5")
        assert "5" in plain
        if grader == "number":
            assert not re.search(r"9|½|%|\bnot\b|\bor\b", plain)
            assert not re.search(r"[-−–]\s*5", plain)


@pytest.mark.parametrize("grader", ["exact", "anls", "vqa", "number", "relaxed"])
def test_a_list_of_all_answers_does_not_win(grader: str) -> None:
    everything = ", ".join(map(str, range(10)))
    assert (value(grader, everything, Gold(("5",))) or 0) < 0.5
    assert (value("f1", everything, Gold(("5",))) or 0) < 0.5
