"""The online selector, on the echo engine in the server's own process."""

import asyncio
import base64
import io
import json
import time

import pytest
from PIL import Image

from bon.service.settings import Online, Scaling
from bon.work.catalogue import catalogue, listing
from tests.conftest import echo_experiment
from tests.service.conftest import make_settings
from tests.service.server import idle

CARDS = echo_experiment()
ONE = {"samples": [{"prompt": "What is 2 + 2?", "response": "It is 4."}]}
OPTIONS = ["2", "4", "6", "8", "10"]


def online_settings(settings, **changes):
    online = {
        "policies": CARDS["policies"], "rewarders": CARDS["rewarders"], "backend": "process",
        **changes,
    }  # fmt: skip
    return settings.model_copy(update={"online": Online.model_validate(online)})


@pytest.fixture(scope="module")
def online(tmp_path_factory):
    with idle(online_settings(make_settings(tmp_path_factory.mktemp("online")))) as client:
        yield client


def picture(colour="red", size=(8, 8), form="PNG"):
    data = io.BytesIO()
    Image.new("RGB", size, colour).save(data, form)
    return data.getvalue()


def mono(width, height, form="PNG"):
    data = io.BytesIO()
    Image.new("1", (width, height)).save(data, form)
    return data.getvalue()


def data_url(data, kind="png"):
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"


def asks(text="What is 2 + 2?", image=None):
    content = [{"type": "text", "text": text}]
    if image is not None:
        content.insert(0, {"type": "image_url", "image_url": {"url": image}})
    return [{"role": "user", "content": content}]


@pytest.mark.parametrize("rewarder", ["judge", "critic", "head"])
def test_best_of_n(online, rewarder):
    body = {"model": f"bon/policy/{rewarder}", "messages": asks(image=data_url(picture()))}
    body |= {"options": OPTIONS, "best_of": 6}
    answer = online.post("/v1/chat/completions", json=body)
    assert answer.status_code == 200, answer.text
    reply = answer.json()
    result, text = reply["bon"], reply["choices"][0]["message"]["content"]
    assert len(result["candidates"]) == 6
    best = result["candidates"][result["chosen"]]
    assert (best["text"], best["answer"]) == (text, result["answer"])
    scores = [row["score"] for row in result["candidates"] if row["score"] is not None]
    if rewarder != "judge":
        assert best["score"] == max(scores)
    assert sum(row["probability"] for row in result["candidates"]) == pytest.approx(1)
    texts = {row["text"] for row in result["candidates"]}
    expected = len(texts) * (len(texts) - 1) if rewarder == "judge" else len(texts)
    assert len(result["judgements"]) == expected
    assert reply["usage"]["completion_tokens"] > 0
    again = online.post("/v1/chat/completions", json=body).json()
    assert again["choices"][0]["message"]["content"] == text


def test_every_rule(online):
    for rule in (
        "round_robin",
        "copeland",
        "knockout",
        "weighted_vote",
        "majority",
    ):
        body = {"model": "bon/policy/judge", "messages": asks(f"{rule}?"), "best_of": 6}
        answer = online.post(
            "/v1/chat/completions", json={**body, "options": OPTIONS, "rule": rule}
        )
        assert answer.status_code == 200, answer.text
        result = answer.json()["bon"]
        assert result["rule"] == rule
        distinct = len({row["text"] for row in result["candidates"]})
        calls = {"knockout": 2 * (distinct - 1), "majority": 0}.get(rule, distinct * (distinct - 1))
        assert len(result["judgements"]) == calls


def test_a_vote_by_scores_needs_their_unit_before_anything_is_sampled(online):
    chat = {"model": "bon/policy/head", "messages": asks("vote?"), "rule": "weighted_vote"}
    answer = online.post("/v1/chat/completions", json={**chat, "options": OPTIONS})
    assert answer.status_code == 422
    assert "set online.validated to a run" in answer.json()["error"]["fix"]


def test_rules_of_the_other_kinds(settings):
    kinds = {
        "list": {
            "kind": "listwise",
            "score": {"pattern": r"Judgement: (\d+)"},
            "engine_args": {"reply": "Judgement: {choice}"},
        },
        "likely": {"kind": "likelihood"},
        "critic": {
            "kind": "pointwise",
            "score": {"yes": ["Yes"], "no": ["No"]},
            "engine_args": {"reply": "{choice}"},
        },
    }
    cards = [{"name": name, "engine": "echo", **more} for name, more in kinds.items()]
    scales = {"likely": 0.3, "critic": 0.2}
    with idle(online_settings(settings, rewarders=cards, scales=scales)) as client:
        for rewarder, rules in (
            ("list", ("listwise", "weighted_vote")),
            ("likely", ("best_score", "weighted_vote")),
            ("critic", ("best_score", "weighted_vote")),
        ):
            for rule in rules:
                body = {"model": f"bon/policy/{rewarder}", "messages": asks(rule), "best_of": 5}
                answer = client.post(
                    "/v1/chat/completions", json={**body, "options": OPTIONS, "rule": rule}
                )
                assert answer.status_code == 200, answer.text
                result = answer.json()["bon"]
                assert {row["outcome"] for row in result["judgements"]} <= {"chosen", "scored"}
                probabilities = [row["probability"] for row in result["candidates"]]
                assert probabilities[result["chosen"]] == max(probabilities)
                assert sum(probabilities) == pytest.approx(1)


