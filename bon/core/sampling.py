"""Sampling settings of cards and engines."""

from typing import Any

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from bon.core.validation import MAX_ITEMS, Strict, Word

BARE_ANSWER = 8
"""Limits of so few tokens ask for a bare answer or verdict, which they do not cut off."""


class Sampling(Strict):
    """Sampling settings, never inherited from the model's own defaults.

    `temperature: 0` is greedy; `top_k: 0`, `top_p: 1` and `repetition_penalty: 1`
    (arXiv 1909.05858) change nothing. With `max_thinking_tokens` a thinking model's reasoning is
    ended after so many tokens, and `max_tokens` limits its answer; without, both together.
    """

    temperature: float = Field(1.0, ge=0, le=100)
    top_p: float = Field(1.0, gt=0, le=1)
    top_k: int = Field(0, ge=0, le=1_000_000)
    max_tokens: int = Field(1024, ge=1, le=1_000_000)
    max_thinking_tokens: int | None = Field(None, ge=1, le=1_000_000)
    stop: tuple[Word, ...] = Field((), max_length=MAX_ITEMS)
    repetition_penalty: float = Field(1.0, gt=0, le=10)

    @property
    def max_new_tokens(self) -> int:
        """The limit on reasoning and answer together."""
        return self.max_tokens + (self.max_thinking_tokens or 0)

    @model_serializer(mode="wrap")
    def _without_later_defaults(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out defaults of later settings, so that keys from before them stay the same."""
        data: dict[str, Any] = serialize(self)
        if self.max_thinking_tokens is None:
            data.pop("max_thinking_tokens", None)
        if self.repetition_penalty == 1:
            data.pop("repetition_penalty", None)
        return data
