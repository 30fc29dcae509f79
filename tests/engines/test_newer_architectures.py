"""n = 4 in a mixed batch, and likelihoods, on a tiny checkpoint of every newer architecture."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from test_architectures import alone, inputs_of, load, messages, together  # noqa: E402
from tiny_architectures import NEWER, make_architecture  # noqa: E402

from bon.core.sampling import Sampling  # noqa: E402
from bon.engines.base import GenerateRequest, Message, ScoreRequest  # noqa: E402

pytestmark = pytest.mark.model

GREEDY = Sampling(temperature=0, max_tokens=4)
HOT = Sampling(temperature=1.0, max_tokens=4)
BROKEN = {"llama4": "5.24.0"}
"""Architectures that a version of transformers cannot run itself: its `generate` raises, too."""
TEXT_ALONE = ("lfm2_vl", "mistral3", "llama4", "gemma4", "kimi_k25")
"""Their image processors need torchvision."""


@pytest.fixture(params=list(NEWER))
def name(request: pytest.FixtureRequest) -> str:
    kind = str(request.param)
    if BROKEN.get(kind) == transformers.__version__:
        request.applymarker(pytest.mark.xfail(raises=AttributeError, strict=True))
    return kind


def test_samples_of_a_mixed_batch_are_those_of_plain_generate(tmp_path: Path, name: str) -> None:
    engine = load(make_architecture(name, tmp_path))
    images = 0 if name in TEXT_ALONE else 1
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
    asyncio.run(engine.close())


def test_likelihoods_are_those_of_a_plain_pass(tmp_path: Path, name: str) -> None:
    engine = load(make_architecture(name, tmp_path))
    asked = messages(0 if name in TEXT_ALONE else 1)
    answers = ("B.", "Yes, it is a house.")

    async def all_at_once() -> list[Any]:
        requests = [ScoreRequest((*asked, Message("assistant", (text,)))) for text in answers]
        return await asyncio.gather(*map(engine.likelihood, requests))

    start = inputs_of(engine, asked)["input_ids"].shape[1]
    for answer, result in zip(answers, asyncio.run(all_at_once()), strict=True):
        inputs = inputs_of(engine, asked, f"{answer}<|im_end|>")
        ids = inputs["input_ids"][0, start:, None]
        with torch.inference_mode():
            logprobs = engine.model(**inputs).logits[0, start - 1 : -1].log_softmax(-1)
        assert result.logprob == pytest.approx(float(logprobs.gather(-1, ids).sum()), abs=2e-3)
    asyncio.run(engine.close())
