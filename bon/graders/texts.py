"""Graders of short texts: `exact`, `f1`, `anls` and `vqa`."""

import re
import string
from collections import Counter

from bon.graders import Gold
from bon.graders.quantities import NUMERALS, normal

_JOINTS = re.compile(r"\s*([,;:()\[\]{}])\s*")
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_DIGITS = {word: str(number) for number, word in enumerate(NUMERALS[:11])} | {"none": "0"}
_PUNCTUATION = re.compile(r"[;/\[\]\"{}()=+\\_\-><@`,?!]")
ANLS_THRESHOLD = 0.5


def exact(answer: str, gold: Gold) -> float | None:
    """Compare texts, without regard to case, blanks, kinds of dashes and a final full stop."""
    own = plain(answer)
    return float(own in map(plain, gold.answers)) if own else None


def f1(answer: str, gold: Gold) -> float | None:
    """Return the highest F1 of shared words, as published for SQuAD (Rajpurkar et al., 2016)."""
    own = Counter(_words(answer))
    return max(_f1(own, Counter(_words(text))) for text in gold.answers) if own else None


def anls(answer: str, gold: Gold) -> float | None:
    """Return the normalised Levenshtein similarity; below .5 it is 0 (Biten et al., 2019)."""
    own = " ".join(answer.lower().split())
    if not own:
        return None
    best = 0.0
    for text in gold.answers:
        right = " ".join(text.lower().split())
        longest = max(len(own), len(right))
        if abs(len(own) - len(right)) <= longest * (1 - ANLS_THRESHOLD):
            best = max(best, 1 - _distance(own, right) / longest)
    return best if best >= ANLS_THRESHOLD else 0.0


def vqa(answer: str, gold: Gold) -> float | None:
    """Return the VQA accuracy: min(1, agreeing people / 3), averaged over all people but one.

    Apostrophes are dropped where the published rules restore those of contractions. With fewer
    than four right answers one that equals any of them is worth 1.
    """
    if not answer.strip():
        return None
    own = _vqa_plain(answer)
    same = sum(_vqa_plain(text) == own for text in gold.answers)
    people = len(gold.answers)
    if people < 4:
        return float(same > 0)
    return (same * min(1, (same - 1) / 3) + (people - same) * min(1, same / 3)) / people


def plain(text: str) -> str:
    """Return the text that is compared."""
    bare = _JOINTS.sub(r"\1", " ".join(normal(text).casefold().split()))
    return bare.strip(" \"'“”‘’").rstrip(" .。\"'“”‘’").lstrip(" \"'“”‘’")


def _words(text: str) -> list[str]:
    bare = "".join(char for char in text.lower() if char not in string.punctuation)
    return _ARTICLES.sub(" ", bare).split()


def _f1(own: Counter[str], right: Counter[str]) -> float:
    shared = (own & right).total()
    return 2 * shared / (own.total() + right.total()) if shared else 0.0


def _distance(first: str, second: str) -> int:
    """Return the Levenshtein distance."""
    row = list(range(len(first) + 1))
    for i, b in enumerate(second, start=1):
        before, row[0] = row[0], i
        for j, a in enumerate(first, start=1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (a != b))
    return row[-1]


def _vqa_plain(text: str) -> str:
    text = text.lower().replace(",", "").replace("?", "").replace("'s", " 's").replace("\n", " ")
    spaced = text.strip()

    def punctuation(match: re.Match[str]) -> str:
        mark = match[0]
        return "" if f"{mark} " in spaced or f" {mark}" in spaced else " "

    text = re.sub(r"\.(?!\d)", "", _PUNCTUATION.sub(punctuation, spaced)).replace("'", "")
    words = (_DIGITS.get(word, word) for word in text.split())
    return " ".join(word for word in words if word not in ("a", "an", "the"))
