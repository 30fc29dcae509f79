"""The reward server: what trainers send, answered as they expect it."""

import asyncio
import json
import sqlite3
import time

import pytest

from bon.core.records import Judgement
from bon.rewarders.base import Item
from bon.service.api.rewards import consistency, parsed_share
from bon.service.online.selector import FILE, JudgementStore
from tests.service.conftest import make_settings
from tests.service.server import idle
from tests.service.test_online import ONE, asks, online_settings

(SAMPLE,) = ONE["samples"]
MUTE = {
    "name": "mute", "engine": "echo", "kind": "pointwise", "score": {"pattern": r"Score: (\d)"},
    "engine_args": {"reply": "no idea of {choice}"},
}  # fmt: skip
HEAD = {"name": "head", "engine": "echo", "kind": "scalar"}


@pytest.fixture(scope="module")
def trainer(tmp_path_factory):
    with idle(online_settings(make_settings(tmp_path_factory.mktemp("trainer")))) as client:
        yield client


def good(answer):
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_batch_never_fills_the_queue_by_itself(trainer):
    samples = [{"prompt": f"question {n}", "response": "yes"} for n in range(400)]
    result = good(trainer.post("/get_reward?rewarder=head", json={"samples": samples}))
    assert len(result["rewards"]) == 400


def test_texts_that_would_be_shown_again_and_again(trainer):
    """64 texts of 150,000 characters are 4,032 comparisons of 300,000: 35 s of a core."""
    texts = [str(n) + "x" * 150_000 for n in range(64)]
    started = time.process_time()
    body = {"rewarder": "judge", "messages": asks(), "candidates": texts}
    refused(trainer.post("/v1/score", json=body), 413, "characters")
    item = {"samples": [{**SAMPLE, "response": text} for text in texts]}
    refused(trainer.post("/get_reward?rewarder=judge", json=item), 413, "characters")
    assert time.process_time() - started < 10


def refused(answer, status, words):
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert words in error["message"] + error["fix"]


# ------------------------------------------------------------------ protocols


def test_every_protocol_gives_the_rewarders_own_score(trainer):
    """The same prompt and answer through every door, beside bon's own."""
    own = {"rewarder": "head", "messages": asks(), "candidates": ["It is 4."]}
    score = good(trainer.post("/v1/score", json=own))["scores"][0]
    assert score is not None
    known = {**SAMPLE, "label": "4"}  # what is not used may be there
    batch = good(
        trainer.post("/get_reward?rewarder=head", json={"samples": [SAMPLE] * 2 + [known]})
    )
    assert batch["rewards"] == [score] * 3
    assert batch["extra_logs"]["no_image"] == [1, 1, 1]
    assert batch["extra_logs"]["parsed"] == [1.0] * 3
    assert all(isinstance(v[0], int | float) for v in batch["extra_logs"].values())
    ended = {"samples": [{**SAMPLE, "response": "It is 4.<|im_end|>\n"}]}
    assert good(trainer.post("/get_reward?rewarder=head", json=ended))["rewards"] == [score]


