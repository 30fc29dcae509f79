"""Batch files: requests go out and replies come in by file, as OpenAI's Batch API takes them.

Every pass goes through the run like `bon run`, up to what has no reply yet: judges wait for
candidates, and a tournament's next round for the last. Several passes yield the rows of a run.

RUN/batch holds `requests-NUMBER-MODEL.jsonl` to submit, `written.jsonl` with the key and highest
possible cost of each request, and `answers.jsonl` with the replies. In the last two, logs, the
last line of a key counts.
"""

import asyncio
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bon.core.console import say
from bon.core.errors import BonError
from bon.core.records import Candidate, Judgement
from bon.dispatch.worker import (
    JudgeTask,
    Payload,
    PolicySpec,
    RewarderSpec,
    engine_arguments,
    filter_images,
)
from bon.engines import read_settings, serves
from bon.engines.endpoints.deferred import Answer, Body, DeferredEngine, UnansweredError
from bon.engines.endpoints.ledger import most_dollars
from bon.engines.settings import OpenAISettings
from bon.planning.setup import Setup
from bon.planning.spec_aliases import with_stored_specs
from bon.policies import generate
from bon.policies.generate import Ask
from bon.rewarders import item_judging
from bon.rewarders.biases import make_rewarder
from bon.running.reporting import open_run
from bon.running.runner import make_sources
from bon.running.start import start
from bon.storage.store import Store

MAX_LINES = 50_000
MAX_BYTES = 190_000_000
"""OpenAI takes 50,000 requests and 200 MB in one file."""
_TRANSIENT = ("expired", "cancel", "rate_limit", "server", "internal", "timeout", "overloaded")
"""Parts of errors after which the same request may succeed."""


@dataclass
class BatchWritten:
    """What a pass wrote; `left_out` requests exceeded the budget, `outstanding` await replies."""

    files: list[Path] = field(default_factory=list)
    requests: int = 0
    max_cost: float = 0.0
    left_out: int = 0
    outstanding: int = 0


@dataclass
class BatchRead:
    """Counts of replies; `transient` errors will be written again, `invalid` lines are no JSON."""

    new: int = 0
    errors: int = 0
    transient: int = 0
    repeated: int = 0
    unknown: int = 0
    invalid: int = 0

    @property
    def ours(self) -> int:
        """Replies to requests of this run."""
        return self.new + self.repeated + self.transient


def write_batch(
    setup: Setup,
    directory: Path,
    *,
    max_cost: float | None = None,
    share: float = 0.5,
    image_tokens: int = 1500,
    retry_errors: bool = False,
    quiet: bool = False,
) -> BatchWritten:
    """Write the requests that an experiment needs next.

    max_cost: bound in dollars on the whole run: what was paid, is outstanding and is written, at
    the highest cost of each request. share: of the cards' prices that a batch costs.

    Raises BonError without a model behind an endpoint, or without a price that `max_cost` needs.
    """
    if not any(model.card.engine == "openai" for model in setup.models):
        raise BonError(
            "no model of this experiment has `engine: openai`: nothing to batch",
            "such cards work with vendors' batches and vLLM's run-batch",
        )
    with Store(directory) as store:
        setup = with_stored_specs(setup, store, running=True)
        start(setup, store, retry_errors=retry_errors, quiet=quiet)
        store.set_meta(batch_share=share)
        folder = _BatchFolder(directory / "batch")
        if retry_errors:
            folder.forget_errors()
        batch_pass = _Pass(setup, store, folder, share)
        batch_pass.run()
        outstanding = folder.outstanding
        written = BatchWritten(outstanding=len(outstanding))
        budget = math.inf
        if max_cost is not None:
            budget = max_cost - store.cost() - sum(outstanding.values())
        for model, engine in batch_pass.engines.items():
            prices = engine.price.input_per_million, engine.price.output_per_million
            if max_cost is not None and not any(prices):
                raise BonError(
                    f"--max-cost: the card of {model} has no price",
                    "add cost: {input_per_million: …, output_per_million: …}",
                )
            requests = []
            for key in [key for key in engine.unanswered if key not in outstanding]:
                body = engine.unanswered[key]
                cost = most_dollars(body, *prices, image_tokens)
                if cost > budget:
                    written.left_out += 1
                    continue
                budget -= cost
                written.max_cost += cost
                requests.append((key, body, cost))
            written.requests += len(requests)
            written.files += folder.write(model, requests)
    return written


