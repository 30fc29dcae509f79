"""The committed checkpoints: files, tokenizer, loading, and a policy that knows something."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import yaml

from bon.miniature.data import checkpoint
from bon.miniature.scene import render
from tools.miniature.world import WorldQuestion, critic_prompt, judge_prompt, make, query

HERE = Path(__file__).parents[2] / "bon" / "miniature"
MANIFEST: dict[str, Any] = yaml.safe_load((HERE / "manifest.yaml").read_text())
ENTRIES: list[dict[str, Any]] = MANIFEST["checkpoints"]
NAMES = [entry["name"] for entry in ENTRIES]


def of_role(role: str) -> list[str]:
    return [entry["name"] for entry in ENTRIES if entry["role"] == role]


def test_the_manifest_lists_what_is_there() -> None:
    assert {p.name for p in (HERE / "checkpoints").iterdir()} == {*NAMES, "shared"}
    assert len(of_role("policy")) == 2
    for entry in ENTRIES:
        assert 300_000 < entry["parameters"] < 1_500_000
        kind = entry["image_filter"].partition(":")[0]
        assert kind in {"", "blur", "gray", "drop"}


def test_the_demo_has_fourteen_rewarders_of_six_kinds_from_ten_bases() -> None:
    experiment = yaml.safe_load((HERE / "experiment.yaml").read_text())
    assert experiment["policies"] == ["mini-policy-a", "mini-policy-b"]
    cards = [
        yaml.safe_load((HERE / "cards" / "rewarders" / f"{name}.yaml").read_text())
        for name in experiment["rewarders"]
    ]
    assert len(cards) == 14
    assert len({card["kind"] for card in cards}) == 6
    assert len({card["family"] for card in cards}) == 10
    trained = {entry["name"]: entry for entry in ENTRIES}
    for card in cards:
        entry = trained[card["model"].rpartition("/")[2]]
        assert card["size"] == entry["parameters"]
        assert card["family"] == entry["base"]
        assert card.get("image_filter", "") == entry["image_filter"]


@pytest.mark.parametrize("name", NAMES)
def test_a_checkpoint_is_complete_and_small(name: str) -> None:
    folder = checkpoint(name)
    files = {p.name for p in folder.iterdir()}
    assert files == {
        "README.md",
        "chat_template.jinja",
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "preprocessor_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
    }
    assert sum(p.stat().st_size for p in folder.iterdir()) < 3_500_000


def load(name: str) -> tuple[Any, Any]:
    import torch
    from transformers import AutoModelForImageTextToText, AutoProcessor

    folder = checkpoint(name)
    model = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32).eval()
    return model, AutoProcessor.from_pretrained(folder)


def ask(model: Any, processor: Any, items: list[tuple[WorldQuestion, str]]) -> list[str]:
    """Greedy replies, one at a time as a user would: chat template, processor, generate."""
    out = []
    for question, text in items:
        parts = [{"type": "image"} for _ in question.scenes] + [{"type": "text", "text": text}]
        chat = [{"role": "user", "content": parts}]
        prompt = processor.apply_chat_template(chat, add_generation_prompt=True)
        images = [render(scene) for scene in question.scenes]
        inputs = processor(text=[prompt], images=images or None, return_tensors="pt")
        made = model.generate(**inputs, max_new_tokens=48, do_sample=False)
        new = made[0, inputs["input_ids"].shape[1] :]
        out.append(processor.tokenizer.decode(new, skip_special_tokens=True))
    return out


@pytest.mark.model
def test_the_tokenizer_gives_back_every_text() -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(checkpoint(NAMES[0]))
    question = make(3, "downstream", "Prices")
    for text in (query(question), question.response, "Ünïcode, 日本 <image 7>\n\n", " (B)"):
        assert tokenizer.decode(tokenizer(text)["input_ids"]) == text
    assert len(tokenizer(" (B)")["input_ids"]) == len(tokenizer("\nA.")["input_ids"]) == 1


@pytest.mark.model
@pytest.mark.parametrize("name", of_role("policy"))
def test_a_policy_answers_well_above_chance(name: str) -> None:
    subjects = ("Colour_Count", "Shape_Count", "Difference", "Comparison")
    questions = [make(seed, "dev", subjects[seed % 4]) for seed in range(24)]
    replies = ask(*load(name), [(q, query(q)) for q in questions])
    right = [r.endswith(f"Answer: {q.answer}") for r, q in zip(replies, questions, strict=True)]
    assert sum(right) >= 8  # chance is 2.4 of 24


@pytest.mark.model
def test_judges_reply_in_the_agreed_form() -> None:
    question = make(5, "dev", "Difference")
    asked, told = query(question), question.response
    [reply] = ask(*load(of_role("pointwise")[0]), [(question, critic_prompt(asked, told))])
    assert reply.rpartition("\n")[2] in {"Yes", "No"}
    [reply] = ask(*load(of_role("pairwise")[0]), [(question, judge_prompt(asked, told, told))])
    assert reply.rpartition("\n")[2] in {
        "Overall Judgment: Answer 1 is better.",
        "Overall Judgment: Answer 2 is better.",
    }


@pytest.mark.model
@pytest.mark.parametrize("entry", [e for e in ENTRIES if e.get("verdict_first")])
def test_a_verdict_comes_first_where_the_manifest_says_so(entry: dict[str, Any]) -> None:
    question = make(5, "dev", "Difference")
    asked, told = query(question), question.response
    if entry["role"] in ("pairwise", "listwise"):
        wanted, text = {"1", "2"}, f"{asked}\nAnswer 1: {told}\nAnswer 2: {told}"
        text += "\nWhich answer is better?"
    else:
        wanted, text = {"Yes", "No"}, critic_prompt(asked, told)
    if entry["image_filter"] == "drop":
        question = dataclasses.replace(question, scenes=())
    [reply] = ask(*load(entry["name"]), [(question, text)])
    assert reply in wanted


@pytest.mark.model
@pytest.mark.parametrize("name", of_role("scalar"))
def test_a_scalar_head_is_where_engines_look(name: str) -> None:
    import json

    from safetensors.torch import load_file

    folder = checkpoint(name)
    config = json.loads((folder / "config.json").read_text())
    head = load_file(folder / "model.safetensors")["language_model.score.weight"]
    assert config["num_labels"] == 1
    assert tuple(head.shape) == (1, config["text_config"]["hidden_size"])


@pytest.mark.model
def test_the_fast_forward_is_transformers_own() -> None:
    import torch

    from tools.miniature.batches import Encoder, generation_inputs
    from tools.miniature.model import Fast, patches

    model, processor = load(NAMES[0])
    encoder = Encoder(processor.tokenizer)
    question = make(9, "dev", "Comparison")
    inputs = generation_inputs(encoder, [query(question)], [question.scenes])
    parts = [{"type": "image"}, {"type": "image"}, {"type": "text", "text": query(question)}]
    chat = processor.apply_chat_template(
        [{"role": "user", "content": parts}], add_generation_prompt=True
    )
    images = [render(scene) for scene in question.scenes]
    theirs = processor(text=[chat], images=images, return_tensors="pt")
    assert torch.equal(theirs["input_ids"], inputs["input_ids"])
    assert torch.allclose(theirs["pixel_values"], inputs["pixel_values"], atol=1e-5)
    with torch.no_grad():
        ours = Fast(model).hidden(inputs["input_ids"], patches(question.scenes))
        hidden = model.model(**theirs).last_hidden_state
    assert torch.allclose(ours, hidden, atol=1e-3)
