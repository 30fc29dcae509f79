"""Specs: hashes of all that shapes a card's output. Rows are stored and reused under them."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from bon.core.keys import content_key
from bon.engines import settings_of
from bon.experiment.config import Card, RewarderCard
from bon.experiment.prompts import Prompt


@dataclass(frozen=True)
class Specs:
    """Specs of a card without the code of a rewarder class.

    `card` leaves out the rule that parses stored replies, since another rule parses them again;
    `with_rule` includes it.
    """

    card: str
    with_rule: str = ""


def specs_of(card: Card, base: Path, prompt: Prompt, seed: int) -> Specs:
    """Compute the specs of a card whose relative paths start from `base`."""
    shaping = card.model_dump(
        mode="json",
        include={
            "model", "revision", "engine", "images", "sampling", "kind", "verdict", "score",
            "image_filter", "aggregate", "window", "step_separator", "python", "options",
        },
    )  # fmt: skip
    readers = {rule: shaping[rule].pop("reader") for rule in _RULES if shaping.get(rule)}
    # Greedy decoding does not depend on the experiment's seed.
    drawn = seed if shaping["sampling"]["temperature"] > 0 else None
    rest = prompt.sha256, _fingerprint(base, card.model), drawn
    arguments = settings_of(card.engine).shaping(card.engine_args)
    reparses = isinstance(card, RewarderCard) and card.stored_rule is not None
    published = ["published"] if "published" in readers.values() else []
    with_rule = content_key(shaping, arguments, *rest, *published)
    without_rule = {**shaping, **dict.fromkeys(_RULES)}
    return Specs(content_key(without_rule, arguments, *rest) if reparses else with_rule, with_rule)


_RULES = ("verdict", "score")


def _fingerprint(base: Path, model: str) -> str:
    """Hash a local checkpoint: each file's name, size, and first and last 64 KiB."""
    folder = base / model
    if not model or not folder.is_dir():
        return ""
    digest = hashlib.sha256()
    for path in sorted(p for p in folder.iterdir() if p.is_file() and p.suffix != ".md"):
        size = path.stat().st_size
        digest.update(f"{path.name}:{size}".encode())
        with path.open("rb") as file:
            digest.update(file.read(1 << 16))
            file.seek(max(0, size - (1 << 16)))
            digest.update(file.read())
    return digest.hexdigest()
