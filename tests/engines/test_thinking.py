"""Thinking: switched by the template, apart from the answer, with a limit of its own."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from fake_endpoint import serve  # noqa: E402
from test_architectures import alone, load, together  # noqa: E402
from tiny_architectures import TEMPLATE, make_architecture  # noqa: E402
from tiny_checkpoint import make_checkpoint  # noqa: E402

from bon.core.errors import BonError, Unsupported  # noqa: E402
from bon.core.sampling import Sampling  # noqa: E402
from bon.engines import build  # noqa: E402
from bon.engines.base import GenerateRequest, Message  # noqa: E402
from bon.engines.rendering import THINKING, Marks, Renderer  # noqa: E402
from bon.experiment.config import PolicyCard  # noqa: E402
from bon.policies import generate  # noqa: E402

pytestmark = pytest.mark.model

SWITCH = (
    "{% if add_generation_prompt %}<think>\n"
    "{% if enable_thinking is defined and not enable_thinking %}\n</think>\n\n{% endif %}"
    "{% endif %}"
)
GREEDY = Sampling(temperature=0, max_tokens=6)
CLOSING = "\n</think>\n\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = make_architecture("qwen2_vl", tmp_path_factory.mktemp("thinks"))
    (made / "chat_template.jinja").write_text(TEMPLATE + SWITCH)
    return made


@pytest.fixture(scope="module")
def engine(folder: Path) -> Iterator[Any]:
    built = load(folder)
    yield built
    asyncio.run(built.close())


def ask(text: str = "Which?", **changes: Any) -> GenerateRequest:
    return replace(GenerateRequest((Message("user", (text,)),), GREEDY, (1,)), **changes)


def plain(engine: Any, prompt: str, tokens: int) -> str:
    ids = engine.tokenizer(prompt, return_tensors="pt", add_special_tokens=False)["input_ids"]
    output = engine.model.generate(input_ids=ids, max_new_tokens=tokens, do_sample=False)
    return str(engine.tokenizer.decode(output[0, ids.shape[1] :], skip_special_tokens=True))


def prompt_of(engine: Any, request: GenerateRequest, **kwargs: Any) -> str:
    turns = [{"role": "user", "content": request.messages[0].parts[0]}]
    return str(
        engine.processor.apply_chat_template(
            turns, tokenize=False, add_generation_prompt=True, **kwargs
        )
    )


@pytest.mark.parametrize("extractor", ["official", "strict"])
def test_thinking_that_never_ends_gives_no_letter(engine: Any, extractor: str) -> None:
    sample = alone(engine, ask()).samples[0]
    assert (sample.text, sample.finish, sample.tokens) == ("", "length", ())
    assert sample.reasoning == plain(engine, prompt_of(engine, ask()), 6).strip()
    card = PolicyCard(name="p", model="m", extractor=extractor, sampling=GREEDY)
    question = generate.Ask("q", ask().messages, ("one", "two"), (0,))
    (row,) = asyncio.run(generate.sample(engine, card, "spec", 0, question))
    assert (row.answer, row.outcome, row.num_tokens) == (None, "unparsed", 6)


def test_thinking_is_switched_off_by_the_template(folder: Path) -> None:
    built = load(folder, chat_template_kwargs={"enable_thinking": False})
    sample = alone(built, ask()).samples[0]
    prompt = prompt_of(built, ask(), enable_thinking=False)
    assert prompt.endswith("</think>\n\n")
    assert (sample.text, sample.reasoning) == (plain(built, prompt, 6), "")
    limited = Sampling(temperature=0, max_tokens=3, max_thinking_tokens=20)
    assert alone(built, ask(sampling=limited)).samples[0].num_tokens == 3
    asyncio.run(built.close())


def test_reasoning_and_answer_have_limits_of_their_own(engine: Any) -> None:
    limited = Sampling(temperature=0, max_tokens=4, max_thinking_tokens=5)
    requests = [ask(text, sampling=limited, logprobs=1) for text in ("Which?", "Which one? " * 6)]
    for request, result in zip(requests, together(engine, requests), strict=True):
        prompt, sample = prompt_of(engine, request), result.samples[0]
        reasoning = plain(engine, prompt, 5)
        assert sample.reasoning == reasoning.strip()
        assert sample.text == plain(engine, prompt + reasoning + CLOSING, 4).lstrip("\n")
        assert "".join(token.token for token in sample.tokens).lstrip("\n") == sample.text
        closing = engine.tokenizer(CLOSING, add_special_tokens=False)["input_ids"]
        assert sample.num_tokens == 5 + len(closing) + 4


def test_limits_hold_for_samples_of_a_mixed_batch(engine: Any) -> None:
    hot = Sampling(temperature=1.0, max_tokens=3, max_thinking_tokens=4)
    requests = [ask("Which? " * k, sampling=hot, seeds=(3, 4, 5, 6)) for k in (1, 5)]
    for request, result in zip(requests, together(engine, requests), strict=True):
        single = alone(engine, replace(request, seeds=(6,))).samples[0]
        assert result.samples[3][:2] == single[:2]
        assert result.samples[3].reasoning == single.reasoning


@pytest.mark.parametrize("marks", THINKING, ids=lambda marks: marks.closing)
def test_marks_of_every_template(engine: Any, marks: Marks) -> None:
    opening, closing, forced = marks
    tokenizer = engine.tokenizer
    before, tokenizer.chat_template = tokenizer.chat_template, TEMPLATE + f"{{# {closing} #}}"
    try:
        renderer = Renderer(tokenizer, "m")
    finally:
        tokenizer.chat_template = before
    for prompt, reply, reasoning, answer in (
        ("", f"{opening}\nA?{closing}\n\nB", "A?", "\n\nB"),
        (f"{opening}\n", f"A?\n{closing}B", "A?", "B"),
        (f"{opening}\n", f"A?{forced}B", "A?", forced.partition(closing)[2] + "B"),
        ("", f"{closing}B", "", "B"),
        (f"{opening}\n", "A? and so", "A? and so", None),
        (f"{opening}\n\n{closing}\n", f"{opening}own{closing} B", "", f"{opening}own{closing} B"),
        ("", "B", "", "B"),
        ("", f"The mark {closing} is a word", "", f"The mark {closing} is a word"),
    ):
        ids = tokenizer(reply, add_special_tokens=False)["input_ids"]
        thought, start = renderer.answer(prompt, ids)
        assert thought == reasoning
        assert (None if start is None else tokenizer.decode(ids[start:])) == answer


def test_marks_may_be_tokens(engine: Any, tmp_path: Path) -> None:
    assert not engine._renderer.marks_are_tokens
    folder = make_checkpoint(tmp_path, added=("<think>", "</think>"))
    (folder / "chat_template.jinja").write_text(TEMPLATE + SWITCH)
    built = load(folder)
    assert built._renderer.marks_are_tokens
    asyncio.run(built.close())


def test_endpoints_take_both_as_they_name_them() -> None:
    with serve() as server:
        values = {"enable_thinking": False}
        settings = {"base_url": server.url, "model": "m", "api_key_env": None}
        limited = ask(sampling=Sampling(max_tokens=100, max_thinking_tokens=900))
        made = build("openai", {**settings, "endpoint": "vllm", "chat_template_kwargs": values})
        asyncio.run(made.generate(limited))
        (body,) = server.bodies
        assert body["chat_template_kwargs"] == values
        assert (body["thinking_token_budget"], body["max_tokens"]) == (900, 1000)
        plain = build("openai", settings)
        with pytest.raises(Unsupported, match="no limit on thinking alone -> name its field"):
            asyncio.run(plain.generate(limited))
        with pytest.raises(
            BonError, match="does not support chat_template_kwargs -> switch thinking"
        ):
            build("openai", {**settings, "endpoint": "openai", "chat_template_kwargs": values})


def test_limits_are_part_of_keys_and_their_absence_is_not() -> None:
    assert "max_thinking_tokens" not in Sampling().model_dump()
    assert Sampling(max_thinking_tokens=9).model_dump()["max_thinking_tokens"] == 9
