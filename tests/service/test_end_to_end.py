"""`bon serve` as it is started on a laptop: local Ray, the miniature's models, a browser."""

import base64
import json
import re
import shutil
import subprocess

import pytest
import yaml

from bon.service.api.validations import EXAMPLE
from tests.service.conftest import wait_for
from tests.service.server import serving
from tests.service.test_serve import wait_ready

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = [pytest.mark.slow, pytest.mark.model, pytest.mark.ray, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    place = {"placement": {"group": "mini", "cpus": 0.5}}
    online = {
        "policies": [{"card": "mini-policy-a", **place}],
        "rewarders": [{"card": "mini-scalar-b", **place}, {"card": "mini-pair-b", **place}],
    }
    with serving(tmp_path_factory.mktemp("server"), miniature=True, online=online) as found:
        yield found


@pytest.fixture(scope="module")
def done(server):
    """The example of the API's documentation, smaller, watched to its end."""
    small = yaml.safe_load(EXAMPLE)
    small["questions"]["limit"], small["pairs"]["limit"] = 6, 9
    small["analysis"] = {"bootstrap": 200}
    key = server.client.post("/v1/validations", json=small).json()["id"]
    states = []
    with server.client.stream("GET", f"/v1/validations/{key}/events", timeout=600) as stream:
        for line in stream.iter_lines():
            if line.startswith("data: "):
                states.append(json.loads(line.removeprefix("data: "))["state"])
    log = server.client.get(f"/v1/validations/{key}/log").text
    assert states[-1] == "done", log
    return key


def dom(address, folder):
    """What Chromium makes of a page."""
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed (apt-get install chromium)")
    command = [
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
        "--no-first-run", "--disable-background-networking", "--disable-component-update",
        "--disable-sync", f"--user-data-dir={folder}", "--virtual-time-budget=15000",
        "--dump-dom", address,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    return done.stdout


@pytest.mark.browser
def test_the_report_and_its_pictures_in_a_browser(server, done, tmp_path):
    base = str(server.client.base_url).rstrip("/")
    page = dom(f"{base}/validations/{done}", tmp_path / "profile")
    assert "Open the report" in page
    report = dom(f"{base}/validations/{done}/report", tmp_path / "profile")
    assert 'id="finding"' in report
    assert "data-question=" in report  # the question browser's script ran in its sandbox
    pictures = re.findall(r'<img[^>]+src="([^"]+)"', report)
    assert pictures
    address = server.client.get(f"/validations/{done}/report").headers["location"]
    for source in pictures:
        answer = server.client.get(f"{address.rsplit('/', 1)[0]}/{source}")
        assert answer.headers["content-type"] == "image/png"
    plan = dom(f"{base}/new", tmp_path / "profile")
    assert "Valid: 20 questions, 60 pairs" in plan


def test_extending_and_cancelling_real_models(server, done):
    client, path = server.client, f"/v1/validations/{done}"
    before = client.get(path).json()["counts"]
    more = {"rewarders": ["mini-critic-b"], "limit": 30}
    assert client.post(f"{path}/extend", json=more).status_code == 202
    wait_for(client, done, "running")
    client.post(f"{path}/cancel")
    kept = wait_for(client, done, "cancelled", "done", seconds=60)["counts"]
    assert kept["judgements"] >= before["judgements"]
    assert client.post(f"{path}/resume").status_code == 202
    after = wait_for(client, done, "done", seconds=400)["counts"]
    assert after["candidates"] == 30 * 8
    assert after["errors"] == 0


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
        "n": 4,
        "policy": "mini-policy-a",
    }
    for rewarder in ("mini-scalar-b", "mini-pair-b"):
        answer = server.client.post(
            "/v1/best-of-n", json={**body, "rewarder": rewarder}, timeout=200
        )
        assert answer.status_code == 200, answer.text
        found = answer.json()
        assert len(found["candidates"]) == 4
        assert all(row["outcome"] != "error" for row in found["judgements"])
        if len({row["text"] for row in found["candidates"]}) > 1 or rewarder == "mini-scalar-b":
            assert found["candidates"][found["chosen"]]["score"] is not None
