"""kill -9 of the server while a training's requests wait for one another: the retry gets them."""

import asyncio
import sqlite3
import time

import httpx
import pytest

from bon.service.online.selector import FILE
from tests.service.server import serving
from tests.service.test_online import CARDS

pytestmark = pytest.mark.slow
GROUP = 4
PATH = f"/get_reward?rewarder=judge&group={GROUP}&wait=60"


def sample(question, answer):
    return {"prompt": f"question {question}", "response": f"answer {answer} of {question}"}


async def ask(address, question, answers):
    """One request per response, as trainers send them; a broken connection is None."""

    async def one(client, answer):
        try:
            body = {"samples": [sample(question, answer)]}
            return (await client.post(PATH, json=body)).json()["rewards"][0]
        except httpx.TransportError:
            return None

    async with httpx.AsyncClient(base_url=address, timeout=60) as client:
        return await asyncio.gather(*(one(client, answer) for answer in answers))


def judgements_of(server):
    with sqlite3.connect(server.folder / "data" / FILE) as db:
        return [key for (key,) in db.execute("SELECT key FROM judgements ORDER BY 1")]


def test_a_kill_in_the_middle_of_a_held_group(tmp_path):
    slow = [{**card, "engine_args": {**card["engine_args"], "latency": 0.3}}
            for card in CARDS["rewarders"] if card["name"] == "judge"]  # fmt: skip
    online = {"rewarders": slow, "backend": "process"}
    with serving(tmp_path, online=online) as server:

        async def story():
            """One group is done, one is half there, one is being judged, when the server dies."""
            done = await ask(server.address, 0, range(GROUP))
            pending = asyncio.create_task(ask(server.address, 1, range(GROUP - 1)))
            await asyncio.sleep(0.5)
            judged = asyncio.create_task(ask(server.address, 2, range(GROUP)))
            await asyncio.sleep(0.15)
            server.kill()
            return done, await pending, await judged

        done, pending, judged = asyncio.run(story())
        assert None not in done
        assert (pending, judged) == ([None] * (GROUP - 1), [None] * GROUP)
        kept = judgements_of(server)
        assert len(kept) == GROUP * (GROUP - 1)  # what was answered, and nothing of what was not

        server.start()
        began = time.monotonic()
        again = [asyncio.run(ask(server.address, question, range(GROUP))) for question in range(3)]
        assert time.monotonic() - began < 30  # full groups: nobody waits
        assert again[0] == done
        assert all(0 <= reward <= 1 for rewards in again for reward in rewards)
        judgements = judgements_of(server)
        assert len(judgements) == len(set(judgements)) == 3 * GROUP * (GROUP - 1)
        assert set(kept) <= set(judgements)
