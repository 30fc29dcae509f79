"""Conversations as the text and images that a model reads, by its own chat template."""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import count
from typing import Any, NamedTuple

from bon.core.errors import BonError
from bon.engines.base import ImagePart, Message
from bon.engines.settings import ScoreAt


class Marks(NamedTuple):
    """What a template puts around a model's reasoning, and what ends reasoning at a limit."""

    opening: str
    closing: str
    forced: str


THINKING = (
    Marks("<think>", "</think>", "\n</think>\n\n"),  # Qwen, GLM, DeepSeek, Kimi K2.5
    Marks("◁think▷", "◁/think▷", "\n◁/think▷\n\n"),  # Kimi-VL
    Marks("<|channel>thought", "<channel|>", "\n<channel|>\n\n"),  # Gemma 4
    Marks("[THINK]", "[/THINK]", "\n[/THINK]\n\n"),  # Mistral
    Marks(  # gpt-oss
        "<|channel|>analysis<|message|>",
        "<|channel|>final<|message|>",
        "<|end|><|start|>assistant<|channel|>final<|message|>",
    ),
)

OPENING_TOKENS = 32
"""A reply that begins with reasoning says so within these."""


class Answer(NamedTuple):
    """A reply's reasoning, and where in its tokens the answer begins; None: it never does."""

    reasoning: str
    start: int | None


NO_BOS = (
    "its prompts begin without {}, with which its tokenizer begins other texts -> if the model was "
    "trained with it, begin its chat_template.jinja with {{{{ bos_token }}}}"
)


class Rendered(NamedTuple):
    """Template text with one placeholder per image, and the images in order."""

    text: str
    images: tuple[ImagePart, ...]


