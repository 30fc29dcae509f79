"""Loaded models and the work they do: what runs inside a worker. Knows nothing of Ray."""

import asyncio
import hashlib
import json
import math
import sys
import time
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, TypeVar

from bon.choosing.race import Stakes
from bon.core.errors import BonError
from bon.core.images import ImageError, apply_filter, encode, open_image
from bon.core.records import Candidate, Effort, Judgement, columns_of, rows_of, travels
from bon.engines import build
from bon.engines.base import Engine, ImagePart
from bon.engines.gpu_memory import ROOM, wait_for_room
from bon.engines.metering import metered, take_turn
from bon.experiment.cards import Loaded, given_settings
from bon.experiment.config import Card, PolicyCard, RewarderCard
from bon.experiment.prompts import absent
from bon.policies import ask
from bon.policies.ask import Ask
from bon.rewarders import judge
from bon.rewarders.base import Item, Rewarder
from bon.rewarders.judge import Call, Protocol
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
RowT = TypeVar("RowT")


@travels
@dataclass(frozen=True, slots=True)
class JudgeTask:
    """An item to be judged, what is known of it, how many votes are wanted, and what is at stake.

    The stakes are for the design alone: no rewarder sees them. `again`: exactly these calls are
    made, of an engine that uses nothing it has kept of earlier prompts.
    """

    item: Item
    known: tuple[Judgement, ...]
    votes: int
    stakes: Stakes | None = None
    again: tuple[Call, ...] = ()


