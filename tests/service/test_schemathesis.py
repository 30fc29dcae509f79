"""Requests made from the OpenAPI document: none ends in a 5xx, and most are answered."""

import os
from collections import Counter

import pytest

from bon.service.validations.jobs import Jobs
from tests.service.conftest import experiment
from tests.service.server import serving, write_data
from tests.service.test_online import CARDS, ONE, OPTIONS, asks
from tests.service.test_rewards import SAMPLE

schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")
hypothesis = pytest.importorskip("hypothesis")
# Before any server runs: Python 3.11 cannot parse in two threads at once, and it imports this late.
pytest.importorskip("schemathesis.specs.openapi.schemas")

EXAMPLES = int(os.environ.get("BON_EXAMPLES", "25"))
ANSWERS = 0.5
"""Least share of the answers that are 2xx: what is refused at the door tests the door alone."""
CHOSEN = {"model": "bon/policy/judge", "messages": asks(), "best_of": 2}
JUDGED = {"rewarder": "head", "messages": asks(), "candidates": ["4", "5"]}
BODIES = {
    "POST /v1/plan": [experiment()],
    "POST /v1/score": [JUDGED, {**JUDGED, "rewarder": "judge"}],
    "POST /v1/chat/completions": [CHOSEN, {**CHOSEN, "options": OPTIONS}],
}
"""Valid bodies of the operations that start no validation."""
REWARDED = [
    ("/get_reward?rewarder=head", ONE),
    ("/get_reward?rewarder=judge", {"samples": [SAMPLE, {**SAMPLE, "response": "5"}]}),
    ("/get_reward?rewarder=head", {"samples": [{**SAMPLE, "more": 1}]}),
]
PATHS = {"table": "pairs"}


def valid(case, drawn, key):
    """The case with a body and an address that are right; what is free text stays as generated."""
    path, verb = case.operation.path, case.operation.method.upper()
    if "{key}" in path and verb != "GET":
        return  # it would be deleted, or run
    names = {**PATHS, "key": key}
    if "models" in path:
        names["name"] = "bon/policy/judge"
    for name in case.path_parameters or {}:
        case.path_parameters[name] = names[name]
    case.query, case.headers, case.cookies = {}, {}, {}
    bodies = BODIES.get(f"{verb} {path}", [])
    rewards = [(at, body) for at, body in REWARDED if at.partition("?")[0] == path]
    if rewards:
        at, case.body = drawn.draw(hypothesis.strategies.sampled_from(rewards))
        pairs = at.partition("?")[2].replace("+", " ").replace("%20", " ").split("&")
        case.query = dict(pair.split("=") for pair in pairs if pair)
        case.media_type = "application/json"
    elif bodies:
        case.body = drawn.draw(hypothesis.strategies.sampled_from(bodies))
        case.media_type = "application/json"


@pytest.fixture(scope="module")
def api(tmp_path_factory):
    online = {**{k: CARDS[k] for k in ("policies", "rewarders")}, "backend": "process"}
    folder = tmp_path_factory.mktemp("api")
    write_data(folder, 12, 9)
    jobs = Jobs(folder / "data" / "service.sqlite")
    key = jobs.add("mine", "local", experiment()).id
    with jobs.write() as db:
        db.execute("UPDATE validations SET state = 'cancelled'")
    jobs.close()
    run = folder / "data" / "runs" / key
    run.mkdir(parents=True)
    (run / "results.json").write_text("{}")
    with serving(folder, online=online, max_running=1) as server:
        document = server.client.get("/v1/openapi.json").json()
        schema = schemathesis.openapi.from_dict(document)
        schema.config.update(base_url=str(server.client.base_url).rstrip("/"))
        yield schema, folder / "server.log", key


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_no_request_is_a_server_error(api):
    schema, log, key = api
    seen = Counter()
    for result in schema.get_all_operations():
        operation = result.ok()

        @hypothesis.settings(
            max_examples=EXAMPLES,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        @hypothesis.given(
            case=operation.as_strategy(),
            right=hypothesis.strategies.integers(0, 9),
            drawn=hypothesis.strategies.data(),
        )
        def check(case, right, drawn):
            if right:
                valid(case, drawn, key)
            answer = case.call(timeout=60)
            # 502 to 504 are answers of their own: a model that failed, is not there, is late.
            assert answer.status_code not in (500, 501), (case.as_curl_command(), answer.text)
            seen[answer.status_code] += 1

        check()
    share = sum(seen[status] for status in seen if status < 300) / seen.total()
    print(f"{share:.0%} of {seen.total()} answers are 2xx: {dict(seen)}")
    assert share >= ANSWERS, seen
    assert {200, 404, 422} <= set(seen)
    assert "traceback" not in log.read_text()
