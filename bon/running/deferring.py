"""An experiment asked by files instead of connections: what is missing goes out, answers come in.

Every pass goes through the run as a run does, up to what is not answered yet: judges wait for
candidates, and a tournament's next round for the one before. So what a pass asks for is what a run
would ask for next, and several passes come to the rows of a run.
"""

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from bon.core.errors import BonError
from bon.core.records import Candidate, Judgement
from bon.engines.deferred import Body, DeferredEngine
from bon.engines.settings import OpenAISettings, read_settings
from bon.policies import ask
from bon.policies.ask import Ask
from bon.rewarders import judge
from bon.rewarders.registry import rewarder_class
from bon.running.envelopes import Envelopes, Posted
from bon.running.filed import filed
from bon.running.reporting import open_run
from bon.running.runner import make_sources
from bon.running.saying import say
from bon.running.setup import Setup
from bon.running.start import start
from bon.running.store import Store
from bon.running.work import Source
from bon.running.worker import (
    JudgeTask,
    Payload,
    PolicySpec,
    RewarderSpec,
    engine_arguments,
    seen_item,
)

_WAITS = "UnansweredError"


@dataclass
class Written:
    """What a pass wrote: files, requests in them, what they cost at most, and what had no room."""

    files: list[Path] = field(default_factory=list)
    requests: int = 0
    most: float = 0.0
    left_out: int = 0
    outstanding: int = 0


def write_batch(
    setup: Setup,
    directory: Path,
    *,
    max_cost: float | None = None,
    share: float = 0.5,
    image_tokens: int = 1500,
    retry_errors: bool = False,
    again: bool = False,
    quiet: bool = False,
) -> Written:
    """Write the requests that an experiment asks for next.

    max_cost: dollars that the run may cost in all, with what was paid, what is out and what is
    written now, each request at the most that it can cost. share: of the cards' prices that a
    batch costs. image_tokens: the most that an image is billed as. again: also what is out.

    Raises:
        BonError: no model is behind an endpoint, or a price is missing that `max_cost` needs.
    """
    if not any(model.card.engine == "openai" for model in setup.models):
        raise BonError(
            "no model of this experiment is behind an endpoint: nothing can go into a batch",
            "a batch asks cards with `engine: openai` (vLLM's run-batch reads it too)",
        )
    with Store(directory) as store:
        setup = filed(setup, store, running=True)
        start(setup, store, retry_errors=retry_errors, quiet=quiet)
        store.set_meta(batch_share=share)
        envelopes = Envelopes.opened(directory)
        if retry_errors:
            envelopes.forget_errors()
        desk = _Desk(setup, store, envelopes, share)
        desk.go()
        held = {} if again else envelopes.outstanding
        found = Written(outstanding=len(held))
        room = math.inf if max_cost is None else max_cost - store.cost() - sum(held.values())
        for model, engine in desk.engines.items():
            wanted = []
            for key, body in engine.asked.items():
                if key in held:
                    continue
                most = _most(model, engine, body, image_tokens, priced=max_cost is not None)
                if most > room:
                    found.left_out += 1
                    continue
                room -= most
                found.most += most
                wanted.append((key, body, most))
            found.requests += len(wanted)
            found.files += envelopes.write(model, wanted)
    return found


def read_batch(
    directory: Path, files: Sequence[Path], *, quiet: bool = False
) -> tuple[Posted, int]:
    """File the answers in these files; returns what they held, and how many rows came of them."""
    with Store(directory) as store:
        setup = filed(open_run(store), store, running=True)
        envelopes = Envelopes.opened(directory)
        reading = envelopes.read(files)
        desk = _Desk(setup, store, envelopes, store.meta("batch_share", 0.5))
        desk.go()
        store.set_meta(
            engines=store.meta("engines", {})
            | {model: engine.info() for model, engine in desk.engines.items()}
        )
    say(f"{desk.rows} rows filed", quiet=quiet)
    return reading, desk.rows


class _Desk:
    """One pass through a run: rows of what is answered are filed, what is not is collected."""

    def __init__(self, setup: Setup, store: Store, envelopes: Envelopes, share: float) -> None:
        self.rows = 0
        self.engines: dict[str, DeferredEngine] = {}
        self._store = store
        self._specs = setup.specs()
        self._sources = make_sources(setup, store)
        for model in setup.models:
            card = model.card
            if card.engine == "openai":
                arguments = engine_arguments(card, model.model_path, remote_code=False)
                settings = read_settings(card.engine, arguments)
                assert isinstance(settings, OpenAISettings)
                self.engines[card.name] = DeferredEngine(settings, envelopes.answers, share)

    def go(self) -> None:
        """Through every source, as far as answers reach."""
        asyncio.run(self._go())

    async def _go(self) -> None:
        for source in self._sources:
            while payloads := source.take(1):
                waits = await self._do(source, payloads[0])
                source.open -= not waits  # judges wait for the candidates of an open source
                if source.model not in self.engines:
                    break
        self._store.commit()

    async def _do(self, source: Source, payload: Payload) -> bool:
        """File what is answered of a payload; whether something of it is not."""
        engine = self.engines.get(source.model)
        if engine is None:
            return True
        spec = self._specs[source.model]
        if isinstance(payload, Ask):
            assert isinstance(spec, PolicySpec)
            rows = await ask.sample(engine, spec.loaded.card, spec.loaded.spec, 0, payload)
            there = [row for row in rows if not _waits(row)]
            self._store.add_candidates(there)
            self.rows += len(there)
            return len(there) < len(rows)
        assert isinstance(spec, RewarderSpec)
        return await self._judge(spec, engine, payload)

    async def _judge(self, spec: RewarderSpec, engine: DeferredEngine, task: JudgeTask) -> bool:
        card = spec.loaded.card
        rewarder = (spec.own or rewarder_class(card))(card, spec.loaded.prompt, engine)
        item = seen_item(task.item, card.image_filter)
        protocol = replace(spec.protocol, votes=task.votes, retries=0)
        known = list(task.known)
        while rows := await judge.judge_round(rewarder, item, protocol, known, task.stakes):
            there = [row for row in rows if not _waits(row)]
            self._store.add_judgements(there)
            self.rows += len(there)
            known += there
            if len(there) < len(rows):
                return True
        return False


def _waits(row: Candidate | Judgement) -> bool:
    return row.outcome == "error" and row.error.startswith(_WAITS)


def _most(
    model: str, engine: DeferredEngine, body: Body, image_tokens: int, *, priced: bool
) -> float:
    """The most that a request can cost: a token per byte of its text, every reply at its limit."""
    price = engine.price
    if priced and not (price.input_per_million or price.output_per_million):
        raise BonError(
            f"--max-cost: the card of {model} has no price",
            "add cost: {input_per_million: …, output_per_million: …}",
        )
    sent = 0
    for message in body["messages"]:
        content = message["content"]
        parts = [{"text": content}] if isinstance(content, str) else content
        sent += 16 + sum(
            len(part["text"].encode()) if "text" in part else image_tokens for part in parts
        )
    received = int(body.get("n", 1)) * int(body[engine.can.max_tokens_field])
    return (sent * price.input_per_million + received * price.output_per_million) / 1e6
