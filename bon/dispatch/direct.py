"""Models called in this process: no run directory, no Ray, the prompts and parsing of a run.

Models load on first use and stay until `close`.
"""

import asyncio
import hashlib
import threading
from collections.abc import Coroutine, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from PIL import Image

from bon.choosing.designs import Design
from bon.core.errors import BonError, shown
from bon.core.images import ImageError, encode, open_image
from bon.core.keys import content_key, text_key
from bon.core.records import Candidate, ImageRef, Judgement, Question
from bon.core.text import option_letters
from bon.dispatch.worker import Host, JudgeTask, ModelSpec, Payload, Reply
from bon.engines.base import ImagePart, Message
from bon.experiment.cards import Loaded
from bon.experiment.config import PolicyCard, RewarderCard
from bon.policies.generate import Ask
from bon.policies.prompting import policy_messages, question_block
from bon.rewarders.base import Item
from bon.rewarders.item_judging import Protocol

Picture = str | Path | bytes | Image.Image
"""A path, encoded bytes, or a PIL image."""
RETRIES = 2
ValueT = TypeVar("ValueT")


@dataclass(frozen=True)
class DirectQuestion:
    """A caller's question, multiple-choice where it has options."""

    text: str
    options: tuple[str, ...] = ()
    images: tuple[ImagePart, ...] = ()

    @classmethod
    def of(
        cls, text: str, options: Sequence[str], images: Picture | Sequence[Picture]
    ) -> "DirectQuestion":
        """Read the image or images; BonError for more options than letters."""
        (text,) = texts_of("question", [text])
        options = texts_of("options", options)
        if isinstance(images, Picture):
            images = [images]
        try:
            option_letters(options or ("",))
        except ValueError as error:
            raise BonError(str(error)) from None
        return cls(text, options, tuple(_part(image) for image in images))

    @property
    def record(self) -> Question:
        """The question as a record of a run."""
        refs = tuple(ImageRef(image.sha256, "") for image in self.images)
        hashes = [ref.sha256 for ref in refs]
        key = content_key("direct", self.text, list(self.options), hashes)
        return Question(key, key, "direct", self.text, self.options, None, refs)

    def messages(self, policy: Loaded[PolicyCard]) -> tuple[Message, ...]:
        """Return the messages for a policy: its prompt is used for multiple-choice questions."""
        if not self.options:
            return (Message("user", (*self.images, self.text)),)
        images = {image.sha256: image for image in self.images}
        return policy_messages(
            self.record, policy.prompt, lambda ref: images[ref.sha256], policy.card.images
        )

    def item(self, texts: Sequence[str]) -> Item:
        """Return the item a rewarder judges."""
        prompt = question_block(self.record) if self.options else self.text
        responses = {text_key(text): text for text in texts}
        return Item("question", self.record.key, prompt, self.images, responses)


class Direct:
    """Loaded models of this process, on an event loop in a thread of its own."""

    def __init__(self) -> None:
        self._host = Host({})
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="bon", daemon=True).start()

    def start(self, work: Coroutine[Any, Any, ValueT]) -> "Future[ValueT]":
        """Run a coroutine on that loop, from any thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def judge(
        self, rewarder: Loaded[RewarderCard], item: Item, design: Design, *, remote_code: bool
    ) -> list[Judgement]:
        """Return every judgement of an item that the design needs.

        Raises BonError if the model cannot run or every judgement failed.
        """
        card = rewarder.card
        protocol = Protocol(rewarder.spec, card.votes, design, RETRIES)
        spec = ModelSpec(rewarder, remote_code, protocol)
        reply = await self._run(f"{rewarder.spec}:{design}", spec, JudgeTask(item, (), card.votes))
        _raise_if_all_failed(card.name, reply.judgements)
        return list(reply.judgements)

    async def sample(
        self, policy: Loaded[PolicyCard], question: DirectQuestion, n: int, *, remote_code: bool
    ) -> list[Candidate]:
        """Return up to n candidates of a policy, without failed ones.

        Raises BonError if the model cannot run or every candidate failed.
        """
        options = question.options or ("",)  # answer extraction needs one; its result is unused
        key = question.record.key
        ask = Ask(key, question.messages(policy), options, tuple(range(n)))
        spec = ModelSpec(policy, remote_code, retries=RETRIES)
        reply = await self._run(policy.spec, spec, ask)
        _raise_if_all_failed(policy.card.name, reply.candidates)
        return [row for row in reply.candidates if row.outcome != "error"]

    async def close(self) -> None:
        """Free the models."""
        await self._host.close()

    async def _run(self, name: str, spec: ModelSpec, payload: Payload) -> Reply:
        self._host.specs[name] = spec
        reply = await self._host.run(name, [payload])
        if reply.failure:
            raise BonError(reply.failure)
        return reply


def _raise_if_all_failed(model: str, rows: Sequence[Candidate | Judgement]) -> None:
    if rows and all(row.outcome == "error" for row in rows):
        raise BonError(f"{model}: {rows[0].error}")


def texts_of(argument: str, texts: Sequence[str]) -> tuple[str, ...]:
    """Return the texts of an argument; TypeError names it where they are none, or one text."""
    several = (texts,) if isinstance(texts, bytes) else tuple(texts)
    if isinstance(texts, str) or not all(isinstance(text, str) for text in several):
        raise TypeError(f"{argument} must hold texts (str), not {shown(texts)}")
    return several


def _part(image: Picture) -> ImagePart:
    if isinstance(image, Image.Image):
        data = encode(image.convert("RGB"))
    else:
        try:
            open_image(image)  # fails before a model is loaded
        except ImageError as error:
            raise BonError(str(error), "give a path, bytes or a PIL image") from None
        data = image if isinstance(image, bytes) else Path(image).read_bytes()
    return ImagePart(hashlib.sha256(data).hexdigest(), data)