class Renderer:
    """Applies a processor's (or tokenizer's) chat template.

    Older templates take a message as one string without images; `placeholder` returns the text
    that stands for the i-th image (from 1). `warning`: what was odd about the prompts.
    """

    def __init__(
        self,
        processor: Any,
        model: str,
        placeholder: Callable[[int], str | None] = lambda _: None,
        kwargs: Mapping[str, Any] = {},
        *,
        reads_images: bool = True,
    ) -> None:
        self.warning = ""
        self._model, self._kwargs, self._placeholder = model, dict(kwargs), placeholder
        self._reads_images = reads_images
        self._tokenizer = getattr(processor, "tokenizer", processor)
        self._is_processor = self._tokenizer is not processor
        # Some checkpoints, such as Phi-3.5-vision, have it in the tokenizer's config only.
        self._template = processor if getattr(processor, "chat_template", None) else self._tokenizer
        if not self._template.chat_template:
            fix = "use an instruction-tuned checkpoint, or add a chat_template.jinja to it"
            raise BonError(f"model {model!r} has no chat template", fix)
        template = str(self._template.chat_template)
        self.thinking = next((marks for marks in THINKING if marks.closing in template), None)

    def prompt(self, messages: tuple[Message, ...]) -> Rendered:
        """Render everything up to the assistant's reply."""
        return self._rendered(messages, add_generation_prompt=True)

    def response(self, messages: tuple[Message, ...]) -> tuple[Rendered, str]:
        """Render the prompt, and the last assistant message as the model would generate it."""
        last = messages[-1]
        texts = [part for part in last.parts if isinstance(part, str)]
        if last.role != "assistant" or len(texts) < len(last.parts):
            raise ValueError("the last message must be the assistant's, of text alone")
        return self.prompt(messages[:-1]), "".join(texts) + self._turn_end

    def conversation(self, messages: tuple[Message, ...], score_at: ScoreAt) -> Rendered:
        """Render the whole conversation, ending with the token at which a reward is read."""
        if messages[-1].role != "assistant":
            raise ValueError("the last message must be the assistant's")
        rendered = self._rendered(messages)
        if score_at == "turn_end":
            end = rendered.text.rindex(self._turn_end) + len(self._turn_end)
            rendered = rendered._replace(text=rendered.text[:end])
        return rendered

    def answer(self, prompt: str, ids: Sequence[int]) -> Answer:
        """Find the answer of a reply to a rendered prompt, after what the model thought.

        A reply thinks if its prompt ends with the template's opening mark, or if it begins with
        a mark and the prompt does not end with the closing one, which switches thinking off.
        """
        if self.thinking is None:
            return Answer("", 0)
        opening, closing, forced = self.thinking
        if not prompt.rstrip().endswith(opening):
            begin = self._decode(ids[:OPENING_TOKENS]).lstrip()
            if prompt.rstrip().endswith(closing) or not begin.startswith((opening, closing)):
                return Answer("", 0)
        text = self._decode(ids)
        reasoning = text.strip().removeprefix(opening).partition(closing)[0]
        reasoning = reasoning.removesuffix(forced.partition(closing)[0]).strip()
        if closing not in text:
            return Answer(reasoning, None)
        # The first tokens that hold the closing mark.
        start = bisect_left(
            range(len(ids)), True, key=lambda end: closing in self._decode(ids[:end])
        )
        return Answer(reasoning, start)

    @cached_property
    def marks_are_tokens(self) -> bool:
        """Whether the marks are the same tokens in any text, as those added to a vocabulary are."""
        assert self.thinking is not None
        added = self._tokenizer.added_tokens_decoder
        opening, closing = (
            self._tokenizer(mark, add_special_tokens=False)["input_ids"]
            for mark in self.thinking[:2]
        )
        return {opening[0], closing[0], closing[-1]} <= set(added)

    @cached_property
    def closing_ids(self) -> list[int]:
        """Tokens that end the reasoning."""
        assert self.thinking is not None
        return list(self._tokenizer(self.thinking.forced, add_special_tokens=False)["input_ids"])

    def _decode(self, ids: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=False))

    @cached_property
    def _bos(self) -> str:
        """The token with which the tokenizer begins a text by itself; empty if with none."""
        if not (bos := self._tokenizer.bos_token):
            return ""
        first = self._tokenizer("a", add_special_tokens=True)["input_ids"][0]
        return str(bos) if first == self._tokenizer.bos_token_id else ""

    @cached_property
    def _turn_end(self) -> str:
        """The end-of-turn token, such as `<|im_end|>`, without what follows it."""
        text = self._apply((Message("user", ("a",)), Message("assistant", ("Probe",))))
        tail = text[text.rindex("Probe") + len("Probe") :]
        ids = self._tokenizer(tail, add_special_tokens=False)["input_ids"]
        special = set(self._tokenizer.all_special_ids)
        ends = [token for token in ids if token in special]
        return str(self._tokenizer.decode(ends[:1])) if ends else str(self._tokenizer.eos_token)

    @cached_property
    def _takes_parts(self) -> bool:
        """Whether the template reads a list of parts, as opposed to printing or refusing it."""
        content = [{"type": "text", "text": "Probe"}]
        turns = [{"role": "user", "content": content}]
        try:
            text = self._template.apply_chat_template(turns, tokenize=False)
        except BonError:  # its limits
            raise
        except Exception:  # templates raise anything
            return False
        return "Probe" in text and "'text'" not in text and '"text"' not in text

    def _rendered(
        self, messages: tuple[Message, ...], *, add_generation_prompt: bool = False
    ) -> Rendered:
        parts = [part for message in messages for part in message.parts]
        images = tuple(part for part in parts if isinstance(part, ImagePart))
        if images and not self._reads_images:
            fix = "take a vision-language model (a rewarder: or image_filter: drop)"
            raise BonError(f"model {self._model!r} reads text alone, and an item has images", fix)
        text = self._apply(messages, add_generation_prompt=add_generation_prompt)
        if not text.startswith(self._bos):  # transformers adds it in a processor alone
            if self._is_processor:
                text = self._bos + text
            else:
                self.warning = NO_BOS.format(self._bos)
        return Rendered(text, images)

    def _apply(self, messages: tuple[Message, ...], *, add_generation_prompt: bool = False) -> str:
        numbers = count(1)  # of images, through the whole conversation
        turns = [{"role": m.role, "content": self._content(m, numbers)} for m in messages]
        options = {"tokenize": False, "add_generation_prompt": add_generation_prompt}
        return str(self._template.apply_chat_template(turns, **options, **self._kwargs))

    def _content(self, message: Message, numbers: "count[int]") -> Any:
        if self._takes_parts:
            return [
                {"type": "image"} if isinstance(part, ImagePart) else {"type": "text", "text": part}
                for part in message.parts
            ]
        text, opening = "", True
        for part in message.parts:
            opening = opening and isinstance(part, ImagePart)
            place = part if isinstance(part, str) else self._placeholder(next(numbers))
            if place is None:
                problem = f"the chat template of {self._model!r} has no place for images"
                fix = "use engine: vllm, which knows the model's placeholder, or another checkpoint"
                raise BonError(problem, fix)
            # A line of its own where images open the turn; else the text says what is around them.
            text += place + "\n" if place and opening else place
        return text
