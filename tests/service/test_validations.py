"""Validations through the API, run by the real runner on the echo engine."""

import io
import json
import time

import pandas as pd
import pytest
import yaml

from bon.planning.plan import make_plan
from bon.service.api import validations
from bon.service.settings import Allow, Limits
from bon.storage.store import Store
from bon.work.setup import prepare
from tests.service.conftest import experiment, wait_for
from tests.storage.test_store import CANDIDATE, JUDGEMENT


def rows(directory):
    with Store(directory, readonly=True) as store:
        return {
            table: store.query(f"SELECT key, outcome, text FROM {table} ORDER BY key")
            for table in ("candidates", "judgements")
        }


def test_a_validation_from_submission_to_deletion(running, settings):
    body = yaml.safe_dump(experiment())
    created = running.post(
        "/v1/validations",
        content=body,
        headers={"content-type": "application/yaml"},
    )
    assert created.status_code == 201, created.text
    key = created.json()["id"]
    assert created.headers["location"] == f"/v1/validations/{key}"

    done = wait_for(running, key, "done")
    assert done["progress"]["phase"] == "done"
    assert done["counts"]["candidates"] == 48
    assert done["counts"]["judgements"] > 9 * 4
    assert done["counts"]["input_tokens"] > 0
    assert {stage["stage"] for stage in done["progress"]["stages"]} == {
        "generate", "benchmark", "judge",
    }  # fmt: skip
    assert all(stage["done"] == stage["total"] for stage in done["progress"]["stages"])
    assert running.get("/v1/validations", params={"state": "done"}).json()["validations"]
    assert not running.get("/v1/validations", params={"state": "failed"}).json()["validations"]
    result = running.get(f"/v1/validations/{key}/results").json()
    assert {row["rewarder"] for row in result["best_of_n"]} >= {"judge", "critic", "head"}
    parquet = running.get(
        f"/v1/validations/{key}/tables/candidates", params={"format": "parquet"}
    ).content
    assert len(pd.read_parquet(io.BytesIO(parquet))) == 48
    text = running.get(f"/v1/validations/{key}/tables/pairs").text
    assert len(pd.read_csv(io.StringIO(text))) == 9
    assert running.get(f"/v1/validations/{key}").json()["experiment"] == experiment()
    assert "12 questions" in running.get(f"/v1/validations/{key}/log").text

    assert running.delete(f"/v1/validations/{key}").status_code == 204
    assert running.get(f"/v1/validations/{key}").status_code == 404
    assert not (settings.runs / key).exists()


def test_cancel_keeps_what_was_computed_and_resume_goes_on(running, settings):
    slow = experiment()
    slow["questions"] = {**slow["questions"], "limit": 6}
    for model in [*slow["policies"], *slow["rewarders"]]:
        model["engine_args"] = {**model["engine_args"], "latency": 0.1}
    slow["cluster"] = {"batch": 1, "in_flight": 1}
    key = running.post("/v1/validations", json=slow).json()["id"]
    while not running.get(f"/v1/validations/{key}").json()["counts"]["candidates"]:
        time.sleep(0.2)
    assert running.delete(f"/v1/validations/{key}").status_code == 409
    assert running.post(f"/v1/validations/{key}/cancel").status_code == 202
    wait_for(running, key, "cancelled")
    kept = rows(settings.runs / key)
    assert kept["candidates"]
    assert running.post(f"/v1/validations/{key}/resume").status_code == 202
    wait_for(running, key, "done")
    finished = rows(settings.runs / key)
    assert set(kept["candidates"]) <= set(finished["candidates"])
    assert set(kept["judgements"]) < set(finished["judgements"])
    assert len(finished["candidates"]) == 24


def test_a_queued_validation_is_cancelled_at_once(client):
    key = client.post("/v1/validations", json=experiment()).json()["id"]
    assert client.get(f"/v1/validations/{key}").json()["progress"]["phase"] == "queued"
    assert client.post(f"/v1/validations/{key}/cancel").json()["state"] == "cancelled"


def test_a_run_that_cannot_work_says_why(running):
    broken = experiment()
    broken["policies"][0]["engine_args"]["failure_rate"] = 1.0
    key = running.post("/v1/validations", json=broken).json()["id"]
    with pytest.raises(AssertionError, match="no candidate was sampled"):
        wait_for(running, key, "done")


def test_the_plan_is_that_of_the_command_line(client, settings):
    plan = make_plan(prepare(experiment(), settings.files)).as_dict()
    result = client.post("/v1/plan", json=experiment()).json()
    assert result == json.loads(json.dumps(plan))


def test_a_benchmark_of_unknown_size_is_refused_with_the_fix(client, settings):
    allow = Allow(hubs=("someone/questions",))
    client.app.state.service.settings = settings.model_copy(update={"allow": allow})
    unknown = experiment(questions={"benchmark": "multiple_choice", "hub": "someone/questions"})
    for route in ("plan", "validations"):
        answer = client.post(f"/v1/{route}", json=unknown)
        assert answer.status_code == 422, answer.text
        assert "set `limit`" in answer.json()["error"]["fix"]


def test_limits_count_every_call_and_every_row(client, settings, monkeypatch):
    published = experiment(pairs=[{"benchmark": "vl_rewardbench"}])
    result = client.post("/v1/plan", json=published).json()
    calls = Limits(calls=result["totals"]["calls"] - 1)
    for owner, name, value, word in (
        (client.app.state.service.settings, "limits", calls, "model calls"),
        (validations, "MAX_PAIRS", 1249, "1,250 rows"),
        (validations, "MAX_QUESTIONS", 11, "12 rows"),
    ):
        with monkeypatch.context() as patch:
            patch.setitem(owner.__dict__, name, value)
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


def test_counts_keep_up_with_progress(client, settings):
    """Never "12 of 12" beside no candidates, for programs and on the page."""
    key = client.post("/v1/validations", json=experiment()).json()["id"]
    path, html = f"/v1/validations/{key}", {"accept": "text/html"}
    directory = settings.runs / key
    for done in (1, 2, 12):
        client.get(path)  # counted before, perhaps a moment ago
        with Store(directory) as store:
            rows = [CANDIDATE._replace(key=f"c{i}", index=i) for i in range(done)]
            store.add_candidates(rows)
        stage = {"stage": "generate", "label": "sampling", "done": done, "total": 12, "rate": 1.0}
        progress = {"phase": "computing", "stages": [stage], "at": time.time()}
        (directory / "progress.json").write_text(json.dumps(progress))
        view = client.get(path).json()
        assert view["progress"]["stages"][0]["done"] == view["counts"]["candidates"] == done
        page = client.get(f"/validations/{key}", headers=html).text
        assert f"{done} of 12" in page
        assert f'id="count-candidates">{done}<' in page


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