Payload = Ask | JudgeTask
Columns = Sequence[Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Reply:
    """What a batch came to, and what it ran on: versions, device, flags.

    `effort.busy` is the worker's time that fell to it, which its rows share equally. `failure` says
    why the model cannot go on at all.
    """

    candidates: tuple[Candidate, ...] = ()
    judgements: tuple[Judgement, ...] = ()
    engine: Mapping[str, Any] = field(default_factory=dict)
    effort: Effort = field(default_factory=Effort)
    failure: str = ""
    stop_run: bool = False

    def __reduce__(self) -> tuple[Any, ...]:
        rows = columns_of(self.candidates), columns_of(self.judgements)
        return _unpacked, (*rows, self.engine, self.effort, self.failure, self.stop_run)

    @property
    def each(self) -> float:
        """Seconds of the worker's time per row."""
        return self.effort.busy / max(1, len(self.candidates) + len(self.judgements))


def _unpacked(candidates: Columns, judgements: Columns, *more: Any) -> Reply:
    return Reply(rows_of(Candidate, candidates), rows_of(Judgement, judgements), *more)


class _Clock:
    """The worker's time, shared equally among the batches in flight: what each of them took.

    Time without any is `waited`: for input, after the first batch had come.
    """

    def __init__(self) -> None:
        self._active = 0
        self._here = 0
        self._left = math.inf
        self._shared = 0.0
        self._last = time.perf_counter()

    @contextmanager
    def here(self) -> Iterator[float]:
        """A batch is here, its model loaded or not; gives the seconds without any before it."""
        waited = 0.0 if self._here else max(0.0, time.perf_counter() - self._left)
        self._here += 1
        try:
            yield waited
        finally:
            self._here -= 1
            self._left = time.perf_counter()

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
        again = any(isinstance(payload, JudgeTask) and payload.again for payload in payloads)
        with self._clock.here() as waited, metered(fresh=again) as meter:
            try:
                engine, loading = await self._engine(spec)
                with self._clock.share() as spent:
                    if isinstance(spec, PolicySpec):
                        reply = Reply(candidates=await self._sample(spec, engine, payloads))
                    else:
                        reply = Reply(judgements=await self._judge(spec, engine, payloads))
            except BonError as error:
                return Reply(failure=str(error), stop_run=error.stops_run)
            effort = Effort(spent[0], waited, loading, meter.read, meter.cached)
            return replace(reply, engine=_plain(engine.info()), effort=effort)

    def add(self, name: str, spec: ModelSpec) -> None:
        """One more model, loaded on first use."""
        self._specs[name] = spec

    async def close(self) -> None:
        """Free every model, also where one of them cannot be freed."""
        engines = list(self._engines.values())
        self._engines.clear()
        await asyncio.gather(*(engine.close() for engine in engines), return_exceptions=True)

    async def _engine(self, spec: ModelSpec) -> tuple[Engine, float]:
        """The model, and the seconds that loading it took if it was this that loaded it."""
        card, model_path, prompt = spec.loaded.card, spec.loaded.model_path, spec.loaded.prompt
        if prompt.unpulled:
            raise absent(prompt.unpulled, [card.name])
        key = _engine_key(card, model_path)
        async with self._loading:
            began = time.perf_counter()
            if key in self._engines:
                return self._engines[key], 0.0
            arguments = engine_arguments(card, model_path, remote_code=spec.remote_code)
            # What this worker holds itself is no reason to wait.
            share = 0.0 if self._engines else room_wanted(card)
            held = await asyncio.to_thread(wait_for_room, share) if share else ""
            try:
                self._engines[key] = await asyncio.to_thread(build, card.engine, arguments)
            except BonError as error:
                if held:
                    raise BonError(f"{error.message}; {held}", error.fix) from error
                raise
            return self._engines[key], time.perf_counter() - began

    async def _sample(
        self, spec: PolicySpec, engine: Engine, payloads: Sequence[Payload]
    ) -> tuple[Candidate, ...]:
        card = spec.loaded.card
        return await _in_turn(
            ask.sample(engine, card, spec.loaded.spec, spec.retries, payload)
            for payload in payloads
            if isinstance(payload, Ask)
        )

    async def _judge(
        self, spec: RewarderSpec, engine: Engine, payloads: Sequence[Payload]
    ) -> tuple[Judgement, ...]:
        made = spec.own or rewarder_class(spec.loaded.card)
        rewarder: Rewarder = made(spec.loaded.card, spec.loaded.prompt, engine)
        seen = spec.loaded.card.image_filter

        def judged(task: JudgeTask) -> Coroutine[Any, Any, list[Judgement]]:
            item = seen_item(task.item, seen)
            protocol = spec.protocol.voted(task.votes)
            if task.again:
                return judge.ask(rewarder, item, protocol, task.again)
            return judge.judge_item(rewarder, item, protocol, task.known, task.stakes)

        return await _in_turn(judged(task) for task in payloads if isinstance(task, JudgeTask))


async def _in_turn(items: Iterable[Coroutine[Any, Any, list[RowT]]]) -> tuple[RowT, ...]:
    """The rows of all items, worked on at once; where there is a queue the first go first."""

    async def one(item: Coroutine[Any, Any, list[RowT]]) -> list[RowT]:
        take_turn()
        return await item

    found = await asyncio.gather(*(one(item) for item in items))
    return tuple(row for rows in found for row in rows)


def give_up(spec: ModelSpec, payload: Payload, error: str) -> Reply:
    """What is missing of a payload, filed as errors: it cannot be worked on."""
    card, prompt = spec.loaded.card, spec.loaded.prompt
    if isinstance(payload, Ask):
        assert isinstance(card, PolicyCard)
        return Reply(candidates=tuple(ask.give_up(card, spec.loaded.spec, payload, error)))
    assert isinstance(card, RewarderCard)
    assert isinstance(spec, RewarderSpec)
    protocol = spec.protocol.voted(payload.votes)
    to_file = card, rewarder_class(card).arity, prompt.sha256[:16], payload.item, protocol
    if payload.again:
        return Reply(judgements=tuple(judge.failed(*to_file, payload.again, error)))
    return Reply(judgements=tuple(judge.give_up(*to_file, payload.known, error, payload.stakes)))


def engine_arguments(card: Card, model_path: str, *, remote_code: bool) -> dict[str, Any]:
    """What the engine is built with, if the code that comes with the model is allowed."""
    if _asks(card.engine_args, "trust_remote_code") and not remote_code:
        raise BonError(
            f"card {card.name!r} runs code that comes with the model",
            "read that code, then allow it with --allow-remote-code",
        )
    return given_settings(card, model_path)


def room_wanted(card: Card) -> float:
    """The share of each of its GPUs that a model needs; 0 where it has none."""
    told = card.engine_args.get("engine_args")
    reserved = told.get("gpu_memory_utilization") if isinstance(told, Mapping) else None
    return float(reserved or ROOM * min(1.0, card.placement.gpus)) if card.placement.gpus else 0.0


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


def _plain(info: Mapping[str, Any]) -> dict[str, Any]:
    """As it is written down. A version in torch's own class would have its reader import torch."""
    found: dict[str, Any] = json.loads(json.dumps(dict(info)))
    return found


def _engine_key(card: Card, model_path: str) -> str:
    return json.dumps([card.engine, model_path, card.revision, card.engine_args], sort_keys=True)
