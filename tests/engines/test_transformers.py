import asyncio
import gc
import json
import shutil
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from safetensors.torch import load_file, save_file  # noqa: E402
from test_architectures import inputs_of  # noqa: E402
from tiny_checkpoint import add_tensors, begin_with_bos, image  # noqa: E402

from bon.core.errors import BonError, EngineDied, Unsupported  # noqa: E402
from bon.core.sampling import Sampling  # noqa: E402
from bon.engines import build  # noqa: E402
from bon.engines.base import (  # noqa: E402
    GenerateRequest,
    Generation,
    ImagePart,
    Message,
    ScoreRequest,
)
from bon.engines.hf.engine import TransformersEngine  # noqa: E402
from bon.engines.hf.heads import load_head  # noqa: E402
from bon.engines.settings import HeadSettings  # noqa: E402

pytestmark = pytest.mark.model

GREEDY = Sampling(temperature=0, max_tokens=12)


@pytest.fixture(scope="module")
def engine(checkpoint: Path) -> Iterator[TransformersEngine]:
    built = load(checkpoint, head="auto", threads=2)
    yield built
    asyncio.run(built.close())


def load(checkpoint: Path, **settings: Any) -> TransformersEngine:
    built = build("transformers", {"model": str(checkpoint), **settings})
    assert isinstance(built, TransformersEngine)
    return built


def ask(index: int, seeds: tuple[int, ...] = (1,), **changes: Any) -> GenerateRequest:
    """Prompts of different lengths, with none, one or two images."""
    images = [image(index + k) for k in range(index % 3)]
    text = f"Question {index}: what is in the picture? " + "A. red circle " * (index % 4)
    messages = (
        Message("system", ("Answer briefly.",)),
        Message("user", (*images[:1], text, *images[1:])),
    )
    return replace(GenerateRequest(messages, Sampling(max_tokens=12), seeds), **changes)


def run(engine: TransformersEngine, requests: list[GenerateRequest]) -> list[Generation]:
    async def all_at_once() -> list[Generation]:
        return await asyncio.gather(*(engine.generate(request) for request in requests))

    return asyncio.run(all_at_once())


def test_a_processor_begins_prompts_with_bos_as_in_transformers(
    checkpoint: Path, tmp_path: Path
) -> None:
    """As LLaVA's template, which leaves the token to the tokenizer."""
    folder = Path(shutil.copytree(checkpoint, tmp_path / "bos"))
    begin_with_bos(folder)
    engine = load(folder)
    requests = [ask(i, sampling=GREEDY) for i in range(2)]
    for request, generation in zip(requests, run(engine, requests), strict=True):
        inputs = inputs_of(engine, request.messages, add_special_tokens=True)
        assert inputs["input_ids"][0, 0] == engine.tokenizer.bos_token_id
        assert generation.num_prompt_tokens == inputs["input_ids"].shape[1]
    assert engine.info()["warning"] == ""
    asyncio.run(engine.close())


def test_a_sample_depends_on_its_seed_and_on_nothing_else(engine: TransformersEngine) -> None:
    requests = [ask(i, (3, 1, 4, 15)) for i in range(12)]
    together = run(engine, requests)
    assert len({s.text for g in together for s in g.samples}) > 40
    for i in (0, 1, 2, 7):
        alone = run(engine, [ask(i, (15,))])[0].samples[0]
        assert alone.text == together[i].samples[3].text
        assert alone.logprob == pytest.approx(together[i].samples[3].logprob, abs=1e-3)


def test_logprobs_are_raw_whatever_the_temperature(engine: TransformersEngine) -> None:
    hot = Sampling(temperature=3.0, top_k=3, max_tokens=6)
    request = ask(1, (1, 2, 3), sampling=hot, logprobs=5)
    for sample in run(engine, [request])[0].samples:
        assert len(sample.tokens) in (sample.num_tokens, sample.num_tokens - 1)
        first = sample.tokens[0]
        with torch.inference_mode():
            logits = engine.model(**inputs_of(engine, request.messages)).logits[0, -1]
        values, ids = logits.log_softmax(-1).topk(5)
        assert next(iter(first.top.values())) == pytest.approx(float(values[0]), abs=1e-3)
        assert engine.tokenizer.decode([int(ids[0])]) in first.top
        assert first.logprob >= float(values[2]) - 1e-3  # top_k 3
        if sample.finish == "length":
            assert sample.logprob == pytest.approx(sum(t.logprob for t in sample.tokens))


