"""The reward routes: what is refused, the stored judgements, and the walk of a request."""

import asyncio
import json
import sqlite3
import sys
from pathlib import Path

import pytest

import bon.service
from bon.core.records import Judgement
from bon.rewarders.base import Item
from bon.service.online.selector import FILE, JudgementStore
from tests.service.server import idle
from tests.service.test_online import asks
from tests.service.test_rewards import SAMPLE, with_sets

JSON = {"content-type": "application/json"}
SCORED = {"rewarder": "head", "messages": asks(), "candidates": ["4", "5"]}
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
    item = Item("question", "q1", "", (), {"k": "yes"})
    assert [row.score for row in asyncio.run(store.judged("x", item))] == [1.0]
    store.close()


def test_a_reward_request_passes_nine_files_of_the_service(routes):
    passed = set()

    def note(frame, event, _):
        if event == "call":
            passed.add(frame.f_code.co_filename)

    assert routes.post("/get_reward?rewarder=head", json=SAMPLE).status_code == 200  # loaded
    routes.portal.call(sys.setprofile, note)  # of the thread that serves
    samples = {"samples": [{**SAMPLE, "response": text} for text in ("4", "5")]}
    assert routes.post("/get_reward?rewarder=judge", json=samples).status_code == 200
    late = "/get_reward?rewarder=judge&group=3&wait=0.01"
    assert routes.post(late, json=samples).status_code == 200
    routes.portal.call(sys.setprofile, None)
    walk = {path for path in passed if path.startswith(str(Path(bon.service.__file__).parent))}
    assert 3 <= len(walk) <= 9, walk