REFUSED = {
    "no rewarder named": ("/get_reward", ONE, 422, "rewarder=NAME"),
    "unknown rewarder": ("/get_reward?rewarder=nobody", ONE, 404, "nobody"),
    "unknown setting": ("/get_reward?rewarder=head&grop=8", ONE, 422, "grop"),
    "counting rule": ("/get_reward?rewarder=head&rule=majority", ONE, 422, "counts"),
    "nothing to compare": ("/get_reward?rewarder=judge", ONE, 422, "in one request"),
    "group too large": ("/get_reward?rewarder=judge", [SAMPLE] * 65, 413, "at most 64"),
    "no question": ("/get_reward?rewarder=head", [{**SAMPLE, "prompt": " "}], 422, "its prompt"),
    "no list": ("/get_reward?rewarder=head", [], 422, ""),
    "no text": ("/get_reward?rewarder=head", [{**SAMPLE, "response": 7}], 422, ""),
    "half a character": ("/get_reward?rewarder=head", [{**SAMPLE, "response": "\ud800"}], 422, ""),
    "no body": ("/get_reward?rewarder=head", {}, 422, "samples"),
    "long text": (
        "/get_reward?rewarder=head", [{**SAMPLE, "response": "x" * 300_000}], 413, "300000"
    ),
    "image of a file": (
        "/get_reward?rewarder=head",
        [{**SAMPLE, "prompt": asks(image="file:///etc/passwd")}], 422, "data URL",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(trainer, name):
    path, body, status, words = REFUSED[name]
    content = json.dumps({"samples": body} if isinstance(body, list) and body else body)
    headers = {"content-type": "application/json"}
    refused(trainer.post(path, content=content, headers=headers), status, words)


# ------------------------------------------------------------------ groups

TEXTS = ["six", "seven", "eight", "six"]


@pytest.mark.parametrize("rule", ["round_robin", "knockout", "copeland"])
def test_responses_to_one_question_are_judged_together(trainer, rule):
    prompts = ["What is 2 + 4?", "What is 2 + 5?"]
    samples = [{"prompt": prompt, "response": t} for t in TEXTS for prompt in prompts]
    address = f"/get_reward?rewarder=judge&rule={rule}"
    result = good(trainer.post(address, json={"samples": samples}))
    assert result["extra_logs"]["group_size"] == [4] * 8
    for rewards in (result["rewards"][::2], result["rewards"][1::2]):
        assert all(0 <= value <= 1 for value in rewards)
        assert rewards[0] == rewards[3]  # the same text is the same response
        assert len(set(rewards)) > 1
    copies = [{**SAMPLE, "response": "the same"}] * 4
    result = good(trainer.post(address, json={"samples": copies}))
    assert result["rewards"] == [0.5] * 4
    assert result["extra_logs"]["tokens"] == [0] * 4


# ------------------------------------------------------------------ never a silent zero


def test_what_cannot_be_read_is_never_a_number(settings):
    with idle(online_settings(settings, rewarders=[MUTE, HEAD])) as client:
        address = "/get_reward?rewarder=mute"
        refused(client.post(address, json=ONE), 503, "could not be read")
        null = good(client.post(f"{address}&on_unparsed=null", json=ONE))
        assert null["rewards"] == [None]
        assert null["extra_logs"]["parsed"] == [0.0]


def said(first, second, outcome):
    return Judgement("k", "r", "s", "question", "i", first, second, 0, outcome)


def test_consistency_and_parsed_share():
    assert consistency([]) == 1
    assert parsed_share([]) == 1
    turned = [said("a", "b", "first"), said("b", "a", "second")]
    stuck = [said("a", "c", "first"), said("c", "a", "first")]
    assert consistency(turned) == 1
    assert consistency(turned + stuck) == 0.5
    assert consistency([said("a", "b", "first"), said("b", "a", "tie")]) == 1
    assert consistency([said("a", "b", "first"), said("b", "a", "unparsed")]) == 1
    assert parsed_share([*turned, said("a", "b", "unparsed"), said("a", "b", "error")]) == 0.5


# ------------------------------------------------------------------ what is kept


def test_every_judgement_is_kept_and_reused(settings):
    samples = [{**SAMPLE, "response": text} for text in TEXTS]
    cached = []
    for _ in range(2):  # the second server reads what the first one stored
        with idle(online_settings(settings)) as client:
            result = good(client.post("/get_reward?rewarder=judge", json={"samples": samples}))
            cached += result["extra_logs"]["cached"]
    assert cached == [0] * 4 + [6] * 4
    with sqlite3.connect(settings.data / FILE) as db:
        rows = db.execute("SELECT outcome, text FROM judgements").fetchall()
    assert len(rows) == 6
    assert all("Overall Judgment" in text for _, text in rows)


def test_of_judgements_that_come_at_once_a_bad_one_alone_fails(tmp_path):
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
    item = Item("question", "q1", "", (), {"k": "yes"})
    assert [row.score for row in asyncio.run(store.judged("x", item))] == [1.0]
    store.close()
