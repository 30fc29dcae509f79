"""The answer reader: described quirks of the official one, caution of the strict one."""

import ast
import asyncio
import json
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bon.core.text import LETTERS, option_letters
from bon.engines.base import GenerateRequest, Generation, Sample
from bon.experiment.config import PolicyCard
from bon.policies.extractors import UNPARSED, declines, extract_answer, was_cut
from bon.policies.generate import Ask, sample

FOUR = ("red", "green", "light blue", "none of them")
NINE = tuple("pqrstuvwx")
PROMPTS = Path(__file__).parents[2] / "policies" / "prompts"
REAL = Path(__file__).parents[2] / ".." / "shared" / "data" / "mmmu_pro_gpt4o"

options_strategy = st.lists(st.text(max_size=12), min_size=1, max_size=12)


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("I think so.\nAnswer: B", "B"),
        ("Answer: A\nno, wait.\nAnswer: C", "C"),  # the last marker counts
        ("Answer: C) Apple", None),  # A occurs as well, and no other form fits
        ("Answer: none (B)", "B"),
        ("(A) is wrong, so (C)", "C"),
        ("(A) or (C), but D ", "C"),  # brackets win over the rest
        ("either B or D is right", "D"),
        ("A.", "A"),  # the full stop is stripped, a blank is put behind
        ("B", "B"),
        ("B. green", "B"),
        ("A. red\nB. green\nso neither", "A"),  # none stands alone: the first letter
        ("the colour of it must be green", "B"),
        ("green then red then light blue here", "C"),  # the last option text
        ("it is green", None),  # fewer than six words
        ("", None),
        ("nothing to be said about this at all", None),
        ("answer: b", None),  # lower case is not read
    ],
)
def test_official(text: str, letter: str | None) -> None:
    assert extract_answer(text, FOUR).letter == letter


def test_official_quirks_with_many_options() -> None:
    # With nine options "I " is the pronoun and "A " ends any capitalised word.
    assert extract_answer("so I cannot tell", NINE).letter == "I"
    assert extract_answer("so I cannot tell", FOUR) == UNPARSED
    assert extract_answer("in the USA it varies", NINE).letter == "A"
    # A letter of another word after the marker makes it ambiguous.
    assert extract_answer("Answer: H Bridge", NINE).letter == "H"
    assert extract_answer("Answer: Bridge", NINE).letter == "B"


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("I think so.\nAnswer: B", "B"),
        ("**Answer: (B)**", "B"),
        ("**Answer**: B.", "B"),
        ("answer: \\boxed{B}", "B"),
        ("Answer:\n\nB\n\nbecause it is so", None),
        ("Answer: $\\text{D}$", "D"),
        ("Answer: B. green", "B"),
        ("Answer: C (Light Blue)", "C"),
        ("The correct answer is C. light blue.", None),
        ("The answer is not A.\nThe answer is D", None),
        ("A. red", "A"),
        ("It has to be that one.\n\n(C)", None),
        ("B", "B"),
        ("Answer: B. red", None),  # letter and text disagree
        ("Answer: A or B", None),
        ("Answer: A, B", None),
        ("Answer: E", None),  # there is no fifth option
        ("Answer: b", "B"),
        ("Answer: Apple", None),
        ("A dog is what I see", None),
        ("I cannot tell.", None),
        ("Answer: A\nno, wait.\nAnswer:", None),  # the last marker says nothing
        ("", None),
        ("\n \n", None),
    ],
)
def test_strict(text: str, letter: str | None) -> None:
    assert extract_answer(text, FOUR, "strict").letter == letter


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        # what real models write
        (r"so the result is \boxed{C}.", "C"),
        (r"\boxed{\text{C. light blue}}", "C"),
        (r"\boxed{\text{Answer: (C)}}", "C"),
        (r"\boxed{light blue}", "C"),
        (r"Final answer: $\boxed{C}$", "C"),
        ("<answer>C</answer>", "C"),
        ("<think>maybe A</think><answer> (B) </answer>", "B"),
        ("<think>The answer is A.</think>\nB", "B"),
        ("perhaps A </think>\n\nAnswer: C", "C"),
        ("perhaps A </think>\n\nThe correct choice is C.", None),
        ("<|begin_of_box|>C<|end_of_box|>", "C"),
        ('{"answer": "C"}', "C"),
        ('```json\n{"reasoning": "I see", "answer": "c"}\n```', "C"),
        ("{'final_answer': 'C. light blue'}", None),
        ('{"answer": "light blue", "explanation": "cut o', None),
        ("The correct option is (C) light blue.", None),
        ("C) light blue", "C"),
        ("C. light blue\n\nThe sky is blue.", None),
        ("The best answer is option C, because it is blue.", None),
        ("I would choose C.", None),
        ("Therefore, C is correct.", None),
        ("Option B is the correct answer.", None),
        ("### Answer\nC", None),
        ("**Answer**\n\nC. light blue", None),
        ("The result corresponds to option **D**.", None),
        ("Answer: (b)", "B"),
        ("Answer: none of them", "D"),
        ("Answer: B because it is green", None),
        ("Answer: B\n\nWait, the correct answer is C.", None),
        ("The answer is C.\n\nI hope this answer is helpful.", None),
        ("A. red\nB. green\n\nC", None),
        # what says nothing
        (r"we get \boxed{42}", None),
        (r"\boxed{A or B}", None),
        ("<think>The answer is A", None),
        ("C light blue", None),
        ("A. red\nB. green\nC. light blue\nD. none of them", None),
        ("If A is correct then B is not.", None),
        ("The answer is not A.", None),
        ("I don't think the answer is C.", None),
        ("Statement A is correct", None),
        ("Answer: a dog", None),
        ("The answer is a", None),
        ("Answer: A-frame", None),
        ("the answer is C and not B", None),
        ("Answer: A, C and D are right", None),
        ("B because it is green", None),
        ('{"answer": ""}', None),
    ],
)
def test_strict_reads_what_models_write(text: str, letter: str | None) -> None:
    assert extract_answer(text, FOUR, "strict").letter == letter


