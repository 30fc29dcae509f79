"""The reward routes: every form of a request, those that are refused, and the stored judgements."""

import asyncio
import json
import sqlite3

import pytest

from bon.core.records import Judgement
from bon.service.online.judgement_store import FILE, JudgementStore
from tests.service.server import idle
from tests.service.test_online import asks
from tests.service.test_rewards import ROLLOUT, SAMPLE, with_sets

JSON = {"content-type": "application/json"}
SCORED = {"rewarder": "head", "messages": asks(), "candidates": ["4", "5"]}
ANSWERED = [
    ("/get_reward?rewarder=head", ROLLOUT),
    ("/get_reward?rewarder=head&scale=raw", SAMPLE),
    ("/get_reward?rewarder=head&key=score", SAMPLE),
    ("/get_reward?rewarder=head&scale=rank", {"samples": [SAMPLE, {**SAMPLE, "response": "5"}]}),
    ("/get_reward?rewarder=head", {**SAMPLE, "label": "bon://sums/q1", "more": 1}),
    ("/v1/score", SCORED),
]
REFUSED = [
    ("/get_reward?rewarder=head&rewarder=judge", SAMPLE),
    ("/get_reward?rewarder=head&group=x", SAMPLE),
    ("/get_reward?rewarder=head&key=%FF", SAMPLE),
    ("/get_reward?rewarder=head", []),
    ("/get_reward?rewarder=head", {**SAMPLE, "response": 7}),
    ("/get_reward?rewarder=head", {**SAMPLE, "response": "\ud800"}),
    ("/v1/score", {**SCORED, "unknown": 1}),
]


@pytest.fixture
def routes(settings):
    with idle(with_sets(settings)) as client:
        yield client


@pytest.mark.parametrize(("path", "body"), ANSWERED)
def test_valid_requests_are_answered(routes, path, body):
    assert routes.post(path, json=body).status_code == 200


@pytest.mark.parametrize(("path", "body"), REFUSED)
def test_others_are_refused(routes, path, body):
    answer = routes.post(path, content=json.dumps(body), headers=JSON)
    assert answer.status_code == 422
    assert answer.json()["error"]["message"]


@pytest.mark.parametrize("content", [b"{", b"", b"\xff\xfe", b'{"label": NaN}'])
def test_odd_bodies_too(routes, content):
    path = "/get_reward?rewarder=head"
    assert routes.post(path, content=content, headers=JSON).status_code in (400, 422)


def test_of_groups_that_come_at_once_a_bad_one_alone_fails(tmp_path):
    store = JudgementStore(tmp_path / FILE)

    async def add(number, score):
        judgement = Judgement(
            f"j{number}", "x", "x", "question", f"q{number}", "k", None, 0, "scored", score
        )
        await store.add([judgement])

    async def everyone():
        return await asyncio.gather(
            *(add(n, "\ud800" if n == 7 else 1.0) for n in range(40)), return_exceptions=True
        )

    result = asyncio.run(everyone())
    assert [n for n, item in enumerate(result) if item is not None] == [7]
    with sqlite3.connect(tmp_path / FILE) as db:
        assert db.execute("SELECT COUNT(*) FROM judgements").fetchone() == (39,)
    assert [row.score for row in store.judged("x", "q1")] == [1.0]
    store.close()
