"""A conversation as the text and images a model reads, by the model's own chat template."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from bon.engines.base import ImagePart, Message
from bon.errors import BonError

ScoreAt = Literal["end", "turn_end"]
"""Which token a reward is read at: the template's last one, or the one that ends the turn."""


@dataclass(frozen=True)
class Rendered:
    """Template text with one placeholder an image, and the images in order."""

    text: str
    images: tuple[ImagePart, ...]


class Renderer:
    """Applies a processor's (or tokenizer's) chat template."""

    def __init__(self, processor: Any, model: str) -> None:
        self._processor = processor
        self._tokenizer = getattr(processor, "tokenizer", processor)
        if not getattr(processor, "chat_template", None) and not self._tokenizer.chat_template:
            raise BonError(
                f"model {model!r} has no chat template",
                "use an instruction-tuned checkpoint, or add a chat_template.jinja to it",
            )

    def prompt(self, messages: tuple[Message, ...]) -> Rendered:
        """Everything up to where the assistant begins to speak."""
        return Rendered(self._apply(messages, True), _images(messages))

    def response(self, messages: tuple[Message, ...]) -> tuple[Rendered, str]:
        """The prompt, and the last assistant message as the model would have said it."""
        last = _last(messages)
        return self.prompt(messages[:-1]), last + self._turn_end

    def conversation(self, messages: tuple[Message, ...], score_at: ScoreAt) -> Rendered:
        """The whole conversation, ending with the token that a reward is read at."""
        _last(messages)
        text = self._apply(messages, False)
        if score_at == "turn_end":
            text = text[: text.rindex(self._turn_end) + len(self._turn_end)]
        return Rendered(text, _images(messages))

    @cached_property
    def _turn_end(self) -> str:
        """What closes an assistant turn, such as `<|im_end|>`, without what follows it."""
        asked = Message("user", ("a",))
        text = self._apply((asked, Message("assistant", ("Probe",))), False)
        tail = text[text.rindex("Probe") + len("Probe") :]
        ids = self._tokenizer(tail, add_special_tokens=False)["input_ids"]
        special = set(self._tokenizer.all_special_ids)
        ends = [token for token in ids if token in special]
        return str(self._tokenizer.decode(ends[:1])) if ends else str(self._tokenizer.eos_token)

    def _apply(self, messages: tuple[Message, ...], add_generation_prompt: bool) -> str:
        conversation = [
            {
                "role": message.role,
                "content": [
                    {"type": "image"}
                    if isinstance(part, ImagePart)
                    else {"type": "text", "text": part}
                    for part in message.parts
                ],
            }
            for message in messages
        ]
        return str(
            self._processor.apply_chat_template(
                conversation, tokenize=False, add_generation_prompt=add_generation_prompt
            )
        )


def _images(messages: tuple[Message, ...]) -> tuple[ImagePart, ...]:
    return tuple(
        part for message in messages for part in message.parts if isinstance(part, ImagePart)
    )


def _last(messages: tuple[Message, ...]) -> str:
    """The text of the last message, which must be the assistant's."""
    last = messages[-1]
    if last.role != "assistant" or any(isinstance(part, ImagePart) for part in last.parts):
        raise ValueError("the last message must be the assistant's text")
    return "".join(part for part in last.parts if isinstance(part, str))
