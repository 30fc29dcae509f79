"""What is known of each card without its weights, as docs/measurements/cards.md lists it.

`BON_RENDERED=write python -m pytest tests/test_card_evidence.py` writes the page again.
"""

import os
import re
import sys
from pathlib import Path

import pytest
import yaml

from bon.experiment import upstream
from bon.experiment.cards import load_policy, load_rewarder, shipped
from tests.test_rendered import STORED

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "measurements" / "cards.md"
OF_CARDS = {
    "kimi-k2.5": "kimi_k25",
    "qwen3-vl-30b-a3b": "qwen3_vl_moe",
    "glm-4.5v": None,  # a mixture of experts, which its family in general is not
    "kimi-vl": None,
    "jina-reranker": None,  # a class of its own on Qwen2-VL
}
"""Architectures of cards that differ from their family's, by the beginning of the name."""
OF_FAMILIES = {"llama-3.2": "mllama", "molmo": None, "qwen2.5-omni": None}
HEAD = """# Cards, checked without their weights

Made from the cards and the tests' registries (`BON_RENDERED=write python -m pytest
tests/test_card_evidence.py`); no card has been [run on a GPU](gpu.md) yet.

- **rendered**: the tests compare what the card sends with what it sent before
  (`tests/data/rendered.yaml`).
- **architecture**: a tiny random checkpoint of this class of transformers answers in mixed
  batches as `generate` does (`tests/engines/tiny_architectures.py`; where its processor needs
  torchvision, the language model). Models that a vendor serves and those that bring their own
  code have none.
- **published code**: the tests compare what is sent with what this published file makes (`bon
  prompts pull`).
- **pinned**: the commit on the card; a run of a card without one keeps to the commit at which it
  starts.
"""


def plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name)


def architecture(card, known) -> str:
    """The tiny architecture that is the card's; "" if there is none."""
    for names, key in ((OF_CARDS, card.name), (OF_FAMILIES, card.family)):
        for start, found in names.items():
            if key.startswith(start):
                return found or ""
    found = [name for name in known if plain(card.family).startswith(plain(name))]
    return max(found, key=len, default="")


def table(room: str, known) -> list[str]:
    load = load_policy if room == "policies" else load_rewarder
    rendered = yaml.safe_load(STORED.read_text())
    lines = [f"\n## {room.capitalize()}\n"]
    lines += [
        "| card | rendered | architecture | published code | pinned |",
        "|---|---|---|---|---|",
    ]
    for name, path in shipped(room).items():
        loaded = load(name, Path())
        if "miniature" in path.parts or getattr(loaded.card, "kind", "") == "ensemble":
            continue
        card, prompts = loaded.card, [loaded.prompt, loaded.prompt.system]
        compared = [p.id.removeprefix("upstream:") for p in prompts if p and "upstream:" in p.id]
        assert set(compared) <= set(upstream.registry())  # test_rendered compares each of them
        runs = {"openai": "served", "none": "its own code"}
        other = "" if card.engine_args.get("serve") else runs.get(card.engine, "")
        cells = [
            "yes" if f"{room}/{name}" in rendered else "-",
            other or architecture(card, known),
            ", ".join(compared),
            f"`{card.revision[:10]}`" if card.revision else "",
        ]
        lines.append(" | ".join([f"| {name}", *(cell or "-" for cell in cells)]) + " |")
    return lines


@pytest.mark.model
def test_the_page_says_what_the_registries_do():
    sys.path.insert(0, str(ROOT / "tests" / "engines"))
    from tiny_architectures import ARCHITECTURES, NEWER

    known = [*ARCHITECTURES, *NEWER]
    text = "\n".join([HEAD.rstrip(), *table("policies", known), *table("rewarders", known)]) + "\n"
    if os.environ.get("BON_RENDERED") == "write":
        PAGE.write_text(text)
    assert PAGE.read_text() == text, "BON_RENDERED=write writes it again"
