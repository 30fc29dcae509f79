"""The rewarder interface: what every kind receives and returns."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from bon.core.images import IMAGE_MARK
from bon.core.records import JudgementOutcome
from bon.engines.base import Engine, ImagePart, Message, Part
from bon.engines.echo import answer_key
from bon.experiment.config import RewarderCard
from bon.experiment.prompts import Prompt

Arity = Literal["one", "two", "many"]
Shown = tuple[str, ...]  # text keys of the responses that a call shows, in this order
Seeds = tuple[int, ...]


@dataclass(frozen=True)  # no slots: they pickle in twice the time
class Item:
    """A downstream question or a preference pair, which rewarders do not distinguish.

    `prompt` is the text of the question with its options, or the pair's prompt; `responses` maps
    text keys to texts, identical texts being one response. `images` belong to the prompt as a
    whole; those in `marked`, by the digits of their mark, are within the texts
    (`bon.core.images`). Nothing here, no order either, depends on the gold labels.
    """

    kind: Literal["question", "pair"]
    key: str
    prompt: str
    images: tuple[ImagePart, ...]
    responses: dict[str, str]
    marked: dict[str, ImagePart] = field(default_factory=dict)

    def parts(self, text: str) -> tuple[Part, ...]:
        """Split a text of the item, or a prompt that contains some, at its marked images."""
        if not self.marked:
            return (text,)
        pieces = IMAGE_MARK.split(text)
        pieces[1::2] = [self.marked.get(mark, f"<image {mark}>") for mark in pieces[1::2]]
        return tuple(piece for piece in pieces if piece)


@dataclass(frozen=True, slots=True)
class Verdict:
    """One vote before it is stored as a judgement.

    `reason`: why it is `unparsed`, or a warning about one that is not.
    """

    outcome: JudgementOutcome
    score: float | None = None
    text: str = ""
    num_tokens: int = 0
    num_prompt_tokens: int = 0
    cost: float = 0.0
    reason: str = ""


class Rewarder(ABC):
    """One loaded rewarder. A user's own is a subclass named `module:Class` in a card.

    `arity` is what one judgement compares: one response (a score), two (a verdict), or many (a
    choice). An exception in `judge` is stored as outcome `error`.
    """

    arity: ClassVar[Arity]

    def __init__(self, card: RewarderCard, prompt: Prompt, engine: Engine) -> None:
        self.card = card
        self.prompt = prompt
        self.engine = engine

    @abstractmethod
    async def judge(self, item: Item, shown: Shown, seeds: Seeds) -> list[Verdict]:
        """Return one verdict per seed on the responses `shown` (text keys, in this order)."""

    def turns(self, item: Item, **values: Any) -> tuple[Message, ...]:
        """Return the card's system turn, if it has one, and the user turn."""
        system = self.prompt.system
        opening = () if system is None else (Message("system", (system.render(),)),)
        return (*opening, self.user_message(item, **values))

    def user_message(self, item: Item, **values: Any) -> Message:
        """Return the user turn: images and prompt in the card's order.

        `interleaved` puts the images where the prompt first says `<image>`. Images that an item's
        texts mark are only where they are marked.
        """
        text = self.prompt.render(prompt=item.prompt, **values) if self.prompt.text else item.prompt
        if self.card.images == "last":
            return Message("user", (*item.parts(text), *item.images))
        before, tag, after = text.partition("<image>")
        if self.card.images == "interleaved" and tag:
            if not item.images:
                after = after.removeprefix("\n")
            return Message("user", (*item.parts(before), *item.images, *item.parts(after)))
        return Message("user", (*item.images, *item.parts(text)))


class OnEcho(Rewarder):
    """A rewarder on the echo engine, which receives the answer key; the rewarder does not."""

    def __init__(self, rewarder: Rewarder, correct: Mapping[str, bool]) -> None:
        super().__init__(rewarder.card, rewarder.prompt, rewarder.engine)
        self.arity = rewarder.arity  # type: ignore[misc]  # of the instance
        self._rewarder, self._correct = rewarder, correct

    async def judge(self, item: Item, shown: Shown, seeds: Seeds) -> list[Verdict]:
        """Judge; of two correct responses neither is marked as the better one."""
        key = tuple(self._correct[response] for response in shown)
        if self.arity == "two" and all(key):
            key = (False, False)
        with answer_key(key):
            return await self._rewarder.judge(item, shown, seeds)
