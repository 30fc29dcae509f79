"""Conversations through chat templates of both styles."""

from typing import Any

import pytest

from bon.core.errors import BonError
from bon.engines.base import ImagePart, Message
from bon.engines.rendering import Renderer

IMAGES = [ImagePart("00", b""), ImagePart("01", b"")]
ASKED = (
    Message("system", ("Be brief.",)),
    Message("user", (IMAGES[0], "What is ", IMAGES[1], "?")),
)


class Tokenizer:
    """A chat template in Python, of either style, and a tokenizer of words."""

    bos_token = None
    eos_token = "<end>"
    all_special_ids = (0,)

    def __init__(self, parts: bool, template: str | None = "yes") -> None:
        self.parts, self.chat_template = parts, template

    def __call__(self, text: str, add_special_tokens: bool) -> dict[str, list[int]]:
        return {"input_ids": [0 if word == "<end>" else 1 for word in text.split()]}

    def decode(self, ids: list[int]) -> str:
        return "<end>" if ids == [0] else ""

    def apply_chat_template(
        self,
        conversation: list[dict[str, Any]],
        tokenize: bool,
        add_generation_prompt: bool = False,
    ) -> str:
        text = ""
        for message in conversation:
            content = message["content"]
            if self.parts and not isinstance(content, str):
                content = "".join(part.get("text", "[image]") for part in content)
            text += f"{message['role']}: {content} <end> \n"
        return text + "assistant: " * add_generation_prompt


def test_parts_in_order() -> None:
    rendered = Renderer(Tokenizer(parts=True), "m").prompt(ASKED)
    assert rendered.text == (
        "system: Be brief. <end> \nuser: [image]What is [image]? <end> \nassistant: "
    )
    assert rendered.images == tuple(IMAGES)


def test_string_templates_number_their_images() -> None:
    renderer = Renderer(Tokenizer(parts=False), "m", lambda number: f"<|image_{number}|>")
    assert "user: <|image_1|>\nWhat is <|image_2|>? <end>" in renderer.prompt(ASKED).text
    assert (
        "user: a <end>" in Renderer(Tokenizer(False), "m").prompt((Message("user", ("a",)),)).text
    )
    with pytest.raises(BonError, match="no place for images"):
        Renderer(Tokenizer(parts=False), "m").prompt(ASKED)


def test_string_templates_keep_the_line_breaks_around_an_image() -> None:
    """InternVL's own code: `<image>\\n` opens a turn, and VisualPRM's turn holds it in place."""
    renderer = Renderer(Tokenizer(parts=False), "m", lambda _: "<image>")
    steps = (Message("user", ("### Question:\n", IMAGES[0], "\nWhy?")),)
    assert "user: ### Question:\n<image>\nWhy? <end>" in renderer.prompt(steps).text
    two = (Message("user", (*IMAGES, "Why?")),)
    assert "user: <image>\n<image>\nWhy? <end>" in renderer.prompt(two).text


def test_response_and_conversation() -> None:
    renderer = Renderer(Tokenizer(parts=True), "m")
    messages = (*ASKED, Message("assistant", ("It is ", "red.")))
    prompt, response = renderer.response(messages)
    assert prompt == renderer.prompt(ASKED)
    assert response == "It is red.<end>"
    assert renderer.conversation(messages, "end").text.endswith("It is red. <end> \n")
    assert renderer.conversation(messages, "turn_end").text.endswith("It is red. <end>")


def test_only_an_assistants_turn_is_scored() -> None:
    renderer = Renderer(Tokenizer(parts=True), "m")
    with pytest.raises(ValueError, match="must be the assistant's"):
        renderer.conversation((*ASKED, Message("user", ("a",))), "end")


def test_a_scored_turn_may_hold_images_but_a_likelihood_is_of_text() -> None:
    renderer = Renderer(Tokenizer(parts=True), "m")
    messages = (*ASKED, Message("assistant", (IMAGES[0], "red")))
    rendered = renderer.conversation(messages, "end")
    assert rendered.images[-1] == IMAGES[0]
    assert len(rendered.images) == len(renderer.prompt(ASKED).images) + 1
    with pytest.raises(ValueError, match="of text alone"):
        renderer.response(messages)


def test_no_template() -> None:
    with pytest.raises(BonError, match="'base-model' has no chat template"):
        Renderer(Tokenizer(parts=True, template=None), "base-model")
