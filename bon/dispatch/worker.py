"""Loaded models and the work they do inside a worker, without Ray."""

import asyncio
import hashlib
import json
import math
import sys
import time
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from itertools import repeat
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from bon.choosing.race import EarlyStopping
from bon.core.errors import BonError, EngineDied, engine_died, one_line
from bon.core.images import ImageError, apply_filter, encode, open_image
from bon.core.ledger import Account, Ledger
from bon.core.records import Candidate, Effort, Judgement
from bon.engines import build
from bon.engines.base import Engine, ImagePart
from bon.engines.echo import answer_key
from bon.engines.endpoints.budget import Budget, paying, purchases, stop
from bon.engines.fields import EngineSettings
from bon.engines.free_gpu_memory import alone_on_gpus, wait_for_room
from bon.engines.metering import metered, take_turn
from bon.experiment.cards import Loaded, settings_of
from bon.experiment.config import Card, RewarderCard
from bon.experiment.prompts import absent
from bon.policies import generate
from bon.policies.generate import Ask
from bon.rewarders import item_judging
from bon.rewarders.base import Item, OnEcho, Rewarder
from bon.rewarders.item_judging import Protocol
from bon.rewarders.registry import rewarder_class


@dataclass(frozen=True)
class ModelSpec:
    """A model to run: a rewarder with its `protocol`, or a policy.

    A policy's failed item is tried `retries` more times. `own` is a class registered with the
    driver, pickled because workers cannot import it.
    """

    loaded: Loaded[Any]
    remote_code: bool = False
    protocol: Protocol | None = None
    retries: int = 0
    own: type[Rewarder] | None = None


CLOSE_SECONDS = 10.0
RowT = TypeVar("RowT")


@dataclass(frozen=True)  # no slots: they pickle in twice the time
class JudgeTask:
    """An item to judge, with its `known` judgements.

    `stakes` are for the design alone: no rewarder sees them. `answer_key`: whether each response
    (by key) is right, for rewarders on the echo engine only.
    """

    item: Item
    known: tuple[Judgement, ...]
    votes: int
    stakes: EarlyStopping | None = None
    answer_key: Mapping[str, bool] | None = None