@pytest.mark.parametrize("path", sorted(PROMPTS.glob("*.jinja")), ids=lambda path: path.stem)
def test_the_form_that_a_shipped_prompt_asks_for_is_read(path: Path) -> None:
    asked = path.read_text("utf-8")
    forms = {'"Answer: X"': "It is green.\nAnswer: B", r"within \boxed{}": r"\boxed{B}"}
    forms |= {"and nothing else": "B"}
    replies = [reply for form, reply in forms.items() if form in asked]
    assert replies or path.stem == "bare"
    for reply in replies:
        assert extract_answer(reply, FOUR, "strict").letter == "B"


TEN = tuple("pqrstuvwxy")
REFUSALS = (
    "I'm sorry, I can't assist with that.",
    "I’m sorry, but I can’t see or analyze images.",
    "I am unable to determine the answer from the image.",
    "I don't know who this is.",
    "Unfortunately, I cannot view the image. I can help if you describe it.",
    "As an AI, I can't identify people.",
    "I apologize. No image was provided.",
)


@given(
    st.sampled_from(REFUSALS),
    st.sampled_from(("", "\n\nI can help otherwise.", " If you describe A graph, I may help.")),
    st.sampled_from(("", "Hello. ", "**", "\n")),
)
def test_a_refusal_is_declined_and_no_letter(said: str, more: str, before: str) -> None:
    text = before + said + more
    assert extract_answer(text, TEN, "strict") == UNPARSED
    assert declines(text)


def test_a_refusal_that_states_a_letter_is_an_answer() -> None:
    text = "I'm unable to view the image, but it may be a tundra.\n\nAnswer: C"
    assert extract_answer(text, TEN, "strict").letter == "C"


def test_the_official_reader_takes_a_refusal_for_the_letter_i() -> None:
    assert extract_answer(REFUSALS[0], TEN, "official").letter == "I"


@pytest.mark.parametrize(
    ("text", "options", "letter"),
    [
        ("none of these words is an option here", ("", "red"), "A"),
        ("the red one of all of them", ("red", ""), "B"),  # what is empty is found at the end
        ("it is the red one of them", ("", "red", ""), "A"),
        ("not here", ("", "red"), None),  # fewer than six words
    ],
)
def test_official_finds_an_empty_option_everywhere(
    text: str, options: tuple[str, ...], letter: str | None
) -> None:
    """As the published scorer does: every text holds the empty one."""
    assert extract_answer(text, options).letter == letter


FORMS = (
    "Answer: {}", "**Answer: {}**", r"The answer is \boxed{{{}}}.",
    r"\boxed{{{}}}", "<answer>{}</answer>", '{{"answer": "{}"}}', "({})", "{}.",
)  # fmt: skip


@given(st.sampled_from(FORMS), st.integers(0, 9), st.sampled_from(REFUSALS))
def test_a_plain_statement_is_read_whatever_was_thought(
    form: str, place: int, thought: str
) -> None:
    letter = LETTERS[place]
    reply = f"<think>{thought} The answer is {LETTERS[9 - place]}.</think>\n{form.format(letter)}"
    assert extract_answer(reply, TEN, "strict").letter == letter


