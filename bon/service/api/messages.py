"""OpenAI-style messages as the engines take them; images are data URLs."""

import asyncio
import base64
import ctypes
import hashlib
import re
from contextlib import suppress
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from bon.core.images import ImageError, open_image
from bon.dispatch.direct import DirectQuestion
from bon.engines.base import ImagePart, Message, Part
from bon.experiment.cards import Loaded
from bon.experiment.config import PolicyCard
from bon.policies.prompting import question_block
from bon.service.errors import ApiError
from bon.service.online.selector import Conversation

MAX_RATIO = 200
"""Of an image's sides: Qwen-VL's processors refuse more."""
MAX_SIDE, MAX_PIXELS, MAX_IMAGE_BYTES = 32_768, 40_000_000, 10 * 1024**2
"""Of an image: decoded it takes 160 MB."""
MAX_IMAGES, REQUEST_PIXELS = 16, 64_000_000
"""Of a request."""
MAX_CANDIDATES = 64
"""Of an online request: a judge of pairs reads them 4,032 times."""
TEXT_CHARS = 200_000
"""Of a message or candidate: the longest contexts hold about as much."""
_LARGE = 4_000_000
_OPENING = asyncio.Semaphore(2)  # so that other requests find a thread and a core
_DATA_URL = re.compile(r"data:image/[a-z0-9.+-]+;base64,", re.IGNORECASE)


class Open(BaseModel):
    """A body in which clients may send more fields than are used here."""

    model_config = ConfigDict(extra="ignore")


class ImageUrl(Open):
    """A data URL."""

    url: str


class TextPart(Open):
    """Text."""

    type: Literal["text"]
    text: str


class ImageUrlPart(Open):
    """An image."""

    type: Literal["image_url"]
    image_url: ImageUrl


ContentPart = Annotated[TextPart | ImageUrlPart, Field(discriminator="type")]


class ChatMessage(Open):
    """A turn."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[ContentPart] = Field(min_length=1)


Messages = Annotated[list[ChatMessage], Field(min_length=1, max_length=200)]
Option = Annotated[str, Field(max_length=10_000)]
Options = Annotated[list[Option], Field(max_length=26)]


async def conversation(
    owner: str,
    messages: list[ChatMessage],
    options: list[str] | None = None,
    policy: Loaded[PolicyCard] | None = None,
) -> Conversation:
    """Return the messages with their images read; `options` make them a question.

    A question is asked with the policy's own prompt, as when it was validated.
    """
    if messages[-1].role != "user":
        raise ApiError(422, "the last message must be the user's")
    lists = [m.content for m in messages if not isinstance(m.content, str)]
    images = sum(isinstance(part, ImageUrlPart) for parts in lists for part in parts)
    if images > MAX_IMAGES:
        raise ApiError(413, f"{images} images", f"at most {MAX_IMAGES}")
    turns, pixels = [], REQUEST_PIXELS
    for message in messages:
        parts: list[Part] = []
        for part in [message.content] if isinstance(message.content, str) else message.content:
            if isinstance(part, ImageUrlPart):
                image, size = await _read_image(part.image_url.url, pixels)
                parts.append(image)
                pixels -= size
            else:
                text = part if isinstance(part, str) else part.text
                check_text(text, "a message")
                parts.append(text)
        role: Any = "system" if message.role == "developer" else message.role
        turns.append(Message(role, tuple(parts)))
    plain = Conversation(tuple(turns), owner=owner)
    if not options:
        return plain
    if len(turns) != 1:
        raise ApiError(422, "`options` go with a single user message")
    for option in options:
        check_text(option, "an option")
    question = DirectQuestion(plain.text, tuple(options), plain.images)
    turn = question.messages(policy) if policy and policy.prompt.text else plain.messages
    return Conversation(turn, question.options, question_block(question.record), owner)


async def _read_image(url: str, pixels: int) -> tuple[ImagePart, int]:
    """Return the image and its pixels, at most `pixels`; it is decoded to check it."""
    head, most = _DATA_URL.match(url), MAX_IMAGE_BYTES
    if head is None:
        raise ApiError(422, "an image is a data URL: it begins with data:image/TYPE;base64,")
    if len(url) - head.end() > most * 4 / 3 + 4:
        raise ApiError(413, f"the image is larger than {most} bytes")
    try:
        data = base64.b64decode(url[head.end() :], validate=True)
    except ValueError:
        raise ApiError(422, "the image is not valid base64") from None
    try:
        async with _OPENING:
            size = await asyncio.to_thread(_size, data, min(pixels, MAX_PIXELS))
    except ImageError as error:
        raise ApiError(413 if "pixels" in str(error) else 422, str(error)) from None
    return ImagePart(hashlib.sha256(data).hexdigest(), data), size


def _size(data: bytes, pixels: int) -> int:
    """Decode an image to check it, and return its pixels."""
    image = open_image(data, pixels, MAX_SIDE, MAX_RATIO)
    size = image.width * image.height
    del image
    if size > _LARGE:  # glibc keeps the memory of a thread: 470 MB after 39 million pixels
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
    return size


def check_text(text: str, what: str) -> None:
    """Refuse a text that is too long or not valid Unicode."""
    if len(text) > TEXT_CHARS:
        raise ApiError(413, f"{what} has {len(text)} characters", f"at most {TEXT_CHARS}")
    try:
        text.encode()
    except UnicodeEncodeError:
        message = f"{what} holds half of a surrogate pair"
        raise ApiError(422, message, "send valid Unicode") from None
