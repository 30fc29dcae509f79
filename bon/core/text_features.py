"""What a rewarder may like in a text whatever it says: length, markdown, self-praise, a letter."""

import re
from collections.abc import Callable
from functools import partial
from math import log2

_MARKDOWN = re.compile(r"^#{1,6} |\*\*[^*\n]+\*\*|^[-*] ", re.MULTILINE)
_PRAISE = re.compile(
    r"\bno doubt\b|\b(certainly|definitely) correct\b|\bexcellent answer\b|\bverified twice\b"
    r"|\bchecked (every|it twice)\b",
    re.IGNORECASE,
)
LETTERS = "ABCD"


def _ends_in(letter: str, text: str) -> float:
    return float(bool(re.search(rf"\b{letter}\b[^A-Za-z]*$", text)))


FEATURES: dict[str, Callable[[str], float]] = {
    "length": lambda text: log2(1 + len(text)),
    "markdown": lambda text: float(bool(_MARKDOWN.search(text))),
    "praise": lambda text: float(bool(_PRAISE.search(text))),
    **{f"letter {letter}": partial(_ends_in, letter) for letter in LETTERS},
}
"""Name -> a number of a text: doublings of its length, or 1 where it has the feature."""

PLACE, PHRASE = "first place", "phrase"
BIASES = (*FEATURES, PLACE, PHRASE)
"""Biases that can be injected (bon.rewarders.biases)."""
