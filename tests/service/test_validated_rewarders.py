"""What a validation says of a rewarder, and that a card reworded since is refused."""

import json

import pytest

from bon.analysis.results.study import Provenance
from bon.experiment.cards import load_rewarder
from bon.planning.run_tables import asked_with
from tests.analysis.synthetic import analyse, synthetic_tables
from tests.service.test_online import CARDS, online_settings, serving
from tests.service.test_rewards import SAMPLE, good, refused

JUDGE = {**CARDS["rewarders"][0], "name": "rewarder-00"}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Results of a run that holds the judge as it is."""
    base = tmp_path_factory.mktemp("cards")
    created = analyse(synthetic_tables(3, 30, 4, 40), draws=100)
    details = asked_with(load_rewarder(JUDGE, base))
    source = Provenance(kind="rewarder", name=JUDGE["name"], details=details)
    return created.model_copy(update={"sources": (source,)})


def vouched(settings, results, card):
    run = settings.data / "my-run"
    run.mkdir()
    (run / "results.json").write_text(results.model_dump_json())
    other = {**CARDS["rewarders"][2], "name": "other"}
    return online_settings(settings, rewarders=[card, other], validated=str(run))


def test_the_record_of_a_rewarder(settings, results):
    for client in serving(vouched(settings, results, JUDGE)):
        result = good(client.get("/v1/rewarders/rewarder-00"))
        assert result["kind"] == "pairwise"
        assert "knockout" in result["rules"]
        output = result["validation"]
        assert (output["run"], output["unchanged"], output["changed"]) == ("my-run", True, [])
        gain = next(row["gain"] for row in output["best_of_n"] if row["headline"])
        assert gain["low"] <= gain["value"] <= gain["high"]
        assert output["r"][0]["pearson"]["value"] == results.main.pearson.estimate.value
        assert output["benchmarks"][0]["num_pairs"] == 40
        assert good(client.get("/v1/rewarders/rewarder-00?run=my-run")) == result
        names = {row["name"] for row in good(client.get("/v1/rewarders"))["rewarders"]}
        assert names == {"rewarder-00", "other"}
        refused(client.get("/v1/rewarders/other"), 404, "did not validate other")
        refused(client.get("/v1/rewarders/nobody"), 404, "nobody")
        refused(client.get("/v1/rewarders/rewarder-00?run=../my-run"), 404, "no run")
        missing = "v261120-0123456789"
        refused(client.get(f"/v1/rewarders/rewarder-00?run={missing}"), 404, "no results")
        kept = settings.runs / missing
        kept.mkdir(parents=True)
        (kept / "results.json").write_text(results.model_dump_json())
        result = good(client.get(f"/v1/rewarders/rewarder-00?run={missing}"))
        assert result["validation"]["run"] == missing
        (kept / "results.json").write_text(json.dumps({"schema_version": "x"}))
        refused(client.get(f"/v1/rewarders/rewarder-00?run={missing}"), 404, "no results")


CHANGES = {
    "nothing": ({}, ""),
    "the price": ({"cost": {"input_per_million": 1, "output_per_million": 1}}, ""),
    "the wording": ({"prompt": {"text": "Well? {{ prompt }}|{{ first }}|{{ second }}"}}, "prompt"),
    "the sampling": ({"sampling": {"temperature": 0.7}}, "sampling"),
    "what it sees": ({"image_filter": "gray"}, "images"),
    "the model": ({"model": "another/model"}, "model"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_card_that_changed_since_gives_no_reward(settings, results, name):
    change, comparable = CHANGES[name]
    body = {"samples": [{**SAMPLE, "response": text} for text in ("a", "b")]}
    for client in serving(vouched(settings, results, {**JUDGE, **change})):
        address = "/get_reward?rewarder=rewarder-00&validated="
        answer = client.post(f"{address}my-run", json=body)
        result = good(client.get("/v1/rewarders/rewarder-00"))["validation"]
        assert result["changed"] == ([comparable] if comparable else [])
        if comparable:
            refused(answer, 409, f"its {comparable} changed since")
        else:
            assert len(good(answer)["rewards"]) == 2
        refused(client.post(f"{address}nothing", json=body), 404, "my-run")
        other = client.post("/get_reward?rewarder=other&validated=my-run", json=body)
        refused(other, 409, "did not validate other")


def test_without_a_validation_there_is_none(settings):
    for client in serving(online_settings(settings)):
        assert good(client.get("/v1/rewarders/judge"))["validation"] is None
        answer = client.post("/get_reward?rewarder=head&validated=x", json=SAMPLE)
        refused(answer, 404, "online.validated: none")
