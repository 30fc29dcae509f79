"""What a run cost: recorded with its rows, and said in status, results and report."""

import asyncio
import json
import sqlite3
import time

import pytest
from typer.testing import CliRunner

from bon.commands.main import app
from bon.core.records import Effort
from bon.dispatch.worker import Host
from bon.engines.echo import EchoEngine
from bon.engines.metering import note_cached
from bon.running.reporting import model_costs, read_results, report_run
from bon.running.start import start
from bon.running.status import format_status, run_status
from bon.storage.store import Store
from bon.work.setup import prepare
from bon.work.sources import GenerateSource


@pytest.fixture
def experiment(make_experiment):
    made = make_experiment(analysis={"bootstrap": 100})
    made["rewarders"][0]["cost"] = {"input_per_million": 2.0, "output_per_million": 10.0}
    made["rewarders"][2]["placement"] = {"group": "all", "gpus": 0.5}
    return made


def test_what_models_took_is_in_status_results_and_report(experiment, go, monkeypatch):
    receive = EchoEngine._receive

    async def cached(self, messages):
        digest, length = await receive(self, messages)
        if "reply" in self.info() and "better" in self.info()["reply"]:
            note_cached(length, length // 2)
        return digest, length

    monkeypatch.setattr(EchoEngine, "_receive", cached)
    directory = go(experiment)
    report_run(directory, quiet=True)
    found = {one.model: one for one in read_results(directory).costs}
    assert list(found) == ["policy", "judge", "critic", "head"]
    with Store(directory, readonly=True) as store:
        rows = dict(store.query("SELECT rewarder, COUNT(*) FROM judgements GROUP BY rewarder"))
        tokens = dict(store.query(
            "SELECT rewarder, AVG(num_prompt_tokens) FROM judgements GROUP BY rewarder"
        ))  # fmt: skip
        seconds = dict(store.query("SELECT rewarder, SUM(seconds) FROM judgements GROUP BY 1"))
    for name, one in found.items():
        assert one.seconds > 0
        assert 0 <= one.waited <= 1
        assert one.loading > 0
        if name != "policy":
            assert one.number == rows[name]
            assert one.prompt_tokens == pytest.approx(1000 * tokens[name])
    assert [found[name].unit for name in found][2:] == ["worker seconds", "GPU-seconds"]
    half = 0.5 * 1000 * seconds["head"] / rows["head"]
    assert found["head"].seconds == pytest.approx(half)
    # Never 0 for what is not known: echo has no price and no cache.
    assert found["judge"].cache_hit_rate == pytest.approx(0.5, abs=0.1)
    assert found["judge"].dollars == 0.0
    assert (found["critic"].cache_hit_rate, found["critic"].dollars) == (None, None)
    told = json.loads(CliRunner().invoke(app, ["status", str(directory), "--json"]).stdout)
    assert told["costs"] == [one.model_dump() for one in found.values()]
    line = next(x for x in format_status(run_status(directory)).splitlines() if "% of prompts" in x)
    assert line.split()[0] == "judge"
    assert "tokens in" in line
    assert "What it cost" in (directory / "report.html").read_text()
    assert (directory / "tables" / "costs.csv").is_file()


def test_payments_count_all_rows(experiment, tmp_path, go):
    directory = go(experiment)
    with sqlite3.connect(directory / "run.sqlite") as db:
        key, total = db.execute(
            "SELECT MIN(key), COUNT(*) FROM judgements WHERE rewarder = 'judge'"
        ).fetchone()
        db.execute("UPDATE judgements SET cost = 0.002 WHERE rewarder = 'judge'")
        db.execute("UPDATE judgements SET outcome = 'error' WHERE key = ?", (key,))
    db.close()
    with Store(directory, readonly=True) as store:
        judge = model_costs(prepare(experiment, tmp_path), store)[1]
    assert judge.number == total - 1
    assert judge.dollars == pytest.approx(1000 * 0.002 * total / (total - 1))


def test_efforts_add_up(experiment, go, tmp_path):
    directory = go(experiment)
    setup = prepare(experiment, tmp_path)
    spec = setup.rewarders[0].spec
    with Store(directory) as store:
        before = store.effort(spec)
        store.add_effort(spec, Effort(1.0, 2.0, 3.0, 40, 5))
        after = store.effort(spec)
    assert after.waited == pytest.approx(before.waited + 2.0)
    assert (after.read, after.cached) == (before.read + 40, before.cached + 5)


def test_a_worker_tells_waiting_from_loading_and_working(experiment, tmp_path, monkeypatch):
    made = EchoEngine.__init__

    def slow(self, settings):
        time.sleep(0.2)
        made(self, settings)

    monkeypatch.setattr(EchoEngine, "__init__", slow)
    experiment["policies"][0]["engine_args"]["latency"] = 0.1
    setup = prepare(experiment, tmp_path)
    host = Host(setup.specs())
    with Store(tmp_path / "run") as store:
        start(setup, store, quiet=True)
        source = GenerateSource(setup, store, setup.policies[0])

        async def work():
            first = await asyncio.gather(*(host.run("policy", source.take(2)) for _ in range(2)))
            await asyncio.sleep(0.3)
            return [*first, await host.run("policy", source.take(2))]

        one, two, three = (reply.effort for reply in asyncio.run(work()))
    assert one.loading + two.loading == pytest.approx(0.2, abs=0.15)  # once
    assert one.waited == two.waited == three.loading == 0
    assert one.busy + two.busy == pytest.approx(0.1, abs=0.08)  # at the same time
    assert three.waited == pytest.approx(0.3, abs=0.15)