def read_batch(
    directory: Path, files: Sequence[Path], *, quiet: bool = False
) -> tuple[BatchRead, int]:
    """Store the replies in these files; return their counts and the number of new rows."""
    with Store(directory) as store:
        setup = with_stored_specs(open_run(store), store, running=True)
        folder = _BatchFolder(directory / "batch")
        counts = folder.read(files)
        batch_pass = _Pass(setup, store, folder, store.meta("batch_share", 0.5))
        batch_pass.run()
        engines = {model: engine.info() for model, engine in batch_pass.engines.items()}
        store.set_meta(engines=store.meta("engines", {}) | engines)
    say(f"{batch_pass.rows} rows stored", quiet=quiet)
    return counts, batch_pass.rows


class _Pass:
    """One pass through a run: store rows with replies and collect requests without."""

    def __init__(self, setup: Setup, store: Store, folder: "_BatchFolder", share: float) -> None:
        self.rows = 0
        self.engines: dict[str, DeferredEngine] = {}
        self._store = store
        self._specs = setup.specs()
        self._sources = make_sources(setup, store)
        for model in setup.models:
            card = model.card
            if card.engine == "openai" and not serves(card.engine_args):
                arguments = engine_arguments(card, model.model_path, remote_code=False)
                settings = read_settings(card.engine, arguments)
                assert isinstance(settings, OpenAISettings)
                self.engines[card.name] = DeferredEngine(settings, folder.answers, share)

    def run(self) -> None:
        """Go through every source as far as there are replies."""
        asyncio.run(self._run())
        self._store.commit()

    async def _run(self) -> None:
        for source in self._sources:
            engine = self.engines.get(source.model)
            while (payloads := source.take(1)) and engine:
                # Judges wait for the candidates of a source with open items.
                if await self._work(self._specs[source.model], engine, payloads[0]):
                    source.open -= 1

    async def _work(self, spec: Any, engine: DeferredEngine, payload: Payload) -> bool:
        """Store the rows of a payload that have replies; whether those were all."""
        if isinstance(payload, JudgeTask):
            return await self._judge(spec, engine, payload)
        assert isinstance(payload, Ask)
        assert isinstance(spec, PolicySpec)
        rows = await generate.sample(engine, spec.loaded.card, spec.loaded.spec, 0, payload)
        answered = [row for row in rows if _is_answered(row)]
        self._store.add_candidates(answered)
        self.rows += len(answered)
        return len(answered) == len(rows)

    async def _judge(self, spec: RewarderSpec, engine: DeferredEngine, task: JudgeTask) -> bool:
        card = spec.loaded.card
        rewarder = make_rewarder(card, spec.loaded.prompt, engine, spec.own)
        item = filter_images(task.item, card.image_filter)
        protocol = replace(spec.protocol, votes=task.votes, retries=0)
        known = list(task.known)
        while rows := await item_judging.judge_round(rewarder, item, protocol, known, task.stakes):
            answered = [row for row in rows if _is_answered(row)]
            self._store.add_judgements(answered)
            self.rows += len(answered)
            known += answered
            if len(answered) < len(rows):
                return False
        return True


def _is_answered(row: Candidate | Judgement) -> bool:
    return not (row.outcome == "error" and row.error.startswith(UnansweredError.__name__))


