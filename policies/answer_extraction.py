"""The `strict` answer extractor, and the final answer of a question without options.

Both read the forms that prompts ask for (bon.experiment.required_form): "Answer: X", a box, a tag
or a JSON object at the end of a reply, or X as the whole reply. X of a question with options is a
letter, a letter with its own option's text, or the text of one option.
"""

import re
from collections.abc import Sequence
from itertools import pairwise

from bon.experiment.required_form import (
    ANSWER,
    ANSWER_FIELD,
    NOTHING,
    Meaning,
    ValueT,
    after_thinking,
    canonical,
    clean,
    read,
)
from bon.graders.quantities import quantity
from bon.policies.closing_sentence import TURN, closing_letter, closing_number, closing_text

MAX_ANSWER = 500
MAX_BARE = 100

NUMBERS = ("number", "relaxed")
"""Graders of numbers, which are also read from sentences."""

_LETTER = re.compile(
    r"(?:(?:(?:option|choice)\b\s*[:=]?|answer\s*[:=]|[选選][項项]?|答案[:是]?)\s*)?"
    r"\(?\s*([a-z])\b(?:\s*[.:,)]|\s*(?=[(]|- )|$)\s*(?:-\s+)?(.*)",
    re.I | re.S,
)
_MARKUP = re.compile(
    r"\\boxed|\\(?:text|math)(?:bf|rm|tt|it|sf|up)?(?![a-z])|\\[()\[\],;:!$ ]"
    r"|\\(?:left|right)(?![a-z])|</?\w+>|[*`${}\[\]]"
)
_FRACTION = re.compile(r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}")
_LABEL = re.compile(r"^(?:final )?answer\s*:\s*", re.IGNORECASE)
_STATEMENT = re.compile(r"answer|boxed|<\||</", re.IGNORECASE)
_BOX = re.compile(r"\\f?boxed\{((?:[^{}]|\{[^{}]*\})*)\}")
_LISTED = re.compile(r"[\s,;、$]*(?:and|or|[及和与或])?[\s$]*(?:[a-z]\s*=\s*)?", re.IGNORECASE)
_TEXT = re.compile(r"\\(?:text|textbf|mathrm|mathbf|f?boxed)\s*\{([^{}]*)\}")


def stated_letter(text: str, letters: str, options: Sequence[str]) -> str | None:
    """Return the stated letter or None; `letters` are those of the options, in order."""
    plain = [_plain(option) for option in options]

    def meaning(stated: str) -> str | None:
        if len(_plain(stated)) > 1 and plain.count(_plain(stated)) == 1:
            return letters[plain.index(_plain(stated))]
        match = _LETTER.fullmatch(_unmarked(canonical(stated)).strip(" .\"'"))
        letter = match[1].upper() if match else ""
        if match is None or letter not in letters:
            return None
        own = plain[letters.index(letter)]
        return letter if _plain(match[2]) in ("", own) else None

    letter, nothing = _stated(text, meaning)
    if letter or not nothing:
        return letter
    closing = closing_letter(clean(after_thinking(text)), letters)
    return meaning(closing) if closing else None


def final_answer(text: str, grader: str = "", question: str = "") -> str | None:
    """Return the final answer of a reply, at most MAX_ANSWER characters long, or None.

    Numbers are also read from its last sentence, in which those of the `question` are not meant.
    """
    whole = TURN.split(after_thinking(text))[0] if question else after_thinking(text)
    answer, nothing = _stated(text if whole == after_thinking(text) else whole, _clean, plain=False)
    if grader in NUMBERS and answer is not None and quantity(answer) is None:
        return closing_number(answer, question) or answer
    if not nothing:
        return answer or _several_boxes(whole)
    if grader in NUMBERS:
        return answer or closing_number(whole, question)
    return closing_text(whole) or answer


def _stated(
    text: str, meaning: Meaning[ValueT], *, plain: bool = True
) -> tuple[ValueT | None, bool]:
    """Return the value of a reply's closing statement, or of a reply that is one short line.

    The second value is whether it holds no statement at all.
    """
    value, reason = read(text, ANSWER, meaning=meaning, sentences=False, plain=plain)
    if value is None:
        value, _ = read(text, ANSWER_FIELD, meaning=meaning, sentences=False, plain=plain)
    if value is not None:
        return value, False
    whole = after_thinking(text).strip()
    bare = "\n" not in whole and len(whole) <= MAX_BARE and not _STATEMENT.search(whole)
    return (meaning(whole) if bare else None), reason == NOTHING


def _several_boxes(text: str) -> str | None:
    """Return the values of boxes that the last line lists, as one list."""
    line = text.strip().rpartition("\n")[2]
    boxes = list(_BOX.finditer(line))
    between = (line[a.end() : b.start()] for a, b in pairwise(boxes))
    listed = len(boxes) > 1 and all(map(_LISTED.fullmatch, between))
    if (
        not listed
        or len(boxes) != text.count("boxed{")
        or re.search(r"\w", line[boxes[-1].end() :])
    ):
        return None
    return ", ".join(box[1] for box in boxes)


def _plain(text: str) -> str:
    """Return the text without markup, blanks and enclosing brackets and full stops; x² as x^2."""
    return "".join(_unmarked(canonical(text)).lower().split()).strip("().")


def _unmarked(text: str) -> str:
    return _MARKUP.sub("", _FRACTION.sub(r"\1/\2", text.replace("\\%", "%")))


def _clean(answer: str) -> str | None:
    answer = _LABEL.sub("", _TEXT.sub(r"\1", answer.strip())).strip(" \t\n\"'“”*").strip()
    for start, end in (("$", "$"), (r"\(", r"\)"), (r"\[", r"\]")):
        answer = answer.removesuffix(".").strip()
        if answer.startswith(start) and answer.endswith(end):
            answer = answer[len(start) :].removesuffix(end).strip()
    several = "boxed{" in answer
    return answer if answer and not several and len(answer) <= MAX_ANSWER else None
