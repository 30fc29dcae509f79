"""Validations through the API, run by the real runner on the echo engine."""

import io
import json
import re
import time

import pandas as pd
import pytest
import yaml

from bon.running.plan import make_plan
from bon.running.setup import prepare
from bon.running.store import Store
from bon.service.settings import Allow, Limits
from tests.service.conftest import experiment, wait_for
from tests.test_store import CANDIDATE, JUDGEMENT


def rows(directory):
    with Store(directory, readonly=True) as store:
        return {
            table: store.query(f"SELECT key, outcome, text FROM {table} ORDER BY key")
            for table in ("candidates", "judgements")
        }


def test_a_validation_from_submission_to_deletion(running, settings):
    body = yaml.safe_dump(experiment())
    made = running.post(
        "/v1/validations",
        content=body,
        headers={"content-type": "application/yaml", "idempotency-key": "one"},
    )
    assert made.status_code == 201, made.text
    key = made.json()["id"]
    assert made.headers["location"] == f"/v1/validations/{key}"
    again = running.post("/v1/validations", json=experiment(), headers={"idempotency-key": "one"})
    assert (again.status_code, again.json()["id"]) == (200, key)
    other = running.post(
        "/v1/validations", json=experiment(seed=1), headers={"idempotency-key": "one"}
    )
    assert other.status_code == 409

    seen = []
    with running.stream("GET", f"/v1/validations/{key}/events") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        for line in stream.iter_lines():
            if line.startswith("data: "):
                seen.append(json.loads(line.removeprefix("data: ")))
    assert seen[-1] == {"state": "done"}, running.get(f"/v1/validations/{key}/log").text
    phases = [event["progress"]["phase"] for event in seen[:-1]]
    assert phases[-1] == "done"

    done = wait_for(running, key, "done")
    assert done["counts"]["candidates"] == 48
    assert done["counts"]["judgements"] > 9 * 4
    assert done["counts"]["input_tokens"] > 0
    assert {stage["stage"] for stage in done["progress"]["stages"]} == {
        "generate", "benchmark", "judge",
    }  # fmt: skip
    assert all(stage["done"] == stage["total"] for stage in done["progress"]["stages"])
    assert running.get("/v1/validations", params={"state": "done"}).json()["validations"]
    assert not running.get("/v1/validations", params={"state": "failed"}).json()["validations"]
    found = running.get(f"/v1/validations/{key}/results").json()
    assert {row["rewarder"] for row in found["best_of_n"]} >= {"judge", "critic", "head"}
    text = running.get(f"/v1/validations/{key}/tables/best_of_n").text
    assert {"accuracy", "accuracy_low", "accuracy_high"} <= set(pd.read_csv(io.StringIO(text)))
    parquet = running.get(
        f"/v1/validations/{key}/tables/candidates", params={"format": "parquet"}
    ).content
    assert len(pd.read_parquet(io.BytesIO(parquet))) == 48
    assert len(running.get(f"/v1/validations/{key}/tables/pairs?format=json").json()) == 9
    written = yaml.safe_load(running.get(f"/v1/validations/{key}/experiment").text)
    assert written == experiment()
    assert "12 questions" in running.get(f"/v1/validations/{key}/log").text
    text = running.get("/metrics").text
    assert 'bon_validations{state="done"} 1.0' in text
    assert 'bon_validation_call_seconds_count{stage="sample"} 48.0' in text
    assert 'bon_validation_items_known{stage="benchmark"} 0.0' in text

    # Extending computes only what is missing.
    before = rows(settings.runs / key)
    more = {"n": 6, "rewarders": [{"name": "late", "kind": "scalar", "engine": "echo"}]}
    extended = running.post(f"/v1/validations/{key}/extend", json=more)
    assert extended.status_code == 202, extended.text
    assert wait_for(running, key, "done")["counts"]["candidates"] == 72
    known = re.search(r'items_known{stage="benchmark"} (\S+)', running.get("/metrics").text)
    assert float(known[1]) == 3 * 9  # the rewarders that were there, over every pair
    after = rows(settings.runs / key)
    for table in before:
        assert set(before[table]) < set(after[table])

    assert running.delete(f"/v1/validations/{key}").status_code == 204
    assert running.get(f"/v1/validations/{key}").status_code == 404
    assert not (settings.runs / key).exists()


def test_cancel_keeps_what_was_computed_and_resume_goes_on(running, settings):
    slow = experiment()
    for model in [*slow["policies"], *slow["rewarders"]]:
        model["engine_args"] = {**model["engine_args"], "latency": 0.2}
    slow["cluster"] = {"batch": 1, "in_flight": 1}
    key = running.post("/v1/validations", json=slow).json()["id"]
    while not running.get(f"/v1/validations/{key}").json()["counts"]["candidates"]:
        time.sleep(0.2)
    assert running.delete(f"/v1/validations/{key}").status_code == 409
    assert running.post(f"/v1/validations/{key}/extend", json={"n": 8}).status_code == 409
    started = time.monotonic()
    assert running.post(f"/v1/validations/{key}/cancel").status_code == 202
    wait_for(running, key, "cancelled")
    assert time.monotonic() - started < 60
    kept = rows(settings.runs / key)
    assert kept["candidates"]
    assert running.post(f"/v1/validations/{key}/resume").status_code == 202
    wait_for(running, key, "done")
    finished = rows(settings.runs / key)
    assert set(kept["candidates"]) <= set(finished["candidates"])
    assert set(kept["judgements"]) < set(finished["judgements"])
    assert len(finished["candidates"]) == 48


