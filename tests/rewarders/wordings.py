"""Our wordings of published prompts, for tests that must not need the network."""

from pathlib import Path

from bon.experiment.cards import Loaded, load_rewarder
from bon.experiment.config import RewarderCard

# A published prompt -> ours, with the same parts and verdict.
OURS = {
    "upstream:r1-reward": "pairwise-think",
    "upstream:unified-reward-pair": "pairwise",
    "upstream:unified-reward-point": "pointwise",
    "upstream:unified-reward-think": "pairwise-scored",
    "upstream:unified-reward-think-qwen3vl": "pairwise-scored",
    "upstream:omni-rrm": "pairwise-json",
}


def in_our_words(name: str) -> Loaded[RewarderCard]:
    """A shipped card, with ours where its prompt or system turn is a published one."""
    loaded = load_rewarder(name, Path())
    prompt, system = loaded.prompt, loaded.prompt.system
    ours = {"prompt": OURS[prompt.id]} if prompt.id in OURS else {}
    if loaded.card.kind == "rerank" and prompt.id:  # a model's own layout
        ours = {"prompt": {"text": "{{ instruction }}|{{ query }}|{{ document }}"}}
    opening = {"system": {"text": "Judge each step."}} if system is not None else {}
    return load_rewarder({"card": name, **ours, **opening}, Path())
