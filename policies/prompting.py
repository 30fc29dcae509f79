"""Questions as the messages of a policy, and as the text that a judge reads.

A policy's prompt is a template over `question` (its text), `options` (lines "A. ...") and
`letters` ("A, B, C"), both empty for a question without options. Those in
prompts/ are the project's own wording.
"""

import re
from collections.abc import Callable
from typing import Literal

from bon.core.records import ImageRef, Question
from bon.core.text import option_letters
from bon.engines.base import ImagePart, Message, Part
from bon.experiment.prompts import Prompt

Placement = Literal["first", "interleaved", "last"]
LoadImage = Callable[[ImageRef], ImagePart | None]
"""Returns the part to send for an image, or None to drop it."""

_TOKEN = re.compile(r"<image (\d+)>")


def option_lines(question: Question) -> str:
    """Return the options as lines "A. ..."; empty without options."""
    letters = option_letters(question.options) if question.options else ""
    pairs = zip(letters, question.options, strict=True)
    return "\n".join(f"{letter}. {option}" for letter, option in pairs)


def question_block(question: Question) -> str:
    """Return question and options as one text, which judges read as the question."""
    return "\n".join(filter(None, (question.text.strip(), option_lines(question))))


def render_prompt(question: Question, prompt: Prompt) -> str:
    """Render the prompt for one question."""
    return prompt.render(
        question=question.text,
        options=option_lines(question),
        letters=", ".join(option_letters(question.options) if question.options else ()),
    )


def policy_messages(
    question: Question, prompt: Prompt, load_image: LoadImage, placement: Placement = "first"
) -> tuple[Message, ...]:
    """Return the user turn that asks the policy.

    placement: `first` and `last` put all images before or after the text, whose "<image 1>" stays;
        `interleaved` puts image i wherever the text says "<image i>", and images that it never
        names before it.
    """
    text = render_prompt(question, prompt)
    images = [load_image(ref) for ref in question.images]
    parts = [text, *images] if placement == "last" else [*images, text]
    if placement == "interleaved":
        parts = _interleave(text, images)
    return (Message(role="user", parts=tuple(part for part in parts if part is not None)),)


def _interleave(text: str, images: list[ImagePart | None]) -> list[Part | None]:
    parts: list[Part | None] = []
    named: set[int] = set()
    pending, *rest = _TOKEN.split(text)  # text since the last image
    for number, after in zip(rest[::2], rest[1::2], strict=True):
        index = int(number) - 1
        if 0 <= index < len(images) and images[index] is not None:
            parts += [pending, images[index]] if pending else [images[index]]
            pending = after
            named.add(index)
        else:  # the token of a dropped or missing image stays
            pending += f"<image {number}>{after}"
    unnamed = [image for index, image in enumerate(images) if index not in named]
    return [*unnamed, *parts, pending] if pending else [*unnamed, *parts]
