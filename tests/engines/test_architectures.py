"""The transformers engine on a tiny random checkpoint of every architecture that a card names."""

import asyncio
import json
import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from safetensors.torch import load_file, save_file  # noqa: E402
from tiny_architectures import ARCHITECTURES, HIDDEN, make_architecture  # noqa: E402
from tiny_checkpoint import add_tensors, image  # noqa: E402

from bon.core.errors import BonError  # noqa: E402
from bon.core.images import open_image  # noqa: E402
from bon.core.sampling import Sampling  # noqa: E402
from bon.engines import build  # noqa: E402
from bon.engines.base import GenerateRequest, ImagePart, Message, ScoreRequest  # noqa: E402
from bon.engines.hf.engine import TransformersEngine  # noqa: E402
from bon.engines.hf.shared_prefix import MAX_SHARE  # noqa: E402

pytestmark = pytest.mark.model

DEVICE = os.environ.get("BON_TEST_DEVICE", "cpu")
"""`make test-gpu` runs these tests on CUDA."""

torch.backends.cudnn.allow_tf32 = False  # or a GPU's convolutions have ten bits

GREEDY = Sampling(temperature=0, max_tokens=8)


@pytest.fixture(scope="module", params=list(ARCHITECTURES))
def engine(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TransformersEngine]:
    if request.param == "pixtral" and find_spec("torchvision") is None:
        pytest.skip("transformers' Pixtral processor needs torchvision")
    folder = make_architecture(request.param, tmp_path_factory.mktemp(request.param))
    add_tensors(folder, {"score.weight": torch.randn(1, HIDDEN)})
    built = load(folder, head="auto")
    yield built
    asyncio.run(built.close())


def load(folder: Path, **settings: Any) -> TransformersEngine:
    given = {"model": str(folder), "device": DEVICE, "dtype": "float32", "threads": 2, **settings}
    built = build("transformers", given)
    assert isinstance(built, TransformersEngine)
    return built


def messages(images: int, text: str = "What is in the picture?") -> tuple[Message, ...]:
    pictures = [image(7 * images + k, (112, 56 + 56 * (k % 2))) for k in range(images)]
    return (
        Message("system", ("Answer briefly.",)),
        Message("user", (*pictures[:1], text, *pictures[1:])),
    )


def ask(images: int, seeds: tuple[int, ...] = (1,), **settings: Any) -> GenerateRequest:
    return GenerateRequest(messages(images), settings.pop("sampling", GREEDY), seeds, **settings)


def inputs_of(
    engine: TransformersEngine,
    asked: tuple[Message, ...],
    answer: str = "",
    *,
    add_special_tokens: bool = False,
) -> Any:
    """What transformers' own processor makes of one conversation."""
    conversation = [
        {
            "role": message.role,
            "content": [
                {"type": "text", "text": part} if isinstance(part, str) else {"type": "image"}
                for part in message.parts
            ],
        }
        for message in asked
    ]
    text = engine.processor.apply_chat_template(
        conversation, tokenize=False, add_generation_prompt=True
    )
    parts = [part for message in asked for part in message.parts]
    images = [open_image(part.data) for part in parts if isinstance(part, ImagePart)]
    return engine.processor(
        text=[text + answer],
        images=[images] if images else None,
        return_tensors="pt",
        add_special_tokens=add_special_tokens,
    ).to(engine.device)


def together(engine: TransformersEngine, requests: list[GenerateRequest]) -> list[Any]:
    async def all_at_once() -> list[Any]:
        return await asyncio.gather(*(engine.generate(request) for request in requests))

    return asyncio.run(all_at_once())


def alone(engine: TransformersEngine, request: GenerateRequest) -> Any:
    return together(engine, [request])[0]