def test_stop_strings_end_the_text(engine: TransformersEngine) -> None:
    free = run(engine, [ask(1, (5,))])[0].samples[0]
    stop = free.text[3:5]
    cut = run(engine, [ask(1, (5,), sampling=Sampling(max_tokens=12, stop=(stop,)))])[0].samples[0]
    assert cut.text == free.text[: free.text.index(stop)]
    assert cut.finish == "stop"
    assert cut.num_tokens < free.num_tokens


def test_more_samples_than_a_batch_holds(checkpoint: Path, engine: TransformersEngine) -> None:
    small = load(checkpoint, max_batch=4)
    requests = [ask(i, tuple(range(7))) for i in range(3)]
    assert [[s.text for s in g.samples] for g in run(small, requests)] == [
        [s.text for s in g.samples] for g in run(engine, requests)
    ]
    asyncio.run(small.close())


def head_of(*layers: str) -> HeadSettings:
    return HeadSettings(layers=list(layers))


def test_a_head_that_does_not_fit_is_one_line(checkpoint: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(checkpoint, tmp_path / "head"))
    add_tensors(folder, {"rm.0.weight": torch.randn(16, 128), "rm.2.weight": torch.randn(1, 16)})
    for setting, message in (
        (head_of("rm.1"), "no matrix 'rm.1.weight'"),
        (head_of("rm.2", "rm.0"), "do not follow each other"),
        (head_of("rm.0"), "gives 16 numbers"),
        (HeadSettings(layers=["x"], file="absent.safetensors"), "has no file"),
    ):
        with pytest.raises(BonError, match=message):
            load_head(str(folder), setting, None, "cpu")
    weights = folder / "model.safetensors"
    plain = {k: v for k, v in load_file(weights).items() if "score" not in k}
    save_file(plain, weights, {"format": "pt"})
    with pytest.raises(BonError, match="no reward head under a usual name"):
        load_head(str(folder), head_of("auto"), None, "cpu")


def test_a_bad_item_fails_alone(
    engine: TransformersEngine, monkeypatch: Any, caplog: pytest.LogCaptureFixture
) -> None:
    broken = Message("user", (ImagePart("00" * 32, b"not an image"), "what?"))
    requests = [ask(0), ask(1, messages=(broken,)), ask(3)]
    monkeypatch.setattr(engine, "_generate", _failing_on(engine, "Question 3"))

    async def all_at_once() -> list[Any]:
        tasks = (engine.generate(request) for request in requests)
        return await asyncio.gather(*tasks, return_exceptions=True)

    good, undecodable, failing = asyncio.run(all_at_once())
    assert isinstance(good, Generation)
    assert "image" in str(undecodable)
    assert str(failing) == "told to fail"
    assert "and is run one by one: RuntimeError('told to fail')" in caplog.text


def _failing_on(engine: TransformersEngine, word: str) -> Any:
    original = engine._generate

    def generate(jobs: list[Any]) -> Any:
        if any(word in job.prepared[0] for job in jobs):
            raise RuntimeError("told to fail")
        return original(jobs)

    return generate


def test_out_of_memory_halves_the_batch(checkpoint: Path, engine: TransformersEngine) -> None:
    small = load(checkpoint)
    original = small._generate
    small._generate = lambda jobs: (  # type: ignore[method-assign]
        _raise(torch.OutOfMemoryError("too much"))
        if min(sum(job.rows for job in jobs), small._max_batch) > 3
        else original(jobs)
    )
    requests = [ask(i, tuple(range(5))) for i in range(4)]
    assert [[s.text for s in g.samples] for g in run(small, requests)] == [
        [s.text for s in g.samples] for g in run(engine, requests)
    ]
    assert small._max_batch <= 3
    small._generate = lambda jobs: _raise(torch.OutOfMemoryError("x"))  # type: ignore[method-assign]
    with pytest.raises(MemoryError, match="on a single sequence"):
        run(small, [ask(0)])
    asyncio.run(small.close())


