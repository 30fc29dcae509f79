"""Loaded models and the work they do: what runs inside a worker. Knows nothing of Ray."""

import asyncio
import hashlib
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from bon.choosing.race import Stakes
from bon.core.errors import BonError
from bon.core.images import ImageError, apply_filter, encode, open_image
from bon.core.records import Candidate, Judgement, travels
from bon.engines import build
from bon.engines.base import Engine, ImagePart
from bon.experiment.cards import Loaded, given_settings
from bon.experiment.config import Card, PolicyCard, RewarderCard
from bon.policies import ask
from bon.policies.ask import Ask
from bon.rewarders import judge
from bon.rewarders.base import Item, Rewarder
from bon.rewarders.judge import Protocol
from bon.rewarders.registry import rewarder_class


@dataclass(frozen=True)
class PolicySpec:
    """A policy to run and how: `retries` again after an item fails."""

    loaded: Loaded[PolicyCard]
    retries: int
    remote_code: bool = False


@dataclass(frozen=True)
class RewarderSpec:
    """A rewarder to run; `votes` on a benchmark come with each task.

    `own` is a class that was registered with the driver: it travels, for a worker has no name
    to import it by.
    """

    loaded: Loaded[RewarderCard]
    protocol: Protocol
    remote_code: bool = False
    own: type[Rewarder] | None = None


ModelSpec = PolicySpec | RewarderSpec


@travels
@dataclass(frozen=True, slots=True)
class JudgeTask:
    """An item to be judged, what is known of it, how many votes are wanted, and what is at stake.

    The stakes are for the design alone: no rewarder sees them.
    """

    item: Item
    known: tuple[Judgement, ...]
    votes: int
    stakes: Stakes | None = None


Payload = Ask | JudgeTask


@dataclass(frozen=True, slots=True)
class Reply:
    """What a batch came to, and what it ran on: versions, device, flags.

    `seconds` is the worker's time that fell to it, which its rows share equally. `failure` says
    why the model cannot go on at all.
    """

    candidates: tuple[Candidate, ...] = ()
    judgements: tuple[Judgement, ...] = ()
    engine: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    failure: str = ""
    stop_run: bool = False

    @property
    def each(self) -> float:
        """Seconds of the worker's time per row."""
        return self.seconds / max(1, len(self.candidates) + len(self.judgements))


class _Clock:
    """The worker's time, shared equally among the batches in flight: what each of them took."""

    def __init__(self) -> None:
        self._active = 0
        self._shared = 0.0
        self._last = time.perf_counter()

    @contextmanager
    def share(self) -> Iterator[list[float]]:
        """Fills its list with the seconds that fell to the batch."""
        spent: list[float] = []
        self._advance(1)
        before = self._shared
        try:
            yield spent
        finally:
            self._advance(-1)
            spent.append(self._shared - before)

    def _advance(self, change: int) -> None:
        now = time.perf_counter()
        if self._active:
            self._shared += (now - self._last) / self._active
        self._last = now
        self._active += change


