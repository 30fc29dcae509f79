"""`bon serve` as it is started on a laptop: local Ray, the miniature's models, a browser."""

import base64
import json
import re

import pytest
import yaml
from playwright.sync_api import expect

from bon.service.api.validations import EXAMPLE
from tests.conftest import expected_complaints
from tests.service.server import serving
from tests.service.test_serve import wait_ready

pytestmark = [pytest.mark.slow, pytest.mark.model, pytest.mark.ray, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    place = {"placement": {"group": "mini", "cpus": 0.5}}
    online = {
        "policies": [{"card": "mini-policy-a", **place}],
        "rewarders": [{"card": "mini-scalar-b", **place}, {"card": "mini-pair-d", **place}],
    }
    with serving(tmp_path_factory.mktemp("server"), miniature=True, online=online) as running:
        yield running


@pytest.mark.browser
def test_a_validation_from_the_form_to_the_report(server, tab):
    """As a colleague would: write it after another, start it, watch it, read its report, leaf."""
    small = yaml.safe_load(EXAMPLE)
    small["questions"]["limit"], small["pairs"]["limit"] = 6, 9
    small["analysis"] = {"bootstrap": 200}
    key = server.client.post("/v1/validations", json=small).json()["id"]
    server.client.post(f"/v1/validations/{key}/cancel")
    tab.goto(f"{server.address}/validations/{key}")
    tab.get_by_role("link", name="Use as a template").click()
    plan, start = tab.locator("#plan"), tab.get_by_role("button", name="Start the validation")
    expect(plan).to_contain_text("Valid: 6 questions, 9 pairs", timeout=30_000)
    text = tab.locator("#experiment").input_value()
    tab.locator("#experiment").fill(text.replace("limit: 6", "limit: six"))
    with expected_complaints(tab, "422"):
        expect(plan).to_contain_text("questions.limit", timeout=30_000)
        expect(start).to_be_disabled()
    tab.locator("#experiment").fill(text.replace("limit: 6", "limit: 4"))
    expect(plan).to_contain_text("Valid: 4 questions", timeout=30_000)
    tab.locator("select[data-key=rewarders]").select_option("mini-critic-b")
    expect(tab.locator("#experiment")).to_have_value(re.compile("- mini-critic-b\n"))
    expect(start).to_be_enabled(timeout=30_000)
    start.click()

    tab.wait_for_url("**/validations/v*")
    expect(tab.locator("#state")).to_have_text("running", timeout=60_000)
    expect(tab.locator("#stages")).to_contain_text(" of ", timeout=200_000)
    expect(tab.locator("#state")).to_have_text("done", timeout=400_000)
    assert tab.locator("#count-errors").inner_text() == "0"

    tab.get_by_role("link", name="Open the report").click()
    expect(tab.locator("h1")).to_contain_text("% right")
    tab.evaluate("document.querySelectorAll('details').forEach(fold => fold.open = true)")
    expect(tab.locator("#view img").first).not_to_have_js_property("naturalWidth", 0)
    tab.evaluate("document.getElementById('questions').scrollIntoView({behavior: 'instant'})")
    tab.keyboard.press("j")
    expect(tab.locator("#place")).to_have_text("2 of 4")


def test_the_selector_with_a_real_picture(server):
    import pyarrow.parquet as pq

    wait_ready(server.client)
    table = pq.read_table(server.folder / "data" / "files" / "miniature" / "questions.parquet")
    row = table.slice(0, 1).to_pylist()[0]
    picture = base64.b64encode(row["image_1"]["bytes"]).decode()
    parts = [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{picture}"}},
        {"type": "text", "text": row["question"]},
    ]
    body = {
        "messages": [{"role": "user", "content": parts}],
        "options": json.loads(row["options"].replace("'", '"')),
        "best_of": 4,
    }
    for rewarder in ("mini-scalar-b", "mini-pair-d"):
        body["model"] = f"bon/mini-policy-a/{rewarder}"
        answer = server.client.post("/v1/chat/completions", json=body, timeout=200)
        assert answer.status_code == 200, answer.text
        result = answer.json()["bon"]
        assert len(result["candidates"]) == 4
        assert all(row["outcome"] != "error" for row in result["judgements"])
        if len({row["text"] for row in result["candidates"]}) > 1 or rewarder == "mini-scalar-b":
            assert result["candidates"][result["chosen"]]["score"] is not None