def test_a_queued_validation_is_cancelled_at_once(client):
    key = client.post("/v1/validations", json=experiment()).json()["id"]
    assert client.get(f"/v1/validations/{key}").json()["progress"]["phase"] == "queued"
    assert client.post(f"/v1/validations/{key}/cancel").json()["state"] == "cancelled"


def test_a_run_that_cannot_work_says_why(running):
    broken = experiment()
    broken["policies"][0]["engine_args"]["failure_rate"] = 1.0
    key = running.post("/v1/validations", json=broken).json()["id"]
    with pytest.raises(AssertionError, match="no candidate could be sampled"):
        wait_for(running, key, "done")


def test_the_plan_counts_calls(client):
    found = client.post("/v1/plan", json=experiment()).json()
    models = [*found["policies"], *found["rewarders"]]
    calls = {row["name"]: row["to_do"] for row in models}
    assert calls == {
        "policy": 12 * 4,
        "judge": 9 * 2 + 12 * 6 * 2,
        "critic": 9 * 2 + 12 * 4,
        "head": 9 * 2 + 12 * 4,
    }
    assert found["totals"]["calls"] == sum(calls.values())
    assert found["questions"]["count"] == 12
    assert {row["model_seconds"] for row in models} == {None}


def test_the_plan_is_that_of_the_command_line(client, settings):
    plan = make_plan(prepare(experiment(), settings.files)).as_dict()
    found = client.post("/v1/plan", json=experiment()).json()
    for row in [*found["policies"], *found["rewarders"]]:
        del row["model_seconds"]
    assert found == json.loads(json.dumps(plan))


def test_a_benchmark_of_unknown_size_is_refused_with_the_fix(client, settings):
    allow = Allow(hubs=("someone/questions",))
    client.app.state.service.settings = settings.model_copy(update={"allow": allow})
    unknown = experiment(questions={"benchmark": "multiple_choice", "hub": "someone/questions"})
    for route in ("plan", "validations"):
        answer = client.post(f"/v1/{route}", json=unknown)
        assert answer.status_code == 422, answer.text
        assert "set `limit`" in answer.json()["error"]["fix"]


def test_limits_count_every_call_and_every_row(client, settings):
    published = experiment(pairs=[{"benchmark": "vl_rewardbench"}])
    found = client.post("/v1/plan", json=published).json()
    for limits, word in (
        ({"calls": found["totals"]["calls"] - 1}, "model calls"),
        ({"pairs": 1249}, "1,250 rows"),
        ({"questions": 11}, "12 rows"),
    ):
        service = client.app.state.service
        service.settings = settings.model_copy(update={"limits": Limits(**limits)})
        answer = client.post("/v1/validations", json=published)
        assert answer.status_code == 422, answer.text
        assert word in answer.json()["error"]["message"]


def test_money_is_what_the_run_says_it_cost(client, settings):
    key = client.post("/v1/validations", json=experiment()).json()["id"]
    with Store(settings.runs / key) as store:
        store.add_candidates([CANDIDATE._replace(cost=0.16)])
        store.add_judgements([JUDGEMENT._replace(cost=0.04)])
        cost = store.cost()
    assert client.get(f"/v1/validations/{key}").json()["counts"]["cost"] == cost
    assert cost == pytest.approx(0.2)


def test_pages_of_the_list(client):
    keys = [
        client.post("/v1/validations", json=experiment(name=f"run {i}")).json()["id"]
        for i in range(5)
    ]
    first = client.get("/v1/validations", params={"limit": 3}).json()
    rest = client.get("/v1/validations", params={"limit": 3, "before": first["next"]}).json()
    assert [row["id"] for row in first["validations"] + rest["validations"]] == keys[::-1]
    assert rest["next"] is None
    named = client.get("/v1/validations", params={"text": "RUN 2"}).json()["validations"]
    assert [row["id"] for row in named] == [keys[2]]


def test_extending_by_nothing_changes_nothing(client):
    key = client.post("/v1/validations", json=experiment()).json()["id"]
    with client.app.state.service.jobs.write() as db:
        db.execute("UPDATE validations SET state = 'done' WHERE id = ?", (key,))
    answer = client.post(f"/v1/validations/{key}/extend", json={})
    assert answer.status_code == 422
    assert "nothing to add" in answer.json()["error"]["message"]
    assert client.get(f"/v1/validations/{key}").json()["state"] == "done"