def test_greedy_is_what_transformers_itself_generates(engine: TransformersEngine) -> None:
    for images in (0, 1, 3):
        inputs = inputs_of(engine, messages(images))
        output = engine.model.generate(**inputs, max_new_tokens=8, do_sample=False)
        new = output[0, inputs["input_ids"].shape[1] :]
        generation = alone(engine, ask(images))
        assert generation.samples[0].text == engine.tokenizer.decode(new, skip_special_tokens=True)
        assert generation.num_prompt_tokens == inputs["input_ids"].shape[1]


def test_a_repetition_penalty_is_transformers_own(engine: TransformersEngine) -> None:
    penalised = Sampling(temperature=0, max_tokens=8, repetition_penalty=9.0)
    requests = [ask(images, sampling=penalised) for images in (0, 1, 3)]
    differ = 0
    for images, mixed in zip((0, 1, 3), together(engine, requests), strict=True):
        inputs = inputs_of(engine, messages(images))
        output = engine.model.generate(
            **inputs, max_new_tokens=8, do_sample=False, repetition_penalty=9.0
        )
        new = output[0, inputs["input_ids"].shape[1] :]
        text = engine.tokenizer.decode(new, skip_special_tokens=True)
        assert mixed.samples[0].text == text
        differ += text != alone(engine, ask(images)).samples[0].text
    # The tiny Mllama repeats nothing within eight tokens.
    assert differ or engine.info()["architecture"].startswith("Mllama")


def test_images_are_seen(engine: TransformersEngine) -> None:
    other = (*messages(1)[:1], Message("user", (image(99), "What is in the picture?")))
    probes = [ask(1, logprobs=3), GenerateRequest(other, GREEDY, (1,), logprobs=3)]
    first, second = (alone(engine, each).samples[0].tokens[0].top for each in probes)
    assert first != pytest.approx(second, abs=1e-4)


def test_a_mixed_batch_says_what_each_says_alone(engine: TransformersEngine) -> None:
    hot = Sampling(temperature=1.0, max_tokens=6)
    requests = [ask(k % 4, (3, 1, 4, 15), sampling=hot, logprobs=2) for k in range(6)]
    for request, mixed in zip(requests, together(engine, requests), strict=True):
        single = alone(engine, request)
        assert [s.text for s in mixed.samples] == [s.text for s in single.samples]
        for ours, theirs in zip(mixed.samples, single.samples, strict=True):
            assert ours.logprob == pytest.approx(theirs.logprob, abs=2e-3)
        last = alone(engine, ask(request_images(request), (15,), sampling=hot))
        assert last.samples[0].text == mixed.samples[3].text


def request_images(request: GenerateRequest) -> int:
    return sum(isinstance(part, ImagePart) for part in request.messages[1].parts)


def test_likelihood_is_that_of_the_response(engine: TransformersEngine) -> None:
    answers = {0: "A.", 1: "The answer is B. red circle", 3: "Yes"}
    requests = [
        ScoreRequest((*messages(images), Message("assistant", (answer,))))
        for images, answer in answers.items()
    ]

    async def all_at_once() -> list[Any]:
        return await asyncio.gather(*(engine.likelihood(request) for request in requests))

    results = asyncio.run(all_at_once())
    for (images, answer), result in zip(answers.items(), results, strict=True):
        inputs = inputs_of(engine, messages(images), answer + "<|im_end|>")
        start = inputs_of(engine, messages(images))["input_ids"].shape[1]
        ids = inputs["input_ids"][0]
        with torch.inference_mode():
            logprobs = engine.model(**inputs).logits[0, start - 1 : -1].log_softmax(-1)
        expected = logprobs.gather(-1, ids[start:, None]).sum()
        assert result.logprob == pytest.approx(float(expected), abs=1e-3)
        assert result.num_tokens == len(ids) - start
        assert result.num_prompt_tokens == start


