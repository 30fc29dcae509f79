"""An experiment asked by files: the answers of a batch come to the rows of a run."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bon.commands.main import app
from bon.core.errors import BonError
from bon.engines.endpoints.openai import OpenAIEngine
from bon.planning.completeness import completeness
from bon.planning.setup import prepare
from bon.running.batches import read_batch, write_batch
from bon.running.reporting import open_run
from bon.storage.store import Store

ENDPOINT = {"base_url": "http://endpoint.invalid/v1", "api_key_env": "NO_SUCH_KEY"}
COMMON = {
    "engine": "openai",
    "cost": {"input_per_million": 2.0, "output_per_million": 8.0},
    "sampling": {"temperature": 1.0, "max_tokens": 100},
}


@pytest.fixture
def study(make_experiment) -> dict[str, Any]:
    """One policy and a judge behind endpoints; `plain` takes neither n nor a seed."""
    experiment = make_experiment(questions=4, pairs=3)
    judge = {**experiment["rewarders"][0], **COMMON, "model": "m-judge"}
    policy = {**experiment["policies"][0], **COMMON, "model": "m-policy"}
    return {
        **experiment,
        "policies": [{**policy, "engine_args": {**ENDPOINT, "endpoint": "openai"}}],
        "rewarders": [{**judge, "engine_args": {**ENDPOINT, "endpoint": "plain"}}],
        "judging": {"design": "swiss", "judge_unanimous": True},
    }


def said(body: dict[str, Any], index: int) -> str:
    """An answer that depends on the request alone."""
    drawn = random.Random(json.dumps([body, index], sort_keys=True))
    if body["model"] == "m-policy":
        return f"({drawn.random():.6f}) Answer: {drawn.choice('ABCDE')}"
    return f"Overall Judgment: Answer {drawn.choice('12')} is better."


def completion(body: dict[str, Any]) -> dict[str, Any]:
    choices = [
        {"index": i, "message": {"content": said(body, i)}, "finish_reason": "stop"}
        for i in range(body.get("n", 1))
    ]
    usage = {"prompt_tokens": 50, "completion_tokens": 10 * len(choices)}
    return {"choices": choices[::-1], "usage": usage, "model": body["model"]}


def answered(paths: list[Path], out: Path, *, flat: bool = False) -> Path:
    """What an endpoint makes of request files, in another order."""
    rows = []
    for path in paths:
        for line in path.read_text().splitlines():
            request = json.loads(line)
            body = request["body"]
            made = completion(body)
            response = made if flat else {"status_code": 200, "body": made}
            rows.append({"custom_id": request["custom_id"], "response": response, "error": None})
    random.Random(1).shuffle(rows)
    out.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return out


def to_the_end(study: dict[str, Any], tmp_path: Path, **options: Any) -> list[int]:
    """How many requests each pass wrote."""
    passes = []
    for number in range(20):
        written = write_batch(prepare(study, tmp_path), tmp_path / "run", quiet=True, **options)
        if not written.requests:
            return passes
        passes.append(written.requests)
        file = answered(written.files, tmp_path / f"out{number}.jsonl", flat=number == 1)
        read_batch(tmp_path / "run", [file], quiet=True)
    raise AssertionError(passes)


def test_passes_come_to_a_complete_run(study, tmp_path):
    passes = to_the_end(study, tmp_path)
    assert passes[0] == 4 + 3 * 2  # one request per question, and the pairs in both orders
    assert len(passes) >= 3  # candidates, then at least two rounds of a tournament of four
    with Store(tmp_path / "run", readonly=True) as store:
        setup = open_run(store)
        assert completeness(setup, store).complete
        assert store.count("candidates") == 16
        assert len(store.query("SELECT DISTINCT text FROM candidates")) == 16
        assert not store.count("judgements", "outcome = 'error'")
        # Half the price: 50 tokens sent and 40 received for a question's four.
        assert store.cost() == pytest.approx(
            (4 * (50 * 2 + 40 * 8) + store.count("judgements") * (50 * 2 + 10 * 8)) / 2e6
        )


def test_the_rows_are_those_of_a_run(study, tmp_path, go, monkeypatch):
    async def send(self: Any, body: dict[str, Any], seeds: Any, book: Any) -> dict[str, Any]:
        reply = completion(body)
        book(reply)
        return reply

    to_the_end(study, tmp_path)
    monkeypatch.setenv(ENDPOINT["api_key_env"], "a key")
    monkeypatch.setattr(OpenAIEngine, "_send", send)
    run = go(study, out="asked")
    for table in ("candidates", "judgements"):
        sql = f"SELECT key, text, outcome, num_tokens FROM {table} ORDER BY key"
        with Store(run, readonly=True) as one, Store(tmp_path / "run", readonly=True) as other:
            assert one.query(sql) == other.query(sql)


def test_what_is_out_is_not_written_again(study, tmp_path):
    first = write_batch(prepare(study, tmp_path), tmp_path / "run", quiet=True)
    second = write_batch(prepare(study, tmp_path), tmp_path / "run", quiet=True)
    assert (second.requests, second.outstanding) == (0, first.requests)


def test_the_cap_counts_what_is_out_at_its_worst(study, tmp_path):
    setup = prepare(study, tmp_path)
    whole = write_batch(setup, tmp_path / "free", max_cost=100, quiet=True).max_cost
    cap = whole / 2
    some = write_batch(setup, tmp_path / "run", max_cost=cap, quiet=True)
    assert some.left_out
    assert some.requests
    assert some.max_cost <= cap
    more = write_batch(setup, tmp_path / "run", max_cost=cap, quiet=True)
    assert more.max_cost <= cap - some.max_cost
    read_batch(tmp_path / "run", [answered(some.files, tmp_path / "out.jsonl")], quiet=True)
    last = write_batch(setup, tmp_path / "run", max_cost=cap, quiet=True)
    with Store(tmp_path / "run", readonly=True) as store:
        assert 0 < store.cost() + last.max_cost + more.max_cost <= cap  # less was paid
    del study["policies"][0]["cost"]
    with pytest.raises(BonError, match="the card of policy has no price"):
        write_batch(prepare(study, tmp_path), tmp_path / "other", max_cost=1, quiet=True)


def test_errors_expired_torn_unknown_and_doubled_answers(study, tmp_path):
    setup = prepare(study, tmp_path)
    written = write_batch(setup, tmp_path / "run", quiet=True)
    file = answered(written.files, tmp_path / "out.jsonl")
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    refused = {"status_code": 400, "body": {"error": {"message": "no such thing"}}}
    rows[0] |= {"response": refused}
    rows[1] |= {"response": None, "error": {"code": "batch_expired", "message": "too late"}}
    rows.append(rows[2])
    rows.append({**rows[2], "custom_id": "of another run"})
    file.write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"custom_id": "to')
    reading, _ = read_batch(tmp_path / "run", [file], quiet=True)
    assert (reading.new, reading.errors) == (len(rows) - 3, 1)
    assert (reading.transient, reading.repeated, reading.unknown, reading.invalid) == (1, 1, 1, 1)
    expired = write_batch(setup, tmp_path / "run", quiet=True)
    assert rows[1]["custom_id"] in {
        json.loads(line)["custom_id"] for path in expired.files for line in path.open()
    }
    with Store(tmp_path / "run", readonly=True) as store:
        errors = [
            row
            for table in ("candidates", "judgements")
            for row in store.query(f"SELECT error FROM {table} WHERE outcome = 'error'")
        ]
    assert errors
    assert all("no such thing" in error for (error,) in errors)
    again = write_batch(setup, tmp_path / "run", retry_errors=True, quiet=True)
    assert rows[0]["custom_id"] in {
        json.loads(line)["custom_id"] for path in again.files for line in path.open()
    }
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(BonError, match="holds no answer to a request"):
        read_batch(tmp_path / "run", [tmp_path / "empty.jsonl"], quiet=True)


def test_a_study_without_endpoints_is_refused(make_experiment, tmp_path):
    with pytest.raises(BonError, match="no model of this experiment has `engine: openai`"):
        write_batch(prepare(make_experiment(), tmp_path), tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()


def test_the_commands(study, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("study.yaml").write_text(json.dumps(study))
    shown = CliRunner().invoke(app, ["batch", "write", "study.yaml", "--out", "run"])
    assert shown.exit_code == 0, shown.output
    files = [Path(line) for line in shown.output.splitlines() if line.endswith(".jsonl")]
    assert len(files) == 2
    assert "10 requests written" in shown.output
    answered(files, Path("out.jsonl"))
    shown = CliRunner().invoke(app, ["batch", "read", "out.jsonl", "--out", "run"])
    assert shown.exit_code == 0, shown.output
    assert "10 answers, 0 of them errors: 22 rows stored" in shown.output
