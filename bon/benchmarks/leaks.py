"""Questions that occur in both the reward benchmark and the downstream set.

Three rules, each reported by name: `id` (VL-RewardBench calls MMMU-Pro's question X
"mmmu_pro_X", later with a suffix "-1" or "-2"), `text` (same question and options, whatever the
layout), `image` (same file).
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from bon.core.images import IMAGE_MARK
from bon.core.records import PreferencePair, Question

Rule = Literal["id", "text", "image"]
Signature = tuple[Rule, str]

_TOKEN = re.compile(rf"<image(?: \d+)?>|{IMAGE_MARK.pattern}")
_LAYOUT = re.compile(r"^\s*(?:(?:\(?[A-Z][.):]|options:|choices:|question:)\s*)+", re.I | re.M)
_NOISE = re.compile(r"[\W_]+")


@dataclass(frozen=True, slots=True)
class Leak:
    """A question and a pair (by key) that are the same, by a rule."""

    question: str
    pair: str
    rule: Rule


def find_leaks(questions: Iterable[Question], pairs: Iterable[PreferencePair]) -> list[Leak]:
    """Return every question that a pair is about, once per rule.

    Questions are streamed: memory grows with the pairs only.
    """
    by_signature: dict[Signature, list[str]] = {}
    for pair in pairs:
        for signature in _signatures(pair):
            by_signature.setdefault(signature, []).append(pair.key)
    if not by_signature:
        return []
    leaks = [
        Leak(question=question.key, pair=key, rule=signature[0])
        for question in questions
        for signature in _signatures(question)
        for key in by_signature.get(signature, ())
    ]
    # Different questions may have the same text; if the id names the question of a pair, the
    # other rules only confirm it.
    by_id = {leak.pair: leak.question for leak in leaks if leak.rule == "id"}
    return [leak for leak in leaks if by_id.get(leak.pair, leak.question) == leak.question]


def _signatures(item: Question | PreferencePair) -> Iterator[Signature]:
    if isinstance(item, Question):
        yield "id", item.id
        if item.text.strip():
            yield "text", plain("\n".join([item.text, *item.options]))
    else:
        yield "text", plain(item.prompt)
        if item.id.startswith("mmmu_pro_"):
            yield "id", re.sub(r"-\d$", "", item.id.removeprefix("mmmu_pro_"))
    for sha256 in sorted({image.sha256 for image in item.images}):
        yield "image", sha256


def plain(text: str) -> str:
    """Return letters and digits only, without image tokens, option letters and headings."""
    return _NOISE.sub("", _LAYOUT.sub("", _TOKEN.sub(" ", text)).lower())
