"""Every registered engine answers: a new one needs its settings here."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from bon.core.errors import Unsupported
from bon.core.sampling import Sampling
from bon.engines import ENGINES, build
from bon.engines.base import GenerateRequest, Message
from tests.engines.fake_endpoint import serve

MESSAGES = (Message("user", ("Which?",)),)
ASKED = GenerateRequest(MESSAGES, Sampling(temperature=0, max_tokens=4), (1,), choices=("A", "B"))


@contextmanager
def _endpoint() -> Iterator[dict[str, Any]]:
    with serve() as server:
        yield {"base_url": server.url, "model": "m", "api_key_env": None}


ANSWERING: dict[str, Callable[[pytest.FixtureRequest], AbstractContextManager[dict[str, Any]]]] = {
    "echo": lambda _: nullcontext({}),
    "none": lambda _: nullcontext({"model": "m"}),
    "transformers": lambda request: nullcontext({"model": str(_tiny(request))}),
    "vllm": lambda request: nullcontext({"model": str(_tiny(request)), "max_model_len": 1024}),
    "openai": lambda _: _endpoint(),
}


def _tiny(request: pytest.FixtureRequest) -> Path:
    checkpoint: Path = request.getfixturevalue("checkpoint")
    return checkpoint


@pytest.mark.model
@pytest.mark.parametrize("name", ENGINES)
def test_every_engine_answers(name: str, request: pytest.FixtureRequest) -> None:
    if name == "vllm":
        pytest.importorskip("vllm.engine", reason="tests/vllm runs it in an environment of its own")

    async def work(settings: dict[str, Any]) -> None:
        engine = build(name, settings)
        assert engine.name == name
        assert engine.info()["engine"] == name
        if name == "none":  # its rewarder loads the model
            assert engine.info()["model"] == "m"
            with pytest.raises(Unsupported):
                await engine.generate(ASKED)
        else:
            (sample,) = (await engine.generate(ASKED)).samples
            assert sample.num_tokens > 0
        await engine.close()

    with ANSWERING[name](request) as settings:
        asyncio.run(work(settings))
