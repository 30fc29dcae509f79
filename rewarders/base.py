"""What every rewarder is given and what it answers, whatever its kind."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from bon.core.images import IMAGE_MARK, ImageError
from bon.core.records import JudgementOutcome, travels
from bon.engines.base import Engine, ImagePart, Message, Part
from bon.experiment.config import RewarderCard
from bon.experiment.prompts import Prompt

Arity = Literal["one", "two", "many"]


@travels
@dataclass(frozen=True, slots=True)
class Item:
    """A downstream question or a preference pair: to a rewarder they are the same thing.

    `prompt` is the text shown for it (question and options, or the pair's prompt);
    `responses` maps text key to text, identical texts being one response. `images` belong to the
    prompt as a whole; those in `marked`, by the digits of their mark, stand within the texts
    (`bon.core.images`). `correct` is known to the driver and is passed on for the model-free echo
    engine only.
    """

    kind: Literal["question", "pair"]
    key: str
    prompt: str
    images: tuple[ImagePart, ...]
    responses: dict[str, str]
    correct: dict[str, bool] = field(default_factory=dict)
    marked: dict[str, ImagePart] = field(default_factory=dict)

    def parts(self, text: str) -> tuple[Part, ...]:
        """One of its texts, or a prompt that holds them, with the images where it marks them."""
        if not self.marked:
            return (text,)
        pieces: list[Part] = []
        for place, piece in enumerate(IMAGE_MARK.split(text)):
            stays = place % 2 == 0
            pieces.append(piece if stays else self.marked.get(piece, f"<image {piece}>"))
        return tuple(piece for piece in pieces if piece)


@dataclass(frozen=True, slots=True)
class Verdict:
    """One vote: what came back, before it is filed as a judgement.

    `reason`: why it is `unparsed`, or what to beware of in one that is not.
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

    `arity` says what one judgement compares: one response (a score), two (a verdict), or
    many (a choice). `judge` returns one verdict per seed; what it raises is filed as `error`.
    """

    arity: ClassVar[Arity]

    def __init__(self, card: RewarderCard, prompt: Prompt, engine: Engine) -> None:
        self.card = card
        self.prompt = prompt
        self.engine = engine

    @abstractmethod
    async def judge(
        self, item: Item, shown: tuple[str, ...], seeds: tuple[int, ...]
    ) -> list[Verdict]:
        """One verdict per seed on the responses `shown` (text keys, in the order shown)."""

    def turns(self, item: Item, **values: Any) -> tuple[Message, ...]:
        """The card's system turn, where it has one, and the user turn."""
        system = self.prompt.system
        opening = () if system is None else (Message("system", (system.render(),)),)
        return (*opening, self.user_message(item, **values))

    def user_message(self, item: Item, **values: Any) -> Message:
        """One user turn of images and prompt, in the card's order.

        `interleaved`: the images stand where the prompt first says `<image>`, if it does. Images
        that an item's texts mark stand where they are marked, and nowhere else.
        """
        text = self.prompt.render(prompt=item.prompt, **values) if self.prompt.text else item.prompt
        if self.card.images == "last":
            return Message("user", (*item.parts(text), *item.images))
        before, mark, after = text.partition("<image>")
        if self.card.images == "interleaved" and mark:
            return Message("user", (*item.parts(before), *item.images, *item.parts(after)))
        return Message("user", (*item.images, *item.parts(text)))

    def images_apart(self, item: Item) -> tuple[ImagePart, ...]:
        """The images of an item, for a model that takes none within its texts.

        Raises:
            ImageError: images stand within the prompt or a response.
        """
        if item.marked:
            raise ImageError(f"{self.card.name} takes no images within a prompt or a response")
        return item.images
