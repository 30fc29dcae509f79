"""The ledger of a run: no cap is passed, what is counted is billed, and nothing is bought twice."""

import asyncio
import random
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from bon.commands.main import app
from bon.core.ledger import LEDGER, Ledger, Reservation, spent_by_spec
from bon.dispatch.worker import Host, JudgeTask, Reply
from bon.rewarders.base import Item
from bon.running.runner import make_sources
from bon.running.start import start
from bon.running.tally import Tally
from bon.storage.store import Store
from bon.work.setup import Setup, prepare
from bon.work.sources import Source
from tests.conftest import echo_experiment, write_questions
from tests.engines.fake_endpoint import Billing, serve

ITEMS, N = 6, 3
KINDS = ["ok", "ok", "ok", "fewer", "missing", "negative", "text", "nan", "429", "500", "drop"]
END = ["402", "quota"]


def paid_experiment(url: str, cap: float | None, model_cap: float | None, **args: Any) -> Any:
    """A policy at $1 a completion behind an endpoint, and a rewarder without a model."""
    experiment = echo_experiment()
    experiment["pairs"] = []
    experiment["rewarders"] = experiment["rewarders"][2:]
    experiment["cluster"] = {"spending_cap": cap, "max_error_share": 1.0}
    experiment["analysis"] = {"bootstrap": 100}
    experiment["policies"] = [
        {
            "name": "paid",
            "engine": "openai",
            "model": "m",
            "prompt": "bare",
            "n": N,
            "sampling": {"temperature": 1.0, "max_tokens": 10},
            "cost": {"input_per_million": 0.0, "output_per_million": 100_000.0},
            "engine_args": {
                "base_url": url,
                "api_key_env": None,
                "retry_wait": 0.0,
                "retries": 1,
                "spending_cap": model_cap,
                **args,
            },
        }
    ]
    return experiment


def work(setup: Setup, store: Store, cap: float | None, crash: int | None) -> None:
    """Sample as a run does, two batches at a time; a crash loses the replies from there on."""
    ledger = Ledger(store.directory / LEDGER, cap)
    host, tally = Host(setup.specs(), ledger=ledger), Tally(setup, store)
    source = next(s for s in make_sources(setup, store) if s.stage == "generate")

    async def batches(source: Source) -> None:
        number = 0
        while (tasks := [source.take(2), source.take(2)])[0]:
            replies = await asyncio.gather(*(host.run("paid", part) for part in tasks if part))
            for reply in replies:
                number += 1
                if crash is not None and number > crash:
                    return
                tally.file(source, reply)
                await ledger.forget(reply.bought)
            if tally.failed:
                return

    async def whole() -> None:
        await batches(source)
        await host.close()

    asyncio.run(whole())
    store.commit()
    ledger.close()


@given(
    seed=st.integers(0, 2**32),
    trouble=st.floats(0, 0.9),
    caps=st.lists(st.integers(1, 30), min_size=1, max_size=3),
    of_run=st.booleans(),
    endpoint=st.sampled_from(["plain", "openai"]),
    crash=st.none() | st.integers(0, 2),
)
@settings(max_examples=30)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_every_history_keeps_to_its_caps(
    seed: int,
    trouble: float,
    caps: list[int],
    of_run: bool,
    endpoint: str,
    crash: int | None,
) -> None:
    drawn, calm = random.Random(seed), False

    def kind(*_: Any) -> str:
        if calm or drawn.random() > trouble:
            return "ok"
        return drawn.choice(END if drawn.random() < 0.1 else KINDS)

    billing = Billing(kind)
    with (
        tempfile.TemporaryDirectory() as folder,
        serve(billing) as server,
        Store(Path(folder) / "run") as store,
    ):
        write_questions(Path(folder) / "questions.jsonl", ITEMS)

        def begin(cap: float | None, crash: int | None, **options: Any) -> None:
            both = (cap, None) if of_run else (None, cap)
            raw = paid_experiment(server.url, *both, endpoint=endpoint)
            setup = prepare(raw, Path(folder))
            start(setup, store, quiet=True, **options)
            work(setup, store, both[0], crash)
            assert store.cost() == pytest.approx(billing.bill)
            assert max(billing.sold.values(), default=0) <= N
            if crash is None:
                kept = store.count("candidates", "outcome != 'error'")
                assert kept == billing.sold.total()

        for cap in sorted(caps):
            begin(cap, crash)
            assert billing.bill <= cap
        calm = True
        begin(None, None, retry_errors=True)
        assert list(billing.sold.values()) == [N] * ITEMS


