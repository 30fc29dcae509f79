"""Questions that are in the reward benchmark as well as in the downstream set.

Three rules, each reported by name: `id` (VL-RewardBench calls MMMU-Pro's question X
"mmmu_pro_X", later with "-1" or "-2" behind it), `text` (the same question with the same
options, whatever the layout), `image` (the same file).
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from bon.core.images import IMAGE_MARK
from bon.core.records import PreferencePair, Question

Rule = Literal["id", "text", "image"]

_TOKEN = re.compile(rf"<image(?: \d+)?>|{IMAGE_MARK.pattern}")
_LAYOUT = re.compile(r"^\s*(?:(?:\(?[A-Z][.):]|options:|choices:|question:)\s*)+", re.I | re.M)
_NOISE = re.compile(r"[\W_]+")


@dataclass(frozen=True, slots=True)
class Leak:
    """A question and a pair (by key) that are the same, and the rule that says so."""

    question: str
    pair: str
    rule: Rule


def find_leaks(questions: Iterable[Question], pairs: Iterable[PreferencePair]) -> list[Leak]:
    """Every question that a pair is about, once for each rule that says so.

    The questions are only walked through: memory grows with the pairs.
    """
    known: dict[tuple[Rule, str], list[str]] = {}
    for pair in pairs:
        for sign in _pair_signs(pair):
            known.setdefault(sign, []).append(pair.key)
    if not known:
        return []
    leaks = [
        Leak(question=question.key, pair=key, rule=sign[0])
        for question in questions
        for sign in _question_signs(question)
        for key in known.get(sign, ())
    ]
    # Different questions can have the same text; where the id says which one a pair is about,
    # the other rules only confirm it.
    by_id = {leak.pair: leak.question for leak in leaks if leak.rule == "id"}
    return [leak for leak in leaks if by_id.get(leak.pair, leak.question) == leak.question]


def _question_signs(question: Question) -> list[tuple[Rule, str]]:
    signs: list[tuple[Rule, str]] = [("id", question.id)]
    if question.text.strip():
        signs.append(("text", plain("\n".join([question.text, *question.options]))))
    return signs + _image_signs(question)


def _pair_signs(pair: PreferencePair) -> list[tuple[Rule, str]]:
    signs: list[tuple[Rule, str]] = []
    if pair.id.startswith("mmmu_pro_"):
        signs.append(("id", re.sub(r"-\d$", "", pair.id.removeprefix("mmmu_pro_"))))
    signs.append(("text", plain(pair.prompt)))
    return signs + _image_signs(pair)


def _image_signs(item: Question | PreferencePair) -> list[tuple[Rule, str]]:
    return [("image", sha256) for sha256 in sorted({image.sha256 for image in item.images})]


def plain(text: str) -> str:
    """Letters and digits alone, without image tokens, option letters and headings."""
    return _NOISE.sub("", _LAYOUT.sub("", _TOKEN.sub(" ", text)).lower())