def test_reward_is_the_head_at_the_end(engine: TransformersEngine) -> None:
    folder = Path(engine.info()["model"])
    weight = load_file(folder / "model.safetensors")["score.weight"]
    requests = [
        ScoreRequest((*messages(images), Message("assistant", ("The answer is B.",))))
        for images in (0, 1, 3)
    ]

    async def all_at_once() -> list[Any]:
        return await asyncio.gather(*(engine.reward(request) for request in requests))

    for images, reward in zip((0, 1, 3), asyncio.run(all_at_once()), strict=True):
        inputs = inputs_of(engine, messages(images), "The answer is B.<|im_end|>\n")
        with torch.inference_mode():
            output = engine.model(**inputs, output_hidden_states=True)
        expected = float(output.hidden_states[-1][0, -1].cpu() @ weight[0])
        assert reward.score == pytest.approx(expected, abs=1e-4)


def test_a_chat_template_may_be_the_tokenizers(tmp_path: Path) -> None:
    """As Phi-3.5-vision has it: in tokenizer_config.json, and nowhere else."""
    folder = make_architecture("qwen2_vl", tmp_path / "tokenizers", template_of="tokenizer")
    assert not (folder / "chat_template.jinja").exists()
    same = load(make_architecture("qwen2_vl", tmp_path / "processors"))
    built = load(folder)
    assert alone(built, ask(1)) == alone(same, ask(1))
    for each in (built, same):
        asyncio.run(each.close())


def test_a_processor_that_needs_torchvision_names_the_extra(tmp_path: Path) -> None:
    if find_spec("torchvision") is not None:
        pytest.skip("torchvision is installed")
    with pytest.raises(BonError, match=r"pip install 'bon\[vision\]'"):
        load(make_architecture("pixtral", tmp_path / "pixtral"))


@pytest.mark.parametrize("name", ["qwen3_vl", "internvl"])
def test_no_torchvision_is_needed_where_only_its_video_half_is_missing(
    tmp_path: Path, name: str
) -> None:
    """Published checkpoints name a video processor, which transformers refuses to make."""
    if find_spec("torchvision") is not None:
        pytest.skip("torchvision is installed")
    folder = make_architecture(name, tmp_path / name)
    kind = {"qwen3_vl": "Qwen3VLVideoProcessor", "internvl": "InternVLVideoProcessor"}[name]
    (folder / "video_preprocessor_config.json").write_text(
        json.dumps({"video_processor_type": kind})
    )
    built = load(folder)
    assert alone(built, ask(1)).samples[0].text
    asyncio.run(built.close())


VALUE_HEAD = {"v_head.summary.weight": (1, HIDDEN), "v_head.summary.bias": (1,)}
TWO_LAYERS = {
    "rm.0.weight": (HIDDEN, HIDDEN), "rm.0.bias": (HIDDEN,), "rm.2.weight": (1, HIDDEN),
}  # fmt: skip


@pytest.mark.parametrize(
    ("layout", "settings"),
    [
        ({"score.weight": (1, HIDDEN)}, "auto"),
        (VALUE_HEAD, "auto"),
        (VALUE_HEAD, {"layers": ["v_head.summary"], "file": "value_head.safetensors"}),
        (TWO_LAYERS, {"layers": ["rm.0", "rm.2"], "activation": "tanh"}),
        (TWO_LAYERS, {"layers": ["rm.0", "rm.2"], "activation": "silu"}),
    ],
    ids=["linear", "value head beside the model", "its file alone", "tanh", "silu"],
)
@pytest.mark.parametrize(
    ("name", "score_at", "end"),
    [("qwen2_5_vl", "end", "<|im_end|>\n"), ("internvl", "turn_end", "<|im_end|>")],
)
def test_published_head_layouts(
    tmp_path: Path,
    name: str,
    score_at: str,
    end: str,
    layout: dict[str, tuple[int, ...]],
    settings: Any,
) -> None:
    folder = make_architecture(name, tmp_path / name)
    torch.manual_seed(1)
    tensors = {key: torch.randn(shape) / 8 for key, shape in layout.items()}
    if "v_head.summary.weight" in tensors:  # TRL's file, beside the model's own
        save_file(tensors, folder / "value_head.safetensors")
    else:
        add_tensors(folder, tensors)
    built = load(folder, head=settings, score_at=score_at)
    request = ScoreRequest((*messages(1), Message("assistant", ("Yes",))))
    score = asyncio.run(built.reward(request)).score
    inputs = inputs_of(built, messages(1), f"Yes{end}")
    with torch.inference_mode():
        value = built.model(**inputs, output_hidden_states=True).hidden_states[-1][0, -1].cpu()
    if "rm.0.weight" in tensors:
        value = value @ tensors["rm.0.weight"].T + tensors["rm.0.bias"]
        functions = {"tanh": torch.tanh, "silu": torch.nn.functional.silu}
        value = functions[settings["activation"]](value)
    weight = next(t for key, t in tensors.items() if t.shape == (1, HIDDEN) and "weight" in key)
    expected = float(value @ weight[0]) + float(tensors.get("v_head.summary.bias", [0.0])[0])
    assert score == pytest.approx(expected, abs=1e-4)
    asyncio.run(built.close())