def _raise(error: Exception) -> Any:
    raise error


def test_kinds_and_settings_in_flight_together(engine: TransformersEngine) -> None:
    score = ScoreRequest((*ask(0).messages, Message("assistant", ("A.",))))

    async def mixed() -> list[Any]:
        return await asyncio.gather(
            engine.generate(ask(0)),
            engine.reward(score),
            engine.generate(ask(1, sampling=GREEDY)),
            engine.likelihood(score),
        )

    assert [type(result).__name__ for result in asyncio.run(mixed())] == [
        "Generation", "Reward", "Generation", "Likelihood",
    ]  # fmt: skip


def test_pixel_limit(checkpoint: Path) -> None:
    limited = load(checkpoint, max_pixels=60 * 60)
    message = Message("user", (image(1, (300, 300)), "what?"))
    tokens = run(limited, [ask(0, messages=(message,))])[0].num_prompt_tokens
    plain = run(limited, [ask(0, messages=(Message("user", ("what?",)),))])[0].num_prompt_tokens
    assert tokens - plain == 4 + 2  # 2 x 2 merged patches and the marks around them
    asyncio.run(limited.close())


def test_info_says_what_was_loaded(engine: TransformersEngine) -> None:
    info = json.loads(json.dumps(engine.info()))
    assert info["architecture"] == "Qwen2_5_VLForConditionalGeneration"
    assert info["head"] == ["language_model.score"]
    assert info["dtype"] == "float32"
    assert info["transformers"]


def test_closed_engine_refuses(checkpoint: Path) -> None:
    closed = load(checkpoint)
    run(closed, [ask(0)])
    asyncio.run(closed.close())
    with pytest.raises(EngineDied, match="closed"):
        run(closed, [ask(0)])


def test_closing_frees_the_weights_without_a_collection(checkpoint: Path) -> None:
    """A collection walks all of torch: a third of a second for each of a worker's models."""
    closing = load(checkpoint)
    run(closing, [ask(1)])
    weights = weakref.ref(next(closing.model.parameters()))
    gc.disable()  # a collection is then one that was asked for
    try:
        before = gc.get_stats()[-1]["collections"]
        asyncio.run(closing.close())
        assert weights() is None
        assert gc.get_stats()[-1]["collections"] == before
    finally:
        gc.enable()


def test_loading_errors_carry_the_fix(checkpoint: Path, tmp_path: Path) -> None:
    def fails(match: str, **args: Any) -> None:
        with pytest.raises(BonError, match=match):
            build("transformers", args)

    fails("folder '.*absent' does not exist", model=str(tmp_path / "absent"))
    fails("failed to load", model=str(tmp_path))
    fails("no matrix 'nothing.weight'", model=str(checkpoint), head="nothing")
    if not torch.cuda.is_available():
        fails("no usable GPU", model=str(checkpoint), device="cuda")
    broken = tmp_path / "broken"
    shutil.copytree(checkpoint, broken)
    (broken / "model.safetensors").write_bytes(b"123")
    fails("failed to load: .* -> ", model=str(broken))
    weights = load_file(checkpoint / "model.safetensors")
    del weights["model.norm.weight"]
    save_file(weights, broken / "model.safetensors", {"format": "pt"})
    fails("lacks 1 of its weights, such as model.language_model.norm", model=str(broken))
    mute = tmp_path / "mute"
    shutil.copytree(checkpoint, mute)
    (mute / "chat_template.jinja").unlink()
    fails("has no chat template", model=str(mute))


def test_reward_needs_a_head(checkpoint: Path) -> None:
    headless = load(checkpoint)
    with pytest.raises(Unsupported, match="set head: auto"):
        asyncio.run(headless.reward(ScoreRequest((Message("assistant", ("A.",)),))))
