"""Models asked directly, in this process: no run directory, no Ray.

What is asked, how replies are read and how a choice is made is what a run does; only the driver
is missing. Models load on first use and stay until `close`.
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
from bon.core.errors import BonError
from bon.core.images import ImageError, encode, open_image
from bon.core.keys import content_key
from bon.core.records import Candidate, ImageRef, Judgement, Question
from bon.engines.base import ImagePart, Message
from bon.experiment.cards import Loaded
from bon.experiment.config import PolicyCard, RewarderCard
from bon.experiment.letters import option_letters
from bon.policies.ask import Ask, text_key
from bon.policies.question import policy_messages, question_block
from bon.rewarders.base import Item
from bon.rewarders.judge import Protocol
from bon.running.worker import Host, JudgeTask, ModelSpec, Payload, PolicySpec, Reply, RewarderSpec

Picture = str | Path | bytes | Image.Image
"""An image as a caller has it: a path, encoded bytes, or a PIL image."""
RETRIES = 2
ValueT = TypeVar("ValueT")


@dataclass(frozen=True)
class Asked:
    """One question as a caller states it, multiple-choice where it has options."""

    text: str
    options: tuple[str, ...] = ()
    images: tuple[ImagePart, ...] = ()

    @classmethod
    def of(cls, text: str, options: Sequence[str], images: Sequence[Picture]) -> "Asked":
        """Reads the images; BonError where there are more options than letters."""
        try:
            option_letters(options or ("",))
        except ValueError as error:
            raise BonError(str(error)) from None
        return cls(text, tuple(options), tuple(_part(image) for image in images))

    @property
    def record(self) -> Question:
        """As a run knows it."""
        refs = tuple(ImageRef(image.sha256, "") for image in self.images)
        hashes = [ref.sha256 for ref in refs]
        key = content_key("direct", self.text, list(self.options), hashes)
        return Question(key, key, "direct", self.text, self.options, None, refs)

    def messages(self, policy: Loaded[PolicyCard]) -> tuple[Message, ...]:
        """As a policy is asked: under its prompt where there are options to choose among."""
        if not self.options:
            return (Message("user", (*self.images, self.text)),)
        there = {image.sha256: image for image in self.images}
        return policy_messages(
            self.record, policy.prompt, lambda ref: there[ref.sha256], policy.card.images
        )

    def item(self, texts: Sequence[str]) -> Item:
        """As a rewarder is shown it, with the responses to judge."""
        shown = question_block(self.record) if self.options else self.text
        responses = {text_key(text): text for text in texts}
        return Item("question", self.record.key, shown, self.images, responses)


class Direct:
    """Loaded models of this process. Coroutines run on a loop in a thread of its own."""

    def __init__(self) -> None:
        self._host = Host({})
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="bon", daemon=True).start()

    def start(self, work: Coroutine[Any, Any, ValueT]) -> "Future[ValueT]":
        """Run a coroutine there, whatever loop the caller has or has not."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def judge(
        self, rewarder: Loaded[RewarderCard], item: Item, design: Design, *, remote_code: bool
    ) -> list[Judgement]:
        """Every judgement of an item that the design asks for.

        Raises:
            BonError: the model cannot be run, or every judgement failed.
        """
        rows = await self.judgements(rewarder, item, design, remote_code=remote_code)
        _some(rewarder.card.name, rows)
        return rows

    async def judgements(
        self, rewarder: Loaded[RewarderCard], item: Item, design: Design, *, remote_code: bool
    ) -> list[Judgement]:
        """The same, whatever became of them.

        Raises:
            BonError: the model cannot be run.
        """
        card = rewarder.card
        protocol = Protocol(rewarder.spec, card.votes, design, RETRIES)
        spec = RewarderSpec(rewarder, protocol, remote_code)
        reply = await self._run(f"{rewarder.spec}:{design}", spec, JudgeTask(item, (), card.votes))
        return list(reply.judgements)

    async def sample(
        self, policy: Loaded[PolicyCard], question: Asked, n: int, *, remote_code: bool
    ) -> list[Candidate]:
        """N candidates of a policy; those that failed are left out.

        Raises:
            BonError: the model cannot be run, or every candidate failed.
        """
        options = question.options or ("",)  # the reader wants one; its reading is not used
        key = question.record.key
        ask = Ask(key, question.messages(policy), options, None, tuple(range(n)))
        reply = await self._run(policy.spec, PolicySpec(policy, RETRIES, remote_code), ask)
        _some(policy.card.name, reply.candidates)
        return [row for row in reply.candidates if row.outcome != "error"]

    async def close(self) -> None:
        """Free the models."""
        await self._host.close()

    async def _run(self, name: str, spec: ModelSpec, payload: Payload) -> Reply:
        self._host.add(name, spec)
        reply = await self._host.run(name, [payload])
        if reply.failure:
            raise BonError(reply.failure)
        return reply


def _some(model: str, rows: Sequence[Candidate | Judgement]) -> None:
    if rows and all(row.outcome == "error" for row in rows):
        raise BonError(f"{model}: {rows[0].error}")


def _part(image: Picture) -> ImagePart:
    if isinstance(image, Image.Image):
        data = encode(image.convert("RGB"))
    else:
        try:
            open_image(image)  # refused before a model is loaded
        except ImageError as error:
            raise BonError(str(error), "give a path, bytes or a PIL image") from None
        data = image if isinstance(image, bytes) else Path(image).read_bytes()
    return ImagePart(hashlib.sha256(data).hexdigest(), data)