class Host:
    """Models of one worker, each loaded on first use; cards of one checkpoint share it."""

    def __init__(self, specs: dict[str, ModelSpec], path: Sequence[str] = ()) -> None:
        # Appended, never in front: a folder of the user's must not shadow what is installed.
        sys.path.extend(entry for entry in path if entry not in sys.path)
        self._specs = specs
        self._engines: dict[str, Engine] = {}
        self._loading = asyncio.Lock()
        self._clock = _Clock()

    async def run(self, model: str, payloads: Sequence[Payload]) -> Reply:
        """Every payload of a batch at once; the engine batches them."""
        spec = self._specs[model]
        try:
            engine = await self._engine(spec.loaded.card, spec.loaded.model_path, spec.remote_code)
            with self._clock.share() as spent:
                if isinstance(spec, PolicySpec):
                    reply = Reply(candidates=await self._sample(spec, engine, payloads))
                else:
                    reply = Reply(judgements=await self._judge(spec, engine, payloads))
        except BonError as error:
            return Reply(failure=str(error), stop_run=error.stops_run)
        return replace(reply, engine=engine.info(), seconds=spent[0])

    def add(self, name: str, spec: ModelSpec) -> None:
        """One more model, loaded on first use."""
        self._specs[name] = spec

    async def close(self) -> None:
        """Free every model, also where one of them cannot be freed."""
        engines = list(self._engines.values())
        self._engines.clear()
        await asyncio.gather(*(engine.close() for engine in engines), return_exceptions=True)

    async def _engine(self, card: Card, model_path: str, remote_code: bool) -> Engine:
        key = _engine_key(card, model_path)
        async with self._loading:
            if key not in self._engines:
                arguments = engine_arguments(card, model_path, remote_code=remote_code)
                self._engines[key] = await asyncio.to_thread(build, card.engine, arguments)
            return self._engines[key]

    async def _sample(
        self, spec: PolicySpec, engine: Engine, payloads: Sequence[Payload]
    ) -> tuple[Candidate, ...]:
        card = spec.loaded.card
        rows = await asyncio.gather(
            *(
                ask.sample(engine, card, spec.loaded.spec, spec.retries, payload)
                for payload in payloads
                if isinstance(payload, Ask)
            )
        )
        return tuple(row for batch in rows for row in batch)

    async def _judge(
        self, spec: RewarderSpec, engine: Engine, payloads: Sequence[Payload]
    ) -> tuple[Judgement, ...]:
        made = spec.own or rewarder_class(spec.loaded.card)
        rewarder: Rewarder = made(spec.loaded.card, spec.loaded.prompt, engine)
        seen = spec.loaded.card.image_filter
        rows = await asyncio.gather(
            *(
                judge.judge_item(
                    rewarder,
                    seen_item(task.item, seen),
                    replace(spec.protocol, votes=task.votes),
                    task.known,
                    task.stakes,
                )
                for task in payloads
                if isinstance(task, JudgeTask)
            )
        )
        return tuple(row for batch in rows for row in batch)


def give_up(spec: ModelSpec, payload: Payload, error: str) -> Reply:
    """What is missing of a payload, filed as errors: it cannot be worked on."""
    card, prompt = spec.loaded.card, spec.loaded.prompt
    if isinstance(payload, Ask):
        assert isinstance(card, PolicyCard)
        return Reply(candidates=tuple(ask.give_up(card, spec.loaded.spec, payload, error)))
    assert isinstance(card, RewarderCard)
    assert isinstance(spec, RewarderSpec)
    protocol = replace(spec.protocol, votes=payload.votes)
    rows = judge.give_up(
        card,
        rewarder_class(card).arity,
        prompt.sha256[:16],
        payload.item,
        protocol,
        payload.known,
        error,
        payload.stakes,
    )
    return Reply(judgements=tuple(rows))


def engine_arguments(card: Card, model_path: str, *, remote_code: bool) -> dict[str, Any]:
    """What the engine is built with, if the code that comes with the model is allowed."""
    if _asks(card.engine_args, "trust_remote_code") and not remote_code:
        raise BonError(
            f"card {card.name!r} runs code that comes with the model",
            "read that code, then allow it with --allow-remote-code",
        )
    return given_settings(card, model_path)


def _asks(arguments: Mapping[str, Any], name: str) -> bool:
    """Whether a setting is on, at any depth of the arguments."""
    return any(
        _asks(value, name) if isinstance(value, Mapping) else key == name and bool(value)
        for key, value in arguments.items()
    )


def seen_item(item: Item, name: str) -> Item:
    """The item with what a handicapped rewarder sees of its images."""
    if name == "none":
        return item
    if name == "drop":
        return replace(item, images=(), marked={})
    return replace(
        item,
        images=tuple(_filtered(image, name) for image in item.images),
        marked={mark: _filtered(image, name) for mark, image in item.marked.items()},
    )


@lru_cache(maxsize=256)
def _filtered(image: ImagePart, name: str) -> ImagePart:
    try:
        seen = apply_filter(open_image(image.data), name)
    except ImageError:
        return image  # the engine meets the same fault and files it on this item alone
    assert seen is not None
    data = encode(seen)
    return ImagePart(hashlib.sha256(data).hexdigest(), data)


def _engine_key(card: Card, model_path: str) -> str:
    return json.dumps([card.engine, model_path, card.revision, card.engine_args], sort_keys=True)
