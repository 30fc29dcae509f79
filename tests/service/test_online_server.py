"""A real server: the official openai client, unchanged, and what a large image leaves behind."""

import base64
import io

import numpy as np
import psutil
import pytest
from PIL import Image

from tests.service.server import serving
from tests.service.test_online import CARDS, asks, data_url, picture

MB = 1024 * 1024


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    online = {**{k: CARDS[k] for k in ("policies", "rewarders")}, "backend": "process"}
    with serving(tmp_path_factory.mktemp("server"), online=online) as running:
        yield running


@pytest.fixture
def client(server):
    openai = pytest.importorskip("openai", reason="the openai client is not installed")
    return openai.OpenAI(base_url=f"{server.address}/v1", api_key="x", max_retries=0)


def test_a_completion_with_an_image(client):
    answer = client.chat.completions.create(
        model="bon/policy/judge",
        messages=asks("Which colour is this?", data_url(picture())),
        extra_body={"best_of": 4, "options": ["red", "green", "blue"]},
    )
    assert answer.choices[0].message.content.startswith("Answer: ")
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert answer.usage.prompt_tokens > 64


def test_a_stream_says_the_same(client):
    request = {"model": "bon/policy/head", "messages": asks("Say it."), "seed": 3}
    whole = client.chat.completions.create(**request)
    parts = list(
        client.chat.completions.create(
            **request, stream=True, stream_options={"include_usage": True}
        )
    )
    text = "".join(part.choices[0].delta.content or "" for part in parts if part.choices)
    assert text == whole.choices[0].message.content
    assert parts[-1].usage.completion_tokens > 0


def test_models_and_errors(client):
    import openai

    assert "bon/policy/critic" in {model.id for model in client.models.list()}
    with pytest.raises(openai.NotFoundError, match="no rewarder 'x' is online"):
        client.chat.completions.create(model="bon/policy/x", messages=asks())
    with pytest.raises(openai.UnprocessableEntityError):
        client.chat.completions.create(
            model="bon/policy/head", messages=asks(), extra_body={"best_of": 9999}
        )


def large(form):
    small = np.random.default_rng(0).integers(0, 255, (600, 650, 3), np.uint8)
    data = io.BytesIO()
    picture = Image.fromarray(small).resize((6500, 6000), Image.Resampling.BILINEAR)
    picture.save(data, form, quality=30)
    return data.getvalue()


@pytest.mark.parametrize("form", ["JPEG", "WEBP"])
def test_the_memory_of_an_image_that_is_passed_on_is_given_back(server, form):
    text = base64.b64encode(large(form)).decode()
    body = {"rewarder": "head", "candidates": ["a", "b"]}
    image = f"data:image/{form.lower()};base64,{text}"
    server.client.post("/v1/score", json={**body, "messages": asks()})
    process = psutil.Process(server.process.pid)
    before = process.memory_info().rss
    for number in range(2):
        messages = asks(f"{form} {number}?", image=image)
        answer = server.client.post("/v1/score", json={**body, "messages": messages})
        assert answer.status_code == 200, answer.text[:300]
    assert process.memory_info().rss - before < 120 * MB + 3 * len(text)
