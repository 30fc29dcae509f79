"""The grader `math`: formulas and numbers in LaTeX that are equal, by math-verify.

It runs in a process of its own, limited in time and memory, since a formula may be a computation
without end. What cannot be shown to be equal within the limits is wrong.
"""

import re
import sys
from collections.abc import Iterable

from bon.core.line_process import LineProcess
from bon.graders import Gold, is_usable
from bon.graders.numbers import number
from bon.graders.quantities import normal, quantity
from bon.graders.texts import exact

MAX_LENGTH = 400
SECONDS = 5
"""Of CPU time for one comparison, so that a busy machine gives the same grades."""

_COMMAND = re.compile(r"\\[A-Za-z]+")
_FUNCTIONS = re.compile(r"\b(?:sin|cos|tan|cot|sec|csc|log|ln|exp|sqrt|pi|max|min)\b")
_MATRIX = re.compile(r"(\\(?:begin|end)\s*)\{[pbvVB]?(?:small)?matrix\}")
_WORD = re.compile(
    r"(?<![^\W\d_])(?=[^\W\d_]*[aeiouà-ÿ\u0370-\uffff])[^\W\d_]{3,}|__", re.IGNORECASE
)
_PRODUCT = re.compile(
    r"(?<=[\d+*/^{}()=-])[a-zA-Z]+(?![^\W\d_])|(?<![^\W\d_])[a-zA-Z]+(?=[\d+*/^{}()=-])"
)
_CALCULUS = re.compile(r"\\(?:int|oint|partial|d?frac\s*\{\s*d)")
_LETTERS = re.compile(
    rf"\\(?:begin|end)\{{\w+\}}|{_COMMAND.pattern}|{_FUNCTIONS.pattern}|([A-Za-z](?: ?[A-Za-z])+)"
)
_OPERATOR = re.compile(r"\\[A-Za-z]+|[\^=+*/√π]|\d")
_AND = re.compile(r"\s*(?:,\s*)?(?:\band\b|、|，)\s*")
_TEXT = re.compile(r"\\(?:text|textbf|mathrm|mathbf|mbox)\s*\{([^{}]*)\}")
_SPACING = re.compile(r"(?<!\\)\\(?:[,;:! ]|left(?![a-z])|right(?![a-z]))|\\?\$")


def math(answer: str, gold: Gold) -> float | None:
    """Compare numbers as `number` does, words as `exact` does, formulas by their value."""
    own = _plain(answer)
    if not own or len(own) > MAX_LENGTH or not _balanced(own):
        return None
    if exact(own, gold._replace(answers=tuple(map(_plain, gold.answers)))):
        return 1.0
    return float(any(_equal(own, _plain(text), gold) for text in gold.answers))


def _equal(own: str, right: str, gold: Gold) -> bool:
    numbers = [quantity(text) for text in (own, right)]
    if all(numbers):
        same = bool(number(own, gold._replace(answers=(right,))))
        if same or not any(one and one.unit for one in numbers):  # units may be letters: 4ab
            return same
    # Of words, formulas would be products of letters: "red" would equal "der".
    if any(map(_has_words, (own, right))):
        return False
    return _CHECKER.ask([_multiplied(own), _multiplied(right)]) == "true\n"


def fitting(answers: Iterable[str]) -> str:
    """Return the grader for right answers of one kind: numbers, formulas or else texts."""
    texts = [answer for answer in answers if quantity(answer) is None]
    if not texts:
        return "number"
    return "math" if is_usable("math") and all(map(is_formula, texts)) else "exact"


def is_formula(text: str) -> bool:
    """Whether a text is a formula: it has operators or commands, and no words."""
    plain = _plain(text)
    return _OPERATOR.search(plain) is not None and not _has_words(plain) and _balanced(plain)


def _has_words(text: str) -> bool:
    """Whether letters are words, which have vowels and no operators, and not products."""
    for pattern in (_MATRIX, _COMMAND, _FUNCTIONS, _PRODUCT):
        text = pattern.sub(" ", text)
    return _WORD.search(text) is not None


def _multiplied(text: str) -> str:
    """Return a formula with signs between letters: math-verify takes some for units or "dc"."""
    if _CALCULUS.search(text):
        return text
    return _LETTERS.sub(lambda m: "*".join(m[1].replace(" ", "")) if m[1] else m[0], text)


def _plain(text: str) -> str:
    text = _AND.sub(", ", _SPACING.sub("", _TEXT.sub(r" \1 ", normal(text))))
    return " ".join(_MATRIX.sub(r"\1{pmatrix}", text).split()).removesuffix(".")


def _balanced(text: str) -> bool:
    depth = 0
    for char in re.sub(r"\\.", "", text):
        depth += {"{": 1, "}": -1}.get(char, 0)
        if not 0 <= depth <= 20:
            return False
    return depth == 0


_CHECKER = LineProcess(
    [sys.executable, "-m", "bon.graders.formulas", str(SECONDS)],
    "math-verify is needed: pip install 'bon[math]'",
)
