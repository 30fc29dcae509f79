"""What is known of each card without its weights, as docs/measurements/cards.md lists it.

`BON_RENDERED=write python -m pytest tests/test_card_evidence.py` writes the page again.
"""

import os
import re
import sys
from collections import defaultdict
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
tests/test_card_evidence.py`); no card has been [run on a GPU](gpu.md) yet. For every card the tests
compare what it sends with what it sent before (`tests/data/rendered.yaml`).

- **architecture**: a tiny random checkpoint of this transformers class answers in mixed batches as
  `generate` does (`tests/engines/tiny_architectures.py`; only the language model where the
  processor needs torchvision). Models that a vendor serves or that bring their own code have none.
- **published code**: the tests compare what is sent with what this published file makes (`bon
  prompts pull`).
- **\\***: the card pins a commit; a run of another keeps the commit of its first start.
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
    """One row for the cards with the same evidence."""
    load = load_policy if room == "policies" else load_rewarder
    rendered = yaml.safe_load(STORED.read_text())
    cards: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name, path in shipped(room).items():
        loaded = load(name, Path())
        if "miniature" in path.parts or getattr(loaded.card, "kind", "") == "ensemble":
            continue
        card, prompts = loaded.card, [loaded.prompt, loaded.prompt.system]
        compared = [p.id.removeprefix("upstream:") for p in prompts if p and "upstream:" in p.id]
        assert set(compared) <= set(upstream.registry())  # test_rendered compares each of them
        assert f"{room}/{name}" in rendered
        runs = {"openai": "served", "none": "its own code"}
        evidence = (runs.get(card.engine) or architecture(card, known), ", ".join(compared))
        cards[evidence].append(f"{name}{chr(92) + '*' if card.revision else ''}")
    lines = [f"\n## {room.capitalize()}\n", "| architecture | published code | cards |"]
    lines.append("|---|---|---|")
    for evidence, names in sorted(cards.items()):
        lines.append(f"| {' | '.join(cell or '-' for cell in evidence)} | {', '.join(names)} |")
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
