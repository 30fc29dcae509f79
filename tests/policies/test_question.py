"""Questions become messages: prompts, option letters, where the images go."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import Environment, StrictUndefined

from bon.core.errors import BonError
from bon.core.records import ImageRef, Question
from bon.engines.base import ImagePart
from bon.experiment.cards import load_prompt
from bon.experiment.prompts import Prompt
from bon.policies.prompting import policy_messages, question_block, render_prompt

ROOT = Path(__file__).parents[2]
SHIPPED = sorted(path.stem for path in (ROOT / "policies" / "prompts").glob("*.jinja"))

REFS = tuple(ImageRef(sha256=str(i), path=f"/{i}.png") for i in (1, 2, 3))


def question(text: str, options: tuple[str, ...] = ("x", "y"), images: int = 0) -> Question:
    return Question(
        key="k", id="q", dataset="d", text=text, options=options, answer="A", images=REFS[:images]
    )


def load(ref: ImageRef) -> ImagePart:
    return ImagePart(sha256=ref.sha256, data=b"png")


def shipped(name: str) -> Prompt:
    return load_prompt(name, ROOT)


def inline(text: str) -> Prompt:
    return Prompt("inline", text)


def shape(parts: tuple[object, ...]) -> list[object]:
    return [int(part.sha256) if isinstance(part, ImagePart) else part for part in parts]


def test_bare_is_question_and_options_alone() -> None:
    (message,) = policy_messages(question("Why?"), shipped("bare"), load)
    assert message.role == "user"
    assert message.parts == ("Why?\nA. x\nB. y",)


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_prompts_render(name: str) -> None:
    text = render_prompt(question("Why?"), shipped(name))
    assert ("Why?\nA. x\nB. y" in text) == (not name.endswith("-vision"))
    assert ("Answer: X" in text) == (name in ("cot", "cot-vision", "open")) or r"\boxed{}" in text


@pytest.mark.parametrize("name", [name for name in SHIPPED if name.startswith("open")])
def test_open_prompts_ask_for_letters_only_where_there_are_options(name: str) -> None:
    text = render_prompt(question("Why?", options=()), shipped(name))
    assert text.startswith("Why?\n\n")
    assert "letter" not in text
    assert "answer" in text
    assert "letter" in render_prompt(question("Why?"), shipped(name))


def test_twelve_options_and_none_left_over() -> None:
    text = question_block(question("Q", options=tuple("abcdefghijkl")))
    assert text.splitlines()[-1] == "L. l"
    assert question_block(question("", options=("only",))) == "A. only"


def test_text_of_a_question_is_never_a_template() -> None:
    text = render_prompt(
        question("{{ 7 * 7 }} {% if %}", options=("{{ options }}",)), inline("{{question}}")
    )
    assert text == "{{ 7 * 7 }} {% if %}"


def test_images_first_keeps_the_tokens_as_text() -> None:
    (message,) = policy_messages(
        question("See <image 2>.", images=2), shipped("bare"), load, "first"
    )
    assert shape(message.parts) == [1, 2, "See <image 2>.\nA. x\nB. y"]


def test_interleaved_follows_the_tokens_whatever_their_order() -> None:
    asked = question("<image 2> then <image 1>, <image 1>", ("<image 3>", "y"), images=3)
    (message,) = policy_messages(
        asked, inline("{{ question }}\n{{ options }}"), load, "interleaved"
    )
    assert shape(message.parts) == [2, " then ", 1, ", ", 1, "\nA. ", 3, "\nB. y"]


def test_interleaved_loses_neither_unnamed_images_nor_unknown_tokens() -> None:
    asked = question("See <image 9> and <image 2>", images=3)
    (message,) = policy_messages(asked, inline("{{ question }}"), load, "interleaved")
    assert shape(message.parts) == [1, 3, "See <image 9> and ", 2]


@pytest.mark.parametrize("placement", ["first", "interleaved"])
def test_a_dropped_image_leaves_its_token(placement: str) -> None:
    (message,) = policy_messages(
        question("See <image 1>!", images=1),
        inline("{{ question }}"),
        lambda _: None,
        placement,  # type: ignore[arg-type]
    )
    assert message.parts == ("See <image 1>!",)


@pytest.mark.parametrize("text", ["{{ qestion }}", "{% for %}", "{{ question.__class__.mro() }}"])
def test_a_bad_template_is_one_clear_line(text: str) -> None:
    with pytest.raises(BonError, match="prompt 'inline': "):
        render_prompt(question("Why?"), inline(text))


PIECES = [
    *("{{ a }}", "{{b}}", " {{- a -}} ", "{# no #}", "{% if a %}x{% endif %}", "{{ a | upper }}"),
    *("{% raw %}{{ a }}{% endraw %}", "{{ 'q' }}", "{{ a }}{{ b }}", "\n", "text {", "}"),
]


@given(st.lists(st.sampled_from(PIECES) | st.text("ab {}\r\n"), max_size=6), st.text(), st.text())
def test_a_prompt_says_what_jinja_makes_of_it(pieces: list[str], a: str, b: str) -> None:
    text = "".join(pieces)
    plain = Environment(undefined=StrictUndefined)
    try:
        wanted = plain.from_string(text).render(a=a, b=b)
    except Exception:
        with pytest.raises(BonError):
            Prompt("own", text).render(a=a, b=b)
    else:
        assert Prompt("own", text).render(a=a, b=b) == wanted


def test_a_name_that_a_prompt_is_not_given_is_an_error() -> None:
    with pytest.raises(BonError, match="'b' is undefined"):
        Prompt("own", "{{ a }} {{ b }}").render(a="1")
