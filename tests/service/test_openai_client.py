"""The official openai client, unchanged, against chat completions with an image."""

import pytest

from tests.service.server import serving
from tests.service.test_online import CARDS, asks, data_url, picture

openai = pytest.importorskip("openai", reason="the openai client is not installed")


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    online = {**{k: CARDS[k] for k in ("policies", "rewarders")}, "backend": "process"}
    with serving(tmp_path_factory.mktemp("openai"), online=online) as server:
        yield openai.OpenAI(base_url=f"{server.client.base_url}/v1", api_key="x", max_retries=0)


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
    assert "bon/policy/critic" in {model.id for model in client.models.list()}
    with pytest.raises(openai.NotFoundError, match="no rewarder 'x' is online"):
        client.chat.completions.create(model="bon/policy/x", messages=asks())
    with pytest.raises(openai.UnprocessableEntityError):
        client.chat.completions.create(
            model="bon/policy/head", messages=asks(), extra_body={"best_of": 9999}
        )