def test_scores_are_ranked_and_remembered(online):
    body = {"rewarder": "head", "messages": asks(), "candidates": ["four", "five", "six", "four"]}
    scored = online.post("/v1/score", json=body).json()
    ranked = online.post("/v1/score", json=body).json()
    assert scored["scores"] == ranked["scores"]
    assert scored["scores"][0] == scored["scores"][3]
    assert scored["usage"]["cached_judgements"] == 0
    assert ranked["usage"]["cached_judgements"] == 3
    assert ranked["scores"][ranked["order"][0]] == max(scored["scores"])
    assert sorted(ranked["order"]) == [0, 1, 2, 3]


def good(**changes):
    return {"rewarder": "head", "messages": asks(), "candidates": ["a", "b"], **changes}


BOMB = picture(size=(9000, 9000))
HOSTILE = {
    "10,000 options": (good(options=["x"] * 10_000), 422),
    "1,000 candidates": (good(candidates=["x"] * 1000), 413),
    "no candidates": (good(candidates=[]), 422),
    "unknown rewarder": (good(rewarder="nobody"), 404),
    "rule of another kind": (good(rule="knockout"), 422),
    "counting rule": (good(rule="majority"), 422),
    "unknown rule": (good(rule="../x"), 422),
    "no messages": (good(messages=[]), 422),
    "last turn not the user's": (good(messages=[{"role": "assistant", "content": "x"}]), 422),
    "not an image": (good(messages=asks(image=data_url(b"hello"))), 422),
    "half an image": (good(messages=asks(image=data_url(picture()[:40]))), 422),
    "svg": (good(messages=asks(image=data_url(b"<svg onload=alert(1)>", "svg+xml"))), 422),
    "postscript": (good(messages=asks(image=data_url(b"%!PS-Adobe-3.0 EPSF-3.0\n", "eps"))), 422),
    "bad base64": (good(messages=asks(image="data:image/png;base64,@@@@")), 422),
    "html data url": (good(messages=asks(image="data:text/html,<script>")), 422),
    "decompression bomb": (good(messages=asks(image=data_url(BOMB))), 413),
    "one row": (good(messages=asks(image=data_url(mono(39_000_000, 1)))), 413),
    "one column": (good(messages=asks(image=data_url(mono(1, 39_000_000)))), 413),
    "long": (good(messages=asks(image=data_url(mono(40_000, 900)))), 413),
    "narrow": (good(messages=asks(image=data_url(mono(4_000, 19)))), 422),
    "narrow webp": (good(messages=asks(image=data_url(mono(4_000, 1, "WEBP"), "webp"))), 422),
    "narrow gif": (good(messages=asks(image=data_url(mono(1, 4_000, "GIF"), "gif"))), 422),
    "huge image": (good(messages=asks(image="data:image/png;base64," + "A" * 15_000_000)), 413),
    "file": (good(messages=asks(image="file:///etc/passwd")), 422),
    "address": (good(messages=asks(image="http://127.0.0.1:8321/secret")), 422),
    "address of a cloud": (good(messages=asks(image="http://169.254.169.254/latest")), 422),
    "half an address": (good(messages=asks(image="http://[")), 422),
    "too many images": (good(messages=asks(image=data_url(picture())) * 17), 413),
    "long text": (good(candidates=["x" * 300_000]), 413),
    "unknown field": (good(evil=1), 422),
    "lists as text": (good(candidates=[["a"]]), 422),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_requests(online, name):
    body, status = HOSTILE[name]
    answer = online.post("/v1/score", json=body)
    assert answer.status_code == status, answer.text
    assert answer.json()["error"]["message"]


def test_more_hostile_requests(online):
    kind = {"content-type": "application/json"}
    for body in (b'{"rewarder": "\\ud800"}', b"[" * 100_000, b"\xff\xfe", b"null", b"{", b"",
                 b'{"samples": NaN}'):  # fmt: skip
        for route in ("/v1/score", "/v1/chat/completions", "/get_reward?rewarder=head"):
            answer = online.post(route, content=body, headers=kind)
            assert answer.status_code in (400, 422), answer.text
    surrogate = json.dumps(good(candidates=["\ud800", "b"])).encode()
    assert online.post("/v1/score", content=surrogate, headers=kind).status_code == 422
    for model in ("gpt-4", "bon/policy", "bon/x/judge", "bon/policy/x"):
        body = {"model": model, "messages": asks()}
        assert online.post("/v1/chat/completions", json=body).status_code == 404
    many = {"model": "bon/policy/head", "messages": asks(), "best_of": 10_000}
    assert online.post("/v1/chat/completions", json=many).status_code == 422


def test_overload_is_answered_429_and_recovers(settings):
    import threading

    slow = [
        {**row, "engine_args": {**row["engine_args"], "latency": 0.5}} for row in CARDS["rewarders"]
    ]
    scaling = Scaling(max_ongoing_requests=2, max_queued_requests=1)
    with idle(online_settings(settings, rewarders=slow, scaling=scaling)) as client:
        answers = []

        def ask(number, client=client, answers=answers):
            body = good(messages=asks(f"number {number}"))
            answers.append(client.post("/v1/score", json=body))

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted({answer.status_code for answer in answers}) == [200, 429]
        assert sum(answer.status_code == 200 for answer in answers) == 3
        refused = next(answer for answer in answers if answer.status_code == 429)
        assert int(refused.headers["retry-after"]) >= 1
        assert client.post("/v1/score", json=good()).status_code == 200


def test_a_model_that_fails_is_one_line(settings):
    broken = json.loads(json.dumps(CARDS))
    broken["policies"][0]["engine_args"]["failure_rate"] = 1.0
    broken["rewarders"][2]["engine_args"]["failure_rate"] = 1.0
    changed = {"policies": broken["policies"], "rewarders": broken["rewarders"]}
    with idle(online_settings(settings, **changed)) as client:
        body = {"model": "bon/policy/judge", "messages": asks()}
        for answer in (
            client.post("/v1/chat/completions", json=body),
            client.post("/v1/score", json=good()),
            client.post("/get_reward?rewarder=head", json=ONE),
        ):
            assert answer.status_code == 502
            assert "echo was told to fail" in answer.json()["error"]["message"]


def test_no_model_on_line(client):
    assert client.post("/v1/score", json=good()).status_code == 503
    assert client.get("/v1/models").json()["data"] == []


def test_ready_and_catalogue(online):
    ready = online.get("/readyz")
    assert ready.json()["checks"]["online"] is True
    result = online.get("/v1/catalogue").json()
    assert result["online"]["rewarders"] == ["critic", "head", "judge"]
    del result["online"]
    assert result == catalogue()  # what `bon list` says, with the cards in full
    assert [row["name"] for row in result["rewarders"]] == [
        row["name"] for row in listing("rewarders")
    ]


def test_what_would_change_an_answer_is_refused_and_not_ignored(online):
    body = {"model": "bon/policy/judge", "messages": asks(), "best_of": 2}
    tool = {"type": "function", "function": {"name": "f"}}
    for field, value in (
        ("tools", [tool]), ("functions", [{"name": "f"}]), ("logprobs", True),
        ("response_format", {"type": "json_object"}),
    ):  # fmt: skip
        answer = online.post("/v1/chat/completions", json={**body, field: value})
        assert answer.status_code == 422, answer.text
        assert field in answer.json()["error"]["message"]
    plain = {"tools": [], "response_format": {"type": "text"}, "logprobs": False, "temperature": 2}
    assert online.post("/v1/chat/completions", json={**body, **plain}).status_code == 200


def test_the_pixels_of_a_request_are_counted_together(online):
    image = io.BytesIO()
    Image.new("1", (8000, 5000)).save(image, "PNG")  # 40 million pixels in 5 KB
    part = {"type": "image_url", "image_url": {"url": data_url(image.getvalue())}}
    content = [*[part] * 16, {"type": "text", "text": "What is this?"}]
    body = {"rewarder": "head", "messages": [{"role": "user", "content": content}]}
    started = time.process_time()
    answer = online.post("/v1/score", json={**body, "candidates": ["a", "b"]})
    assert answer.status_code == 413, answer.text
    assert time.process_time() - started < 10


def test_a_client_that_hangs_up_is_not_worked_for(settings, caplog):
    slow = echo_experiment(latency=3000.0)
    changes = {"policies": slow["policies"], "rewarders": slow["rewarders"]}
    with idle(online_settings(settings, **changes)) as client:
        body = json.dumps({"rewarder": "head", "messages": asks(), "candidates": ["a", "b"]})
        coming = [{"type": "http.request", "body": body.encode(), "more_body": False}]

        async def receive(coming=coming):
            if coming:
                return coming.pop()
            await asyncio.sleep(0.2)
            return {"type": "http.disconnect"}

        async def send(message):
            pass

        headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
        scope = {
            "type": "http", "method": "POST", "path": "/v1/score", "raw_path": b"/v1/score",
            "query_string": b"", "headers": headers, "http_version": "1.1", "scheme": "http",
            "server": ("localhost", 80), "client": ("127.0.0.1", 1), "root_path": "",
        }  # fmt: skip
        caplog.set_level("INFO", "bon.access")
        client.portal.call(client.app, scope, receive, send)  # returns long before an answer
        client.portal.call(asyncio.sleep, 0.1)
        assert client.app.state.online.backend.queue.length == 0
        assert any("/v1/score" in row.message and row.status == 499 for row in caplog.records)
