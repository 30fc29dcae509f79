"""n = 4 in a mixed batch, and likelihoods, on a tiny checkpoint of every newer architecture."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from test_architectures import alone, inputs_of, load, messages, together  # noqa: E402
from tiny_architectures import NEWER, TEXT_ALONE, make_architecture  # noqa: E402

from bon.core.sampling import Sampling  # noqa: E402
from bon.engines.base import GenerateRequest, Message, ScoreRequest  # noqa: E402

pytestmark = pytest.mark.model

GREEDY = Sampling(temperature=0, max_tokens=4)
HOT = Sampling(temperature=1.0, max_tokens=4)
BROKEN = {"llama4": "5.24.0"}
"""Architectures that a version of transformers cannot run itself: its `generate` raises, too."""


def broken(name: str) -> list[Any]:
    fails = BROKEN.get(name) == transformers.__version__
    return [pytest.mark.xfail(raises=AttributeError, strict=True)] if fails else []


@pytest.fixture(scope="module", params=[pytest.param(name, marks=broken(name)) for name in NEWER])
def asked(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Any, int]]:
    """The engine of an architecture, and the images that its processor takes here."""
    built = load(make_architecture(request.param, tmp_path_factory.mktemp(request.param)))
    yield built, 0 if request.param in TEXT_ALONE else 1
    asyncio.run(built.close())


def test_samples_of_a_mixed_batch_are_those_of_plain_generate(asked: tuple[Any, int]) -> None:
    engine, images = asked
    prompts = [messages(images, "Which? " * length) for length in (1, 9)] + [messages(0)]
    requests = [
        GenerateRequest(prompt, sampling, (3, 4, 5, 6), logprobs=1)
        for prompt in prompts
        for sampling in (GREEDY, HOT)
    ]
    for request, result in zip(requests, together(engine, requests), strict=True):
        if request.sampling is GREEDY:
            inputs = inputs_of(engine, request.messages)
            length = inputs["input_ids"].shape[1]
            output = engine.model.generate(**inputs, max_new_tokens=4, do_sample=False)
            text = engine.tokenizer.decode(output[0, length:], skip_special_tokens=True)
            assert [sample.text for sample in result.samples] == [text] * 4
            assert result.num_prompt_tokens == length
            continue
        single = alone(engine, replace(request, seeds=(6,))).samples[0]
        assert result.samples[3].text == single.text
        assert result.samples[3].logprob == pytest.approx(single.logprob, abs=2e-3)


def test_likelihoods_are_those_of_a_plain_pass(asked: tuple[Any, int]) -> None:
    engine, images = asked
    prompt = messages(images)
    answers = ("B.", "Yes, it is a house.")

    async def all_at_once() -> list[Any]:
        requests = [ScoreRequest((*prompt, Message("assistant", (text,)))) for text in answers]
        return await asyncio.gather(*map(engine.likelihood, requests))

    start = inputs_of(engine, prompt)["input_ids"].shape[1]
    for answer, result in zip(answers, asyncio.run(all_at_once()), strict=True):
        inputs = inputs_of(engine, prompt, f"{answer}<|im_end|>")
        ids = inputs["input_ids"][0, start:, None]
        with torch.inference_mode():
            logprobs = engine.model(**inputs).logits[0, start - 1 : -1].log_softmax(-1)
        assert result.logprob == pytest.approx(float(logprobs.gather(-1, ids).sum()), abs=2e-3)