class _BatchFolder:
    """RUN/batch: `written` (highest cost) and `answers` by the key of the request."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        written, answers = (
            {row["key"]: row for row in _json_lines(folder / f"{name}.jsonl") if row}
            for name in ("written", "answers")
        )
        self.written: dict[str, float] = {
            key: row["most"] for key, row in written.items() if row["most"] is not None
        }
        self.answers = {
            key: Answer(row.get("body"), row.get("error", ""))
            for key, row in answers.items()
            if not row.get("forgotten")
        }

    @property
    def outstanding(self) -> dict[str, float]:
        """Key -> highest cost of every written request without a reply."""
        return {key: cost for key, cost in self.written.items() if key not in self.answers}

    def write(self, model: str, requests: Iterable[tuple[str, Body, float]]) -> list[Path]:
        """Write requests (key, body, highest cost) to new files within the vendor's limits."""
        self.folder.mkdir(parents=True, exist_ok=True)
        number = len(list(self.folder.glob("requests-*.jsonl")))
        paths: list[Path] = []
        lines = size = 0
        for key, body, cost in requests:
            request = {"custom_id": key, "method": "POST", "url": "/v1/chat/completions"}
            line = json.dumps({**request, "body": body}, ensure_ascii=False) + "\n"
            length = len(line.encode())
            if not paths or lines == MAX_LINES or size + length > MAX_BYTES:
                number += 1
                paths.append(self.folder / f"requests-{number:04}-{model}.jsonl")
                lines = size = 0
            with paths[-1].open("a", encoding="utf-8") as file:
                file.write(line)
            self._log("written", key, most=cost)
            lines, size = lines + 1, size + length
        return paths

    def read(self, files: Iterable[Path]) -> BatchRead:
        """Store the replies in these files, in any order; each counts once.

        Raises BonError for a missing file or one without a reply to a request of this run.
        """
        counts = BatchRead()
        for file in files:
            before = counts.ours
            if not file.is_file():
                raise BonError(f"no file {file}", "give the output and error files of the batch")
            for row in _json_lines(file):
                if row is None or not isinstance(row.get("custom_id"), str):
                    counts.invalid += 1
                else:
                    self._add(row["custom_id"], _answer(row), counts)
            if counts.ours == before:
                raise BonError(
                    f"{file} holds no answer to a request of this run",
                    "give the outputs of RUN/batch/requests-*.jsonl",
                )
        return counts

    def forget_errors(self) -> None:
        """Let refused requests be written again."""
        for key in [key for key, answer in self.answers.items() if answer.body is None]:
            del self.answers[key]
            self._log("answers", key, forgotten=True)
            self._forget(key)

    def _forget(self, key: str) -> None:
        """Let a request be written again."""
        self.written.pop(key, None)
        self._log("written", key, most=None)

    def _add(self, key: str, answer: Answer, counts: BatchRead) -> None:
        if key not in self.written:
            counts.unknown += 1
        elif key in self.answers and (self.answers[key].body or not answer.body):
            counts.repeated += 1
        elif answer.body is None and any(part in answer.error.lower() for part in _TRANSIENT):
            counts.transient += 1
            self._forget(key)
        else:
            counts.new += 1
            counts.errors += answer.body is None
            self.answers[key] = answer
            self._log("answers", key, **{n: v for n, v in answer._asdict().items() if v})

    def _log(self, name: str, key: str, **content: Any) -> None:
        with (self.folder / f"{name}.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps({"key": key, **content}) + "\n")


def _answer(row: dict[str, Any]) -> Answer:
    """Return the completion or error in a row; old vLLM puts the completion in `response`."""
    response = row.get("response") or {}
    body = response.get("body", response if "choices" in response else None)
    status = int(response.get("status_code") or 200)
    error = row.get("error") or (body or {}).get("error")
    if isinstance(body, dict) and body.get("choices") and status < 400 and not error:
        return Answer(body)
    error = error or f"status {status} without a completion"
    server = "server error: " if status >= 500 or status == 429 else ""
    return Answer(None, server + (error if isinstance(error, str) else json.dumps(error)))


def _json_lines(path: Path) -> Iterator[dict[str, Any] | None]:
    """Yield the object of each line, None for a line without one; nothing without a file."""
    if not path.is_file():
        return
    with path.open("rb") as lines:
        for line in filter(bytes.strip, lines):
            try:
                row = json.loads(line)
            except ValueError:
                row = None
            yield row if isinstance(row, dict) else None
