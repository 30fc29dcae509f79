"""The grader `math`: formulas and numbers in LaTeX that are equal, by math-verify.

It runs in a process of its own, limited in time and memory, since a formula may be a computation
without end. What cannot be shown to be equal within the limits is wrong.
"""

import re
import sys

from bon.core.line_process import LineProcess
from bon.graders import Gold
from bon.graders.numbers import number, quantity
from bon.graders.texts import exact

MAX_LENGTH = 400
SECONDS = 5
"""Of CPU time for one comparison, so that a busy machine gives the same grades."""

_COMMAND = re.compile(r"\\[A-Za-z]+")
_FUNCTIONS = re.compile(r"\b(?:sin|cos|tan|cot|sec|csc|log|ln|exp|sqrt|pi|max|min)\b")
_WORD = re.compile(r"[^\W\d_]{3,}|__")
_TEXT = re.compile(r"\\(?:text|textbf|mathrm|mathbf|mbox)\s*\{([^{}]*)\}")
_SPACING = re.compile(r"\\(?:[,;:! ]|left(?![a-z])|right(?![a-z]))|\\?\$")


def math(answer: str, gold: Gold) -> float | None:
    """Compare numbers as `number` does, words as `exact` does, formulas by their value."""
    own = _plain(answer)
    if not own or len(own) > MAX_LENGTH or not _balanced(own):
        return None
    if exact(own, gold._replace(answers=tuple(map(_plain, gold.answers)))):
        return 1.0
    return float(any(_equal(own, _plain(text), gold) for text in gold.answers))


def _equal(own: str, right: str, gold: Gold) -> bool:
    if quantity(own) is not None and quantity(right) is not None:
        return bool(number(own, gold._replace(answers=(right,))))
    # Of words, formulas would be products of letters: "red" would equal "der".
    if any(_WORD.search(_FUNCTIONS.sub("", _COMMAND.sub("", text))) for text in (own, right)):
        return False
    return _CHECKER.ask([own, right]) == "true\n"


def _plain(text: str) -> str:
    return " ".join(_SPACING.sub("", _TEXT.sub(r" \1 ", text)).split()).removesuffix(".")


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