@given(st.text(max_size=80), options_strategy, st.sampled_from(["official", "strict"]))
def test_a_reading_is_a_letter_of_an_option_or_unparsed(text, options, mode) -> None:  # type: ignore[no-untyped-def]
    reading = extract_answer(text, options, mode)
    assert reading == extract_answer(text, options, mode)
    if reading.outcome == "parsed":
        assert reading.letter in option_letters(options)
    else:
        assert reading == UNPARSED


@given(st.text(max_size=60), options_strategy, st.data())
def test_a_plain_answer_line_is_read_by_both(text, options, data) -> None:  # type: ignore[no-untyped-def]
    letter = data.draw(st.sampled_from(option_letters(options)))
    reply = f"{text}\nAnswer: {letter}"
    assert extract_answer(reply, options, "official").letter == letter
    assert extract_answer(reply, options, "strict").letter == letter


@given(options_strategy, st.data())
def test_the_form_of_the_options_is_read_by_both(options, data) -> None:  # type: ignore[no-untyped-def]
    letter = data.draw(st.sampled_from(option_letters(options)))
    for reply in (letter, f"({letter})"):
        assert extract_answer(reply, options, "official").letter == letter
        assert extract_answer(reply, options, "strict").letter == letter


@pytest.mark.parametrize("mode", ["official", "strict"])
def test_unfinished_thinking_gives_no_letter(mode) -> None:  # type: ignore[no-untyped-def]
    for text in ("<think>Perhaps (A).\nAnswer: A", "\n<THINK>It is (B) "):
        assert extract_answer(text, FOUR, mode) == UNPARSED
        assert extract_answer(f"{text}</think>\nAnswer: B", FOUR, mode).letter == "B"


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="not 27"):
        extract_answer("A", LETTERS + "?")
    with pytest.raises(ValueError, match="unknown answer extractor 'lax'"):
        extract_answer("A", FOUR, "lax")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("file", "right", "unparsed", "credited"),
    [("standard10_cot", 0.5503, 0, 0.5503), ("standard10_direct", 0.4012, 7, 0.4022)],
)
def test_real_answers(file: str, right: float, unparsed: int, credited: float) -> None:
    path = REAL / f"{file}.jsonl"
    if not path.exists():
        pytest.skip(f"no real answers at {path}")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    num_right = num_unparsed = 0
    chance = 0.0
    for row in rows:
        options = [str(option) for option in ast.literal_eval(row["options"])]
        reading = extract_answer(row["response"], options)
        if reading.letter is None:
            num_unparsed += 1
            chance += 1 / len(options)
            continue
        # `pred_indexs` is what the official parser read.
        assert reading.letter == row["pred_indexs"]
        num_right += reading.letter == row["answer"]
    assert len(rows) == 1730
    assert num_unparsed == unparsed
    assert num_right / 1730 == pytest.approx(right, abs=1e-4)
    assert (num_right + chance) / 1730 == pytest.approx(credited, abs=1e-4)


@pytest.mark.parametrize("unit", ["\n", ". ", '\n"', "\t \n", "Answer: C\n", "<answer>", "(D). "])
def test_a_long_reply_is_read(unit: str) -> None:
    extract_answer(unit * (20_000 // len(unit)), FOUR, "strict")


class Written(NamedTuple):
    """An engine that has written these samples."""

    samples: tuple[Sample, ...]

    async def generate(self, request: GenerateRequest) -> Generation:
        return Generation(self.samples, 0)


@pytest.mark.parametrize("text", ["The area is 12", "Answer: 12", "So 3 + 9 = 12"])
def test_a_number_that_the_token_limit_cut_is_no_answer(text: str) -> None:
    """It may have been 128; of a limit of one token, the answer is what was asked for."""
    card = PolicyCard.model_validate({"name": "p", "model": "m", "engine": "echo", "n": 3})
    samples = (
        Sample(text, 40, finish="length"),
        Sample(text, 40),
        Sample("12", 1, finish="length"),
    )
    ask = Ask("q", (), (), (0, 1, 2), grader="number", asked="What is the area?")
    rows = asyncio.run(sample(cast(Any, Written(samples)), card, "spec", 0, ask))
    assert [row.outcome for row in rows] == ["unparsed", "parsed", "parsed"]
    for row in rows:
        cut = was_cut(row.finish, row.num_tokens)
        assert extract_answer(row.text, (), grader="number", cut=cut).letter == row.answer


def test_letters_of_a_cut_response_are_read_as_published_alone() -> None:
    assert extract_answer("Answer: B", FOUR, "strict", cut=True) == UNPARSED
    assert extract_answer("Answer: B", FOUR, "official", cut=True).letter == "B"
