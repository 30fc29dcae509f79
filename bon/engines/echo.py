"""The model-free engine for tests and for measuring the pipeline: deterministic and configurable.

Every reply follows from a hash of the messages and the seed, so runs are reproducible to the byte,
whatever the batching, the order or the number of workers.

Gold labels reach it by context (`answer_key`), never in a request, which every engine and every
user's class sees. Only a worker that runs the echo engine receives an answer key.
"""

import asyncio
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from hashlib import blake2b
from math import exp, log, log1p
from struct import Struct
from typing import Any, ClassVar

from bon.core.text import LETTERS
from bon.engines.base import (
    Engine,
    GenerateRequest,
    Generation,
    ImagePart,
    Likelihood,
    Message,
    RankRequest,
    Reward,
    Sample,
    ScoreRequest,
    TokenLogprob,
)
from bon.engines.metering import within
from bon.engines.settings import EchoSettings

_UNPARSED = "I cannot say."
_WORD = 2**32
_WORDS = Struct(">5I")  # of a digest

AnswerKey = str | tuple[bool, ...] | None
"""Correct answer of a question, or whether each response is correct; None: unknown."""

_ANSWER_KEY: ContextVar[AnswerKey] = ContextVar("answer_key", default=None)


def answer_key(key: AnswerKey) -> AbstractContextManager[AnswerKey]:
    """Set the answer key of every request made inside, also by tasks started there."""
    return within(_ANSWER_KEY, key)


class EchoError(RuntimeError):
    """A simulated failure."""


class EchoEngine(Engine):
    """Replies from a hash, with the accuracy and the failure rates of its settings."""

    name: ClassVar[str] = "echo"

    def __init__(self, settings: EchoSettings) -> None:
        self._settings = settings
        self._places = asyncio.Semaphore(settings.places) if settings.places else nullcontext()
        self._accuracy = settings.accuracy * _WORD
        self._head, _, self._tail = settings.reply.partition("{choice}")
        self._failed_once: set[bytes] = set()

    async def generate(self, request: GenerateRequest) -> Generation:
        """Return one reply per seed."""
        digest, length = await self._receive(request.messages)
        expected = _expected_choice(request.choices)
        samples = [self._sample(digest, seed, expected, request) for seed in request.seeds]
        return Generation(tuple(samples), length)

    async def likelihood(self, request: ScoreRequest) -> Likelihood:
        """Return a negative log-probability, higher for correct responses."""
        digest, length = await self._receive(request.messages)
        words = sum(len(part.split()) for part in request.messages[-1].parts if type(part) is str)
        score = self._score(digest)
        mean = score - log1p(exp(score)) - 0.05  # log sigmoid, kept off zero
        return Likelihood(mean * max(words, 1), max(words, 1), length)

    async def reward(self, request: ScoreRequest) -> Reward:
        """Return a score that is positive for correct responses with probability `accuracy`."""
        digest, length = await self._receive(request.messages)
        return Reward(self._score(digest), length)

    async def rank(self, request: RankRequest) -> Reward:
        """Score the document as a response to the query."""
        messages = (Message("user", request.query), Message("assistant", request.document))
        return await self.reward(ScoreRequest(messages))

    def info(self) -> dict[str, Any]:
        """Return the settings."""
        return {"engine": self.name, **self._settings.model_dump()}

    async def _receive(self, messages: tuple[Message, ...]) -> tuple[bytes, int]:
        digest, length = _hash(messages)
        if self._settings.latency:
            async with self._places:
                await asyncio.sleep(self._settings.latency)
        fails, flakes, *_ = _WORDS.unpack(digest)
        if fails < self._settings.failure_rate * _WORD:
            raise EchoError("echo was told to fail on this item")
        if flakes < self._settings.flaky_rate * _WORD and digest not in self._failed_once:
            self._failed_once.add(digest)
            raise EchoError("echo was told to fail on the first attempt at this item")
        return digest, length

    def _sample(
        self, digest: bytes, seed: int, expected: str | None, request: GenerateRequest
    ) -> Sample:
        choices, logprobs = request.choices or _choices(expected), request.logprobs
        seeded = blake2b(digest + seed.to_bytes(8, "big", signed=True), digest_size=20).digest()
        silent, first, second, third, _ = _WORDS.unpack(seeded)
        if silent < self._settings.unparsed_rate * _WORD:
            return Sample(_UNPARSED, 3, -1.5, (TokenLogprob(_UNPARSED, -1.5),))
        if expected is None:
            choice = choices[first % len(choices)]
        elif first < self._accuracy:
            choice = expected
        else:
            wrong = [choice for choice in choices if choice != expected] or choices
            choice = wrong[second % len(wrong)]
        probability = 0.5 + 0.49 * third / _WORD
        text = f"{self._head}{choice}{self._tail}"
        tokens: list[TokenLogprob] = []
        if logprobs:  # certain text around one uncertain token
            others = [other for other in choices if other != choice]
            top = {choice: log(probability)}
            top |= {other: log((1.0 - probability) / len(others)) for other in others}
            for token in (self._head, choice, self._tail):
                listed = dict(list(top.items())[:logprobs]) if token is choice else {token: 0.0}
                tokens += [TokenLogprob(token, listed[token], listed)] if token else []
        return Sample(text, len(text.split()), log(probability), tuple(tokens))

    def _score(self, digest: bytes) -> float:
        """Return an exponential magnitude, signed by the answer key and `accuracy`."""
        _, _, amount, sign, _ = _WORDS.unpack(digest)
        size = -log((amount + 1) / (_WORD + 1))
        match _ANSWER_KEY.get():
            case (bool(correct),):
                return size if (sign < self._accuracy) == correct else -size
        return size if sign % 2 else -size


def _expected_choice(choices: tuple[str, ...]) -> str | None:
    """Return the choice that the answer key marks correct, if any."""
    key = _ANSWER_KEY.get()
    if not isinstance(key, tuple):
        return key
    if len(key) == 1:  # choices are words for a response, the best one first
        return choices[0 if key[0] else -1] if len(choices) > 1 else None
    return next((choice for choice, correct in zip(choices, key, strict=True) if correct), None)


def _choices(expected: str | None) -> tuple[str, ...]:
    """Return the choices of a question without options: its answer and wrong ones like it."""
    if expected is None:
        return tuple(LETTERS[:4])
    if not any(char.isdigit() for char in expected):
        return (expected, "amber", "birch", "cedar")
    return tuple(
        "".join(str((int(char) + by) % 10) if char.isdecimal() else char for char in expected)
        for by in (0, 1, 3, 6)
    )


def _hash(messages: tuple[Message, ...]) -> tuple[bytes, int]:
    """Hash roles, texts and image hashes with their boundaries; also return the length in words."""
    pieces: list[bytes] = []
    length = 0
    for message in messages:
        pieces += (b"\x00", message.role.encode())
        for part in message.parts:
            if isinstance(part, ImagePart):
                pieces += (b"\x01", part.sha256.encode())
                length += 64
            else:
                pieces += (b"\x02", part.encode("utf-8", "surrogatepass"))
                length += part.count(" ") + 1
    return blake2b(b"".join(pieces), digest_size=20).digest(), length
