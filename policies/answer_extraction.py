"""The `strict` answer extractor, and the final answer of a question without options.

Both read the forms that prompts ask for (bon.experiment.required_form): "Answer: X", a box, a tag
or a JSON object at the end of a reply, or X as the whole reply. X of a question with options is a
letter, a letter with its own option's text, or the text of one option.
"""

import re
from collections.abc import Sequence

from bon.experiment.required_form import (
    ANSWER,
    ANSWER_FIELD,
    Meaning,
    ValueT,
    after_thinking,
    canonical,
    read,
)

MAX_ANSWER = 500
MAX_BARE = 100

_LETTER = re.compile(
    r"(?:option\s+|answer:\s*)?\(?\s*([a-z])\b(?:\s*[.:,)]|\s*(?=[(]|- )|$)\s*(?:-\s+)?(.*)",
    re.I | re.S,
)
_MARKUP = re.compile(
    r"\\boxed|\\(?:text|math)(?:bf|rm|tt|it|sf|up)?(?![a-z])|\\[()\[\],;:!$ ]"
    r"|\\(?:left|right)(?![a-z])|</?\w+>|[*`${}\[\]]"
)
_FRACTION = re.compile(r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}")
_STATEMENT = re.compile(r"answer|boxed|<\||</", re.IGNORECASE)
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

    return _stated(text, meaning)


def final_answer(text: str) -> str | None:
    """Return the final answer of a reply, at most MAX_ANSWER characters long, or None."""
    return _stated(text, _clean, plain=False)


def _stated(text: str, meaning: Meaning[ValueT], *, plain: bool = True) -> ValueT | None:
    """Return the value of a reply's closing statement, or of a reply that is one short line."""
    for form in (ANSWER, ANSWER_FIELD):
        value, _ = read(text, form, meaning=meaning, sentences=False, plain=plain)
        if value is not None:
            return value
    whole = after_thinking(text).strip()
    bare = "\n" not in whole and len(whole) <= MAX_BARE and not _STATEMENT.search(whole)
    return meaning(whole) if bare else None


def _plain(text: str) -> str:
    """Return the text without markup, blanks and enclosing brackets and full stops; x² as x^2."""
    return "".join(_unmarked(canonical(text)).lower().split()).strip("().")


def _unmarked(text: str) -> str:
    return _MARKUP.sub("", _FRACTION.sub(r"\1/\2", text.replace("\\%", "%")))


def _clean(answer: str) -> str | None:
    answer = _TEXT.sub(r"\1", answer.strip()).strip(" \t\n\"'“”*").strip()
    for start, end in (("$", "$"), (r"\(", r"\)"), (r"\[", r"\]")):
        answer = answer.removesuffix(".").strip()
        if answer.startswith(start) and answer.endswith(end):
            answer = answer[len(start) :].removesuffix(end).strip()
    several = "boxed{" in answer
    return answer if answer and not several and len(answer) <= MAX_ANSWER else None
