"""A conversation as the text and images that a model reads, by the model's own chat template."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any

from bon.core.errors import BonError
from bon.engines.base import ImagePart, Message
from bon.engines.settings import ScoreAt


@dataclass(frozen=True)
class Rendered:
    """Template text with one placeholder an image, and the images in order."""

    text: str
    images: tuple[ImagePart, ...]


class Renderer:
    """Applies a processor's (or tokenizer's) chat template.

    Older templates take a message as one string and know nothing of images; `placeholder` then
    gives the text that stands for the i-th image (from 1).
    """

    def __init__(
        self, processor: Any, model: str, placeholder: Callable[[int], str | None] | None = None
    ) -> None:
        self._model = model
        self._placeholder = placeholder
        self._tokenizer = getattr(processor, "tokenizer", processor)
        # Some checkpoints, such as Phi-3.5-vision, have it in the tokenizer's settings alone.
        self._template = processor if getattr(processor, "chat_template", None) else self._tokenizer
        if not self._template.chat_template:
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
        if messages[-1].role != "assistant":
            raise ValueError("the last message must be the assistant's")
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

    @cached_property
    def _takes_parts(self) -> bool:
        """Whether the template reads a list of parts, as opposed to printing or refusing it."""
        parts = [{"type": "text", "text": "Probe"}]
        try:
            text = self._template.apply_chat_template(
                [{"role": "user", "content": parts}], tokenize=False
            )
        except Exception:  # a template raises whatever it likes
            return False
        return "Probe" in text and "'text'" not in text and '"text"' not in text

    def _apply(self, messages: tuple[Message, ...], add_generation_prompt: bool) -> str:
        content = self._parts if self._takes_parts else self._string()
        conversation = [{"role": m.role, "content": content(m)} for m in messages]
        return str(
            self._template.apply_chat_template(
                conversation, tokenize=False, add_generation_prompt=add_generation_prompt
            )
        )

    @staticmethod
    def _parts(message: Message) -> Any:
        return [
            {"type": "image"} if isinstance(part, ImagePart) else {"type": "text", "text": part}
            for part in message.parts
        ]

    def _string(self) -> Callable[[Message], str]:
        """Writes messages as strings, images numbered through the whole conversation."""
        images = count(1)

        def write(message: Message) -> str:
            return "".join(
                part if isinstance(part, str) else self._stand_in(next(images))
                for part in message.parts
            )

        return write

    def _stand_in(self, number: int) -> str:
        text = self._placeholder(number) if self._placeholder else None
        if text is None:
            raise BonError(
                f"the chat template of {self._model!r} has no place for images",
                "use engine: vllm, which knows this model's placeholder, or another checkpoint",
            )
        return text and text + "\n"


def _images(messages: tuple[Message, ...]) -> tuple[ImagePart, ...]:
    return tuple(
        part for message in messages for part in message.parts if isinstance(part, ImagePart)
    )


def _last(messages: tuple[Message, ...]) -> str:
    """The text of the last message, which must be the assistant's."""
    last = messages[-1]
    if last.role != "assistant" or any(isinstance(part, ImagePart) for part in last.parts):
        raise ValueError("the last message must be the assistant's, of text alone")
    return "".join(part for part in last.parts if isinstance(part, str))