Payload = Ask | JudgeTask
Columns = Sequence[Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Reply:
    """The rows of a batch, and the engine's versions, device and flags.

    `effort.busy` is the batch's share of the worker's time. `failure`: why the model cannot go on.
    `died`: it can, loaded in another process; no rows are stored. `undone`: items that are left, to
    be tried again by another run, and why. `bought`: keys of replies that the ledger keeps until
    the rows are committed.
    """

    candidates: tuple[Candidate, ...] = ()
    judgements: tuple[Judgement, ...] = ()
    engine: Mapping[str, Any] = field(default_factory=dict)
    effort: Effort = field(default_factory=Effort)
    failure: str = ""
    stop_run: bool = False
    died: bool = False
    undone: str = ""
    bought: tuple[str, ...] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        # By column: rows pickle in eight times the time.
        columns = [tuple(zip(*rows, strict=True)) for rows in (self.candidates, self.judgements)]
        others = {each.name: getattr(self, each.name) for each in fields(self)[2:]}
        return _reply, (*columns, others)

    @property
    def seconds_per_row(self) -> float:
        """The worker's time per row."""
        return self.effort.busy / max(1, len(self.candidates) + len(self.judgements))


def _reply(candidates: Columns, judgements: Columns, others: dict[str, Any]) -> Reply:
    # Not by `_make`, which is Python and takes twice as long.
    sampled = map(tuple.__new__, repeat(Candidate), zip(*candidates, strict=True))
    judged = map(tuple.__new__, repeat(Judgement), zip(*judgements, strict=True))
    return Reply(tuple(sampled), tuple(judged), **others)


class _Clock:
    """The worker's time, shared equally among the batches in flight."""

    def __init__(self) -> None:
        self._active = self._present = 0
        self._left, self._shared, self._last = math.inf, 0.0, time.perf_counter()

    @contextmanager
    def batch(self) -> Iterator[float]:
        """Note a batch, its model loaded or not; yields the seconds since the last one, if idle."""
        waited = 0.0 if self._present else max(0.0, time.perf_counter() - self._left)
        self._present += 1
        try:
            yield waited
        finally:
            self._present -= 1
            self._left = time.perf_counter()

    @contextmanager
    def share(self) -> Iterator[list[float]]:
        """Append the batch's seconds to the list it yields."""
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
    """Models of a worker, loaded on first use; cards of one checkpoint share an engine."""

    def __init__(
        self,
        specs: dict[str, ModelSpec],
        path: Sequence[str] = (),
        ledger: Ledger | None = None,
    ) -> None:
        """`ledger`: the run's or server's."""
        # Appended: a folder of the user must not shadow what is installed.
        sys.path.extend(entry for entry in path if entry not in sys.path)
        self.specs = specs
        self._files, self._ledger = ledger is not None, ledger or Ledger()
        self._budgets: WeakValueDictionary[str, Budget] = WeakValueDictionary()
        self._engines: dict[str, Engine] = {}
        self._loading = asyncio.Lock()
        self._clock = _Clock()

    async def run(
        self, model: str, payloads: Sequence[Payload], account: Account | None = None
    ) -> Reply:
        """Run all payloads of a batch concurrently; `account` pays for them on a server."""
        spec = self.specs[model]
        loaded = spec.loaded
        files = self._files and account is None
        budget = Budget(self._ledger, loaded.card.name, loaded.spec, account=account, files=files)
        if price := loaded.card.price:
            budget.input_price, budget.output_price = (
                price.input_per_million,
                price.output_per_million,
            )
        if files:  # in a run: what ends one batch ends those beside it
            budget = self._budgets.setdefault(model, budget)
        with self._clock.batch() as waited, metered() as meter, paying(budget):
            engine = None
            try:
                engine, loading = await self._engine(spec)
                with self._clock.share() as spent:
                    if spec.protocol is None:
                        sampled = await _in_turn(_sample(spec, engine, payloads))
                        reply = Reply(candidates=sampled[0], bought=sampled[1])
                    else:
                        judged = await _in_turn(_judge(spec, engine, payloads))
                        reply = Reply(judgements=judged[0], bought=judged[1])
                if isinstance(budget.stopped, EngineDied):
                    raise budget.stopped
                if engine not in self._engines.values():  # it died under another batch
                    raise EngineDied(f"the model of {loaded.card.name} is loaded again")
            except EngineDied as error:
                await self._discard(engine)
                return Reply(failure=str(error), died=True)
            except BonError as error:
                return Reply(failure=str(error), stop_run=error.stops_run)
            effort = Effort(spent[0], waited, loading, meter.read, meter.cached)
            # Plain JSON types: unpickling torch's version class would import torch.
            info = json.loads(json.dumps(engine.info()))
            reply = replace(reply, engine=info, effort=effort)
            if budget.stopped is not None:
                failure, stop_run = str(budget.stopped), budget.stopped.stops_run
                reply = replace(reply, failure=failure, stop_run=stop_run)
            return reply

    @property
    def loading(self) -> bool:
        """Whether a model is being loaded."""
        return self._loading.locked()

    def waits(self) -> list[str]:
        """Return what engines wait for, where it is worth saying."""
        return [wait for engine in [*self._engines.values()] if (wait := engine.waits_for())]

    async def load(self) -> dict[str, str]:
        """Load every model now, not on its first use; return why by those that failed."""
        failures = {}
        for name, spec in self.specs.items():
            try:
                await self._engine(spec)
            except BonError as error:
                failures[name] = str(error)
        return failures

    async def _discard(self, engine: Engine | None) -> None:
        """Forget a dead engine, so that its model is loaded again."""
        for key, known in [*self._engines.items()]:
            if known is not engine:
                continue
            del self._engines[key]
            with suppress(Exception):
                await asyncio.wait_for(known.close(), CLOSE_SECONDS)

    async def close(self) -> None:
        """Close every engine, even where one fails to."""
        engines = list(self._engines.values())
        self._engines.clear()
        await asyncio.gather(*(engine.close() for engine in engines), return_exceptions=True)

    async def _engine(self, spec: ModelSpec) -> tuple[Engine, float]:
        """Return the engine, and the seconds this call spent loading it."""
        card, model_path, prompt = spec.loaded.card, spec.loaded.model_path, spec.loaded.prompt
        if prompt.unpulled:
            raise absent(prompt.unpulled, [card.name])
        key = json.dumps([card.engine, model_path, card.revision, card.engine_args], sort_keys=True)
        if key in self._engines:  # also while another model is loaded
            return self._engines[key], 0.0
        async with self._loading:
            began = time.perf_counter()
            if key in self._engines:
                return self._engines[key], 0.0
            settings = settings_of(spec.loaded, remote_code=spec.remote_code)
            # Memory that this worker's own engines use is no reason to wait.
            share = 0.0 if self._engines else card.gpu_memory_share
            self._engines[key] = await asyncio.to_thread(_load, card, settings, share)
            return self._engines[key], time.perf_counter() - began


def _load(card: Card, settings: EngineSettings, share: float) -> Engine:
    """Load an engine once this share of its GPUs is free, or after a while."""
    with alone_on_gpus() if card.placement.gpus else nullcontext():
        occupied = wait_for_room(share) if share else ""
        try:
            return build(card.engine, settings)
        except BonError as error:
            if occupied:
                raise BonError(f"{error.message}; {occupied}", error.fix) from error
            raise


def _sample(
    spec: ModelSpec, engine: Engine, payloads: Sequence[Payload]
) -> Iterator[Coroutine[Any, Any, list[Candidate]]]:
    async def sampled(ask: Ask) -> list[Candidate]:
        with answer_key(ask.answer_key):
            loaded = spec.loaded
            return await generate.sample(engine, loaded.card, loaded.spec, spec.retries, ask)

    return (sampled(payload) for payload in payloads if isinstance(payload, Ask))


def _judge(
    spec: ModelSpec, engine: Engine, payloads: Sequence[Payload]
) -> Iterator[Coroutine[Any, Any, list[Judgement]]]:
    card: RewarderCard = spec.loaded.card
    rewarder = (spec.own or rewarder_class(card))(card, spec.loaded.prompt, engine)
    assert spec.protocol is not None
    for task in payloads:
        if not isinstance(task, JudgeTask):
            continue
        item = filter_images(task.item, card.image_filter)
        protocol = spec.protocol.with_votes(task.votes)
        judge = rewarder if task.answer_key is None else OnEcho(rewarder, task.answer_key)
        yield item_judging.judge_item(judge, item, protocol, task.known, task.stakes)


async def _in_turn(
    items: Iterable[Coroutine[Any, Any, list[RowT]]],
) -> tuple[tuple[RowT, ...], tuple[str, ...]]:
    """Run all items concurrently, the first of them first in every queue.

    Returns their rows and the ledger's keys of their replies. An error that ends an item ends the
    batch, but no rows are lost.
    """

    async def run(item: Coroutine[Any, Any, list[RowT]]) -> tuple[Sequence[RowT], Iterable[str]]:
        take_turn()
        with purchases() as keys:
            try:
                return await item, keys
            except BonError as error:
                stop(error)
                return error.rows, ()
            except Exception as error:
                stop(engine_died(error) or BonError(one_line(error)))
                return (), ()

    results = await asyncio.gather(*(run(item) for item in items))
    rows = tuple(row for item_rows, _ in results for row in item_rows)
    return rows, tuple(key for _, keys in results for key in keys)


def filter_images(item: Item, name: str) -> Item:
    """Return the item with its images filtered, as a handicapped rewarder sees them."""
    if name == "none":
        return item
    if name == "drop":
        return replace(item, images=(), marked={})
    marked = {mark: _filtered(image, name) for mark, image in item.marked.items()}
    return replace(item, images=tuple(_filtered(i, name) for i in item.images), marked=marked)


@lru_cache(maxsize=256)
def _filtered(image: ImagePart, name: str) -> ImagePart:
    try:
        seen = apply_filter(open_image(image.data), name)
    except ImageError:
        return image  # the engine fails on it, and on this item alone
    data = encode(seen)
    return ImagePart(hashlib.sha256(data).hexdigest(), data)