@pytest.mark.parametrize("endpoint", ["plain", "openai"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_votes_that_were_paid_for_are_filed(tmp_path: Path, endpoint: str) -> None:
    billing = Billing(lambda number, _: {1: "fewer", 2: "500"}.get(number, "ok"))
    tasks = [
        JudgeTask(Item("question", f"q{i}", f"item {i}", (), {"a": "1", "b": "2"}), (), 3)
        for i in range(3)
    ]
    with serve(billing) as server:
        raw = paid_experiment(server.url, None, None, endpoint=endpoint, retries=0)
        judge = echo_experiment()["rewarders"][0] | {
            name: raw["policies"][0][name] for name in ("engine", "model", "cost", "engine_args")
        }
        judge |= {"sampling": {"temperature": 1.0, "max_tokens": 10}}
        specs = prepare({**raw, "rewarders": [judge]}, tmp_path).specs()
        rows: dict[str, Any] = {}
        for cap in (5, 11, None):
            ledger = Ledger(tmp_path / LEDGER, cap)
            host = Host(specs, ledger=ledger)
            known = tuple(rows.values())
            todo = [
                replace(task, known=tuple(row for row in known if row.item == task.item.key))
                for task in tasks
            ]

            async def whole(host: Host = host, todo: Sequence[JudgeTask] = todo) -> Reply:
                reply = await host.run("judge", todo)
                await host.close()
                return reply

            reply = asyncio.run(whole())
            asyncio.run(ledger.forget(reply.bought))
            ledger.close()
            rows |= {row.key: row for row in reply.judgements}
            assert sum(row.cost for row in rows.values()) == billing.bill
            assert cap is None or (billing.bill <= cap and "spending_cap" in reply.failure)
    assert len(rows) == billing.bill == 3 * 3 * 2


def run_it(tmp_path: Path, experiment: Any) -> Any:
    (tmp_path / "experiment.yaml").write_text(yaml.safe_dump(experiment))
    arguments = ["run", str(tmp_path / "experiment.yaml"), "--out", str(tmp_path / "run")]
    return CliRunner().invoke(app, arguments)


@pytest.mark.ray
@pytest.mark.usefixtures("one_ray")
@pytest.mark.parametrize("of_run", [True, False])
def test_a_run_stops_at_its_cap_and_goes_on_with_a_higher_one(tmp_path: Path, of_run: bool) -> None:
    def kind(number: int, _: Any) -> str:
        return {3: "drop", 5: "500", 7: "429"}.get(number, "ok")

    billing = Billing(kind)
    write_questions(tmp_path / "questions.jsonl", 20)
    with serve(billing, delay=0.01) as server:
        for cap, kept in ((5, 4), (5, 4), (100, 60)):
            both = (cap, None) if of_run else (None, cap)
            result = run_it(tmp_path, paid_experiment(server.url, *both))
            with Store(tmp_path / "run", readonly=True) as store:
                assert store.count("candidates", "outcome != 'error'") == kept
                assert store.cost() == billing.bill
            assert billing.bill <= cap
            assert (result.exception is None) == (kept == 60)
            if kept == 4:
                assert "spending_cap" in str(result.exception)
    assert billing.bill == 61  # of 60 completions and one that was lost on its way
    assert set(billing.sold.values()) == {N}


@pytest.mark.ray
@pytest.mark.usefixtures("one_ray")
@pytest.mark.parametrize("kind", ["402", "quota"])
def test_an_account_without_credit_stops_its_model_at_once(tmp_path: Path, kind: str) -> None:
    billing = Billing(lambda number, _: kind if number >= 10 else "ok")
    write_questions(tmp_path / "questions.jsonl", 20)
    args = {"concurrency": 4, "max_concurrency": 4, "retries": 6}
    with serve(billing, delay=0.01) as server:
        result = run_it(tmp_path, paid_experiment(server.url, None, None, **args))
    assert "no credit left" in str(result.exception)
    assert 1 <= billing.kinds.count(kind) <= 4  # those in flight
    with Store(tmp_path / "run", readonly=True) as store:
        assert store.count("candidates", "outcome != 'error'") == billing.bill == 10
        assert store.count("candidates", "outcome = 'error'") == 0


@pytest.mark.ray
@pytest.mark.usefixtures("one_ray")
def test_an_endpoint_without_usage_is_counted_and_said(tmp_path: Path) -> None:
    billing = Billing(lambda *_: "missing")
    write_questions(tmp_path / "questions.jsonl", 4)
    with serve(billing) as server:
        result = run_it(tmp_path, paid_experiment(server.url, None, None))
    assert result.stderr.count("no usable `usage`") == 1
    with Store(tmp_path / "run", readonly=True) as store:
        assert store.cost() == billing.bill == 12


def test_what_a_killed_process_had_requested_stays_spent(tmp_path):
    """The endpoint may have billed it: nobody knows, so the cap counts it."""
    killed = Ledger(tmp_path / LEDGER, cap=5.0)
    assert asyncio.run(killed.reserve(Reservation("m", "spec", 3.0))) == ""
    killed.close()  # without settling
    later = Ledger(tmp_path / LEDGER, cap=5.0)
    assert "$3 spent" in str(asyncio.run(later.reserve(Reservation("m", "spec", 3.0))))
    assert asyncio.run(later.reserve(Reservation("m", "spec", 2.0))) == ""
    assert spent_by_spec(tmp_path / LEDGER) == {"spec": 3.0}