@pytest.mark.parametrize("alone_too", [False, True], ids=["groups", "groups-and-one-alone"])
def test_prompts_that_share_images_say_what_each_says_alone(
    engine: TransformersEngine, alone_too: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Their images and common text are read once, where the architecture allows it."""
    hot = Sampling(temperature=1.0, max_tokens=6)
    asked = "Which of the two answers is better? " * 3
    texts = [asked + "Answer: yes. " * k + f"Or {k}?" for k in range(5)]
    shared = [
        GenerateRequest((Message("user", (image(k, (112, 56)), text)),), hot, (3, 14), logprobs=2)
        for k in range(0 if alone_too else 1, 3)
        for text in (texts if k else texts[:1])
    ]
    seen: list[int] = []
    hook = engine.model.get_input_embeddings().register_forward_hook(
        lambda _, inputs, output: seen.append(output.shape[0] * output.shape[1])
    )
    mixed = together(engine, shared)
    at_once = sum(seen)
    seen.clear()
    single = [alone(engine, request) for request in shared]
    hook.remove()
    for one, other in zip(mixed, single, strict=True):
        assert [s.text for s in one.samples] == [s.text for s in other.samples]
        assert one.num_prompt_tokens == other.num_prompt_tokens
        for ours, theirs in zip(one.samples, other.samples, strict=True):
            assert ours.logprob == pytest.approx(theirs.logprob, abs=2e-3)
    assert "run one by one" not in caplog.text
    if engine._shares:
        assert at_once < MAX_SHARE * sum(seen)


def test_answers_to_one_prompt_score_as_each_does_alone(engine: TransformersEngine) -> None:
    """Likelihoods and rewards of several answers, whose prompts are read once."""
    answers = ["Yes", "No, it is a house.", "Yes, and a very large one.", "No"]
    requests = [
        ScoreRequest((*messages(1, f"What is in picture {k}? " * 4), Message("assistant", (text,))))
        for k in range(2)
        for text in answers
    ]

    async def asked(ask: Any, at_once: bool) -> list[Any]:
        if at_once:
            return list(await asyncio.gather(*map(ask, requests)))
        return [await ask(request) for request in requests]

    seen: list[int] = []
    hook = engine.model.get_input_embeddings().register_forward_hook(
        lambda _, inputs, output: seen.append(output.shape[0] * output.shape[1])
    )
    for ask, name in ((engine.likelihood, "logprob"), (engine.reward, "score")):
        seen.clear()
        together = asyncio.run(asked(ask, True))
        at_once = sum(seen)
        seen.clear()
        for one, other in zip(together, asyncio.run(asked(ask, False)), strict=True):
            assert one.num_prompt_tokens == other.num_prompt_tokens
            values = [getattr(found, name) for found in (one, other)]
            assert values[0] == pytest.approx(values[1], abs=2e-3)
        if engine._shares:
            assert at_once < MAX_SHARE * sum(seen)
    hook.remove()
