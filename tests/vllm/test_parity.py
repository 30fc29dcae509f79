"""transformers, vLLM and a vLLM server say the same of the same checkpoint."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

found = find_spec("vllm")
if found is None or found.origin is None:  # a folder of that name is not the package
    pytest.skip("vllm is not installed: see tests/vllm/run.sh", allow_module_level=True)

from tiny_checkpoint import image  # noqa: E402

from bon.core.errors import BonError, Unsupported  # noqa: E402
from bon.core.sampling import Sampling  # noqa: E402
from bon.engines import build  # noqa: E402
from bon.engines.base import GenerateRequest, Message, ScoreRequest  # noqa: E402
from bon.engines.metering import metered  # noqa: E402

pytestmark = [pytest.mark.model, pytest.mark.slow, pytest.mark.timeout(1200)]

GREEDY = Sampling(temperature=0, max_tokens=16)
WARM = Sampling(temperature=1, max_tokens=16)


def ask(
    index: int, sampling: Sampling = GREEDY, seeds: tuple[int, ...] = (1,), logprobs: int = 0
) -> GenerateRequest:
    """Prompts of different lengths, with none, one or two images."""
    images = [image(index + k) for k in range(index % 3)]
    text = f"Question {index}: what is in the picture? " + "A. red circle " * (index % 4)
    messages = (
        Message("system", ("Answer briefly.",)),
        Message("user", (*images[:1], text, *images[1:])),
    )
    return GenerateRequest(messages, sampling, seeds, logprobs)


def score(index: int) -> ScoreRequest:
    answers = ("A.", "The answer is B. red circle", "Yes", "No")
    answer = Message("assistant", (answers[index % 4],))
    return ScoreRequest((*ask(index).messages, answer))


def readable(text: str) -> str:
    """Without the marks for broken UTF-8, of which a random model says much: vLLM drops some."""
    return text.replace("\ufffd", "")


def test_greedy_texts_are_equal(session: Any, hf: Any, engine: Any, client: Any) -> None:
    requests = [ask(i) for i in range(9)]
    theirs, ours, served = (
        session.all(*(each.generate(request) for request in requests))
        for each in (hf, engine, client)
    )
    for i in range(9):
        assert readable(ours[i].samples[0].text) == readable(theirs[i].samples[0].text)
        assert readable(served[i].samples[0].text) == readable(theirs[i].samples[0].text)
        for mine in (ours[i], served[i]):
            assert mine.num_prompt_tokens == theirs[i].num_prompt_tokens
            assert mine.samples[0].num_tokens == theirs[i].samples[0].num_tokens
            assert mine.samples[0].logprob == pytest.approx(theirs[i].samples[0].logprob, abs=2e-3)


def test_a_repetition_penalty_is_the_same(session: Any, hf: Any, engine: Any, client: Any) -> None:
    sampling = Sampling(temperature=0, max_tokens=12, repetition_penalty=1.4)
    requests = [ask(index, sampling) for index in range(6)]
    texts = [
        [readable(each.samples[0].text) for each in session.all(*map(made.generate, requests))]
        for made in (hf, engine, client)
    ]
    assert texts[0] == texts[1] == texts[2]


@pytest.mark.parametrize("which", ["engine", "client"])
def test_all_samples_come_back(session: Any, which: str, request: pytest.FixtureRequest) -> None:
    asked = request.getfixturevalue(which)
    for seeds in ((7, 8, 9, 10), (3, 1, 40, 41)):
        (generation,) = session.all(asked.generate(ask(1, WARM, seeds)))
        texts = [sample.text for sample in generation.samples]
        # A checkpoint's own generation_config (top_k 1 here) would make them equal.
        assert len(set(texts)) == len(seeds)
        alone = session.all(*(asked.generate(ask(1, WARM, (seed,))) for seed in seeds))
        assert [g.samples[0].text for g in alone] == texts


def test_greedy_with_several_seeds(session: Any, engine: Any, client: Any) -> None:
    for asked in (engine, client):
        (generation,) = session.all(asked.generate(ask(1, GREEDY, (1, 2, 3))))
        assert len(generation.samples) == 3


def test_logprobs_are_equal(session: Any, hf: Any, engine: Any, client: Any) -> None:
    hot = Sampling(temperature=2.0, max_tokens=1)  # temperature must not show in them
    for asked in (engine, client):
        (theirs,) = session.all(hf.generate(ask(1, hot, logprobs=5)))
        (ours,) = session.all(asked.generate(ask(1, hot, logprobs=5)))
        (expected,), (token,) = theirs.samples[0].tokens, ours.samples[0].tokens
        whole = {key: value for key, value in expected.top.items() if key.isascii()}
        assert whole
        assert {key: token.top[key] for key in whole} == pytest.approx(whole, abs=1e-3)


def test_stop_strings(session: Any, engine: Any, client: Any) -> None:
    (free,) = session.all(engine.generate(ask(1)))
    stop = free.samples[0].text[4:6]
    cut = Sampling(temperature=0, max_tokens=16, stop=(stop,))
    for asked in (engine, client):
        sample = session.run(asked.generate(ask(1, cut))).samples[0]
        assert sample.text == free.samples[0].text[: free.samples[0].text.index(stop)]
        assert sample.finish == "stop"


def test_likelihoods_are_equal(session: Any, hf: Any, engine: Any, client: Any) -> None:
    requests = [score(i) for i in range(8)]
    theirs, ours, served = (
        session.all(*(each.likelihood(request) for request in requests))
        for each in (hf, engine, client)
    )
    for i in range(8):
        for mine in (ours[i], served[i]):
            assert mine.logprob == pytest.approx(theirs[i].logprob, abs=1e-3)
            assert mine.num_tokens == theirs[i].num_tokens
            assert mine.num_prompt_tokens == theirs[i].num_prompt_tokens


def test_rewards_are_equal(session: Any, hf: Any, rewarder: Any, reward_client: Any) -> None:
    requests = [score(i) for i in range(8)]
    theirs, ours, served = (
        [r.score for r in session.all(*(each.reward(request) for request in requests))]
        for each in (hf, rewarder, reward_client)
    )
    assert max(map(abs, theirs)) > 1  # raw, not squashed into (0, 1)
    assert ours == pytest.approx(theirs, abs=1e-3)
    assert served == pytest.approx(theirs, abs=1e-3)


@pytest.mark.parametrize("which", ["engine", "client"])
def test_the_prefix_cache_is_counted(
    session: Any, which: str, request: pytest.FixtureRequest
) -> None:
    asked = request.getfixturevalue(which)
    text = (f"{which}: " + "a red circle beside a blue square, " * 40,)
    wanted = GenerateRequest((Message("user", text),), GREEDY, (1,))

    async def metered_once() -> Any:
        with metered() as meter:
            said = await asked.generate(wanted)
        return meter, said.samples[0].text

    found = [session.run(metered_once()) for _ in range(2)]
    (first, _), (second, _) = found
    assert first.read == second.read > 200
    assert first.cached < second.cached > 200
    assert len({text for _, text in found}) == 1


def test_no_cache_is_not_an_empty_one(session: Any, rewarder: Any) -> None:
    async def metered_twice() -> Any:
        with metered() as meter:
            await rewarder.reward(score(1))
            await rewarder.reward(score(1))
        return meter

    assert session.run(metered_twice()).read == 0


def test_one_engine_has_one_task(session: Any, engine: Any, rewarder: Any) -> None:
    with pytest.raises(Unsupported, match="set task: reward"):
        session.run(engine.reward(score(0)))
    with pytest.raises(Unsupported, match="set task: generate"):
        session.run(rewarder.generate(ask(0)))


def test_info(engine: Any, client: Any) -> None:
    assert engine.info()["architecture"] == "Qwen2_5_VLForConditionalGeneration"
    assert engine.info()["batch_stable"].startswith("no")
    assert engine._placeholder(1) == "<|vision_start|><|image_pad|><|vision_end|>"
    assert client.info()["ledger"]["requests"] > 0


def test_memory_is_reserved_for_the_images_that_come(engine: Any) -> None:
    """vLLM plans for the largest image and for a video unless it is told what there will be."""
    images = engine._engine.vllm_config.model_config.multimodal_config
    assert [images.get_limit_per_prompt(kind) for kind in ("image", "video", "audio")] == [7, 0, 0]
    assert images.mm_processor_kwargs == {"max_pixels": 6272}


def test_a_model_that_does_not_load(tmp_path: Path) -> None:
    with pytest.raises(BonError, match="failed to load"):
        build("vllm", {"model": str(tmp_path)})
