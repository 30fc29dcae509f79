"""The engine without a model: deterministic, fast, and as good or bad as it is told to be.

It stands in for a real model in tests and in measurements of the chain itself. Everything it
says follows from a hash of the messages and the seed, so a run with it is reproducible to the
byte, whatever the batching, the order or the number of workers.
"""

import asyncio
from contextlib import nullcontext
from functools import lru_cache
from hashlib import blake2b
from math import exp, log, log1p
from struct import Struct
from typing import Any, ClassVar

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
from bon.engines.settings import EchoSettings

_LETTERS = ("A", "B", "C", "D")
_UNPARSED = "I cannot say."
_WORD = 2**32
_WORDS = Struct(">5I")  # of a digest


class EchoError(RuntimeError):
    """What a model that fails on an item would raise; made to order by the failure rates."""


class EchoEngine(Engine):
    """Answers from a hash, as often right and as often failing as its settings say."""

    name: ClassVar[str] = "echo"

    def __init__(self, settings: EchoSettings) -> None:
        self._settings = settings
        self._latency = settings.latency
        self._places = asyncio.Semaphore(settings.places) if settings.places else nullcontext()
        self._failure = settings.failure_rate * _WORD
        self._flaky = settings.flaky_rate * _WORD
        self._unparsed = settings.unparsed_rate * _WORD
        self._accuracy = settings.accuracy * _WORD
        self._head, _, self._tail = settings.reply.partition("{choice}")
        self._failed_once: set[bytes] = set()

    async def generate(self, request: GenerateRequest) -> Generation:
        """One reply a seed."""
        digest, length = await self._receive(request.messages)
        choices = request.choices or _LETTERS
        others = tuple(choice for choice in choices if choice != request.expected) or choices
        samples = tuple(
            self._sample(digest, seed, choices, others, request) for seed in request.seeds
        )
        return Generation(samples, length)

    async def likelihood(self, request: ScoreRequest) -> Likelihood:
        """Higher for expected responses, always negative."""
        digest, length = await self._receive(request.messages)
        words = sum(len(part.split()) for part in request.messages[-1].parts if type(part) is str)
        score = self._score(digest, request.expected)
        mean = score - log1p(exp(score)) - 0.05  # log sigmoid, kept off zero
        return Likelihood(mean * max(words, 1), max(words, 1), length)

    async def reward(self, request: ScoreRequest) -> Reward:
        """Positive for expected responses with probability `accuracy`."""
        digest, length = await self._receive(request.messages)
        return Reward(self._score(digest, request.expected), length)

    async def rank(self, request: RankRequest) -> Reward:
        """As for a reward."""
        asked = (Message("user", request.query), Message("assistant", request.document))
        return await self.reward(ScoreRequest(asked, request.expected))

    def info(self) -> dict[str, Any]:
        """The settings; there is nothing else."""
        return {"engine": self.name, **self._settings.model_dump()}

    async def _receive(self, messages: tuple[Message, ...]) -> tuple[bytes, int]:
        """The hash of what is asked and its length in words, after latency and failures."""
        digest, length = _read(messages)
        if self._latency:
            async with self._places:
                await asyncio.sleep(self._latency)
        fails, flakes, *_ = _WORDS.unpack(digest)
        if fails < self._failure:
            raise EchoError("echo was told to fail on this item")
        if flakes < self._flaky and digest not in self._failed_once:
            self._failed_once.add(digest)
            raise EchoError("echo was told to fail on the first attempt at this item")
        return digest, length

    def _sample(
        self,
        digest: bytes,
        seed: int,
        choices: tuple[str, ...],
        others: tuple[str, ...],
        request: GenerateRequest,
    ) -> Sample:
        drawn = blake2b(digest + seed.to_bytes(8, "big", signed=True), digest_size=20).digest()
        silent, chosen, other, sure, _ = _WORDS.unpack(drawn)
        if silent < self._unparsed:
            return Sample(_UNPARSED, 3, -1.5, (TokenLogprob(_UNPARSED, -1.5),))
        if request.expected is None:
            choice = choices[chosen % len(choices)]
        elif chosen < self._accuracy:
            choice = request.expected
        else:
            choice = others[other % len(others)]
        share = 0.5 + 0.49 * sure / _WORD  # probability of the choice made
        text, words = _reply(self._head, choice, self._tail)
        tokens: tuple[TokenLogprob, ...] = ()
        if request.logprobs:
            tokens = self._tokens(choice, share, choices, request.logprobs)
        return Sample(text, words, log(share), tokens)

    def _tokens(
        self, choice: str, share: float, choices: tuple[str, ...], count: int
    ) -> tuple[TokenLogprob, ...]:
        """The reply as certain text around one uncertain token."""
        rest = [other for other in choices if other != choice]
        top = {choice: log(share)}
        top |= {other: log((1.0 - share) / len(rest)) for other in rest}
        top = dict(list(top.items())[:count])
        tokens = [TokenLogprob(choice, log(share), top)]
        if self._head:
            tokens.insert(0, TokenLogprob(self._head, 0.0, {self._head: 0.0}))
        if self._tail:
            tokens.append(TokenLogprob(self._tail, 0.0, {self._tail: 0.0}))
        return tuple(tokens)

    def _score(self, digest: bytes, expected: bool | None) -> float:
        """Exponential magnitude; the sign as expected with probability `accuracy`."""
        _, _, amount, sign, _ = _WORDS.unpack(digest)
        size = -log((amount + 1) / (_WORD + 1))
        if expected is None:
            return size if sign % 2 else -size
        return size if (sign < self._accuracy) == expected else -size


def _read(messages: tuple[Message, ...]) -> tuple[bytes, int]:
    """A hash of roles, texts and image hashes with their boundaries, and the length in words."""
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


@lru_cache(maxsize=256)
def _reply(head: str, choice: str, tail: str) -> tuple[str, int]:
    """A reply and its length in words."""
    text = f"{head}{choice}{tail}"
    return text, len(text.split())
