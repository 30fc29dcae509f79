"""The shipped policy cards: valid, pinned, and honest about what was run."""

from pathlib import Path

import pytest

from bon.core.records import Question
from bon.experiment.cards import load_policy, shipped
from bon.policies.prompting import render_prompt

CARDS = {name: path for name, path in shipped("policies").items() if "miniature" not in path.parts}


def test_the_promised_policies_are_there() -> None:
    families = {path.read_text().split("family: ")[1].split("\n")[0] for path in CARDS.values()}
    assert families == {
        "qwen2-vl", "qwen2.5-vl", "qwen3-vl", "llava-onevision", "internvl2.5", "internvl3",
        "phi-3.5", "llama-3.2", "pixtral", "gpt-4o", "gpt-5", "gpt-6", "gemini", "claude",
        "qwen3.5", "internvl3.5", "glm-4v", "mistral3", "gemma-3", "gemma-4", "llama-4", "molmo-2",
        "kimi-vl", "kimi-k2", "minicpm-v", "qwen3.6-plus",
    }  # fmt: skip


@pytest.mark.parametrize("name", CARDS)
def test_a_card_says_what_it_must(name: str) -> None:
    loaded = load_policy(name, Path("."))
    card = loaded.card
    assert card.name == name
    assert card.title
    assert card.licence != "not stated"
    assert card.tested
    assert card.cost
    assert card.sampling.temperature > 0  # Candidates of a pool are sampled, never greedy.
    if card.engine == "openai":
        assert str(card.engine_args["base_url"]).startswith("https://")
        # A key is named, never written down.
        assert str(card.engine_args["api_key_env"]).endswith("_API_KEY")
    else:
        # The commits of these are not known here.
        unpinned = name.startswith("llava-critic-r1") or "No commit was found" in card.notes
        assert len(card.revision or "") == (0 if unpinned else 40)
        assert card.size is not None
        flags = card.engine_args.get("engine_args", {})
        assert card.placement.gpus == flags.get("tensor_parallel_size", 1)
    asked = Question(key="k", id="q", dataset="d", text="Why?", options=("x", "y"), answer="A")
    assert "Why?\nA. x\nB. y" in render_prompt(asked, loaded.prompt)
