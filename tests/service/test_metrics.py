"""What Prometheus scrapes, and the dashboard that shows it."""

import asyncio
import json
import re
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from bon.core.ledger import Account, Reservation
from tests.service.conftest import experiment

DASHBOARD = Path(__file__).parents[2] / "examples" / "deploy" / "grafana.json"


def scraped(client, **headers):
    answer = client.get("/metrics", headers=headers)
    assert answer.headers["content-type"].startswith("text/plain; version=")
    return {
        (sample.name, *(sample.labels[key] for key in sorted(sample.labels))): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def test_validations_money_and_requests_are_counted(client):
    for _ in range(2):
        client.post("/v1/validations", json=experiment())
    ledger = client.app.state.service.ledger
    request = Reservation("m", "spec", 2.5, seconds=0.0, account=Account("me", 10.0, 10.0))
    key = asyncio.run(ledger.reserve(request))
    found = scraped(client)
    assert sum(v for k, v in found.items() if k[0] == "bon_validations") == 2
    assert (found["bon_dollars_total",], found["bon_dollars_committed",]) == (0, 2.5)
    assert found["bon_request_seconds_count", "/v1/validations", "201"] == 2
    assert key is not None


def test_what_a_client_makes_up_adds_no_series(client):
    scraped(client)
    before = len(scraped(client))
    for i in range(5):
        client.request(f"MADEUP{i}", f"/nothing/{i}")
        client.get(f"/v1/validations/{i:016x}")
    routes = {k[1] for k in scraped(client) if k[0] == "bon_request_seconds_count"}
    assert routes <= {"/metrics", "/v1/validations/{key}", "other"}
    assert len(scraped(client)) - before <= 4 * 13


def test_the_dashboard_shows_metrics_that_exist(client):
    client.get("/readyz")
    names = {key[0] for key in scraped(client)} | {"bon_online_requests"}
    panels = json.loads(DASHBOARD.read_text())["panels"]
    for panel in panels:
        (target,) = panel["targets"]
        used = set(re.findall(r"bon_\w+", target["expr"]))
        assert used, panel["title"]
        assert used <= names, panel["title"]
