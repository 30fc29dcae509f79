"""Answer extractors: the answer of a policy's reply, or None; never a guess.

`official` is MMMU-Pro's published scorer without its random choice; it takes letters of words and
the pronoun "I" for answers. `strict` (bon.policies.answer_extraction) takes what is plainly stated,
and is recommended for new work. Every report compares the two on the same replies. The rules of
other harnesses, for `bon regrade`, leave out their random choices and the models they ask.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Literal, NamedTuple, get_args

from bon.core.patterns import checked, last_match
from bon.core.text import REFUSED, is_withheld
from bon.experiment.letters import option_letters
from bon.policies.answer_extraction import (
    BOX,
    DOUBT,
    FIELD,
    TAG,
    after_thinking,
    balanced,
    stated_letter,
    words_before,
)

ExtractorName = Literal["official", "strict"]

Extractor = Callable[[str, str, Sequence[str]], str | None]
"""From a reply, the options' letters and the options to a letter or None."""

EXTRACTOR_VERSIONS = {"official": "official", "strict": "strict 5"}
"""Versions that a run records; answers are extracted again when one changes."""


_NOT = r"(?:cannot|can['’]?t|can\s+not|could\s?n['’]?t|won['’]?t|will\s+not|am\s+not\s+able\s+to)"
_DO = (
    r"(?:see|view|access|open|display|process|analy[sz]e|interpret|identify|recogni[sz]e|read|help|"
    r"assist|provide|give|answer|determine|choose|select|solve|do|show|tell|comply|diagnose|"
    r"discern|make|evaluate|assess|complete|respond|fulfil+|continue|support|verify|view)"
)
_DECLINES = re.compile(
    r"\bi(?:['’]?m|\s+am)\s+(?:\w+\s+)?(?:sorry|unable|not\s+able)\b"
    r"|^\W*(?:sorry|apologies|unfortunately)\b"
    r"|\bi\s+apologi[sz]e\b"
    rf"|\bi\s+(?:\w+\s+)?{_NOT}\s+(?:\w+\s+)?{_DO}\b"
    r"|\bi\s+(?:do\s+not|don['’]?t)\s+(?:know|have|understand)\b"
    r"|\bas\s+an\s+ai\b"
    r"|\b(?:unable|not\s+possible|impossible)\s+to\s+(?:\w+\s+)?"
    rf"{_DO}\b"
    r"|\bno\s+(?:image|picture)\s+(?:was|is|has\s+been)\s+(?:provided|attached|given|shown)\b"
    r"|\bcannot\s+be\s+(?:determined|answered)\b",
    re.IGNORECASE,
)


class Reading(NamedTuple):
    """An extracted answer, a letter if there are options, and the outcome."""

    letter: str | None
    outcome: Literal["parsed", "unparsed"]


UNPARSED = Reading(None, "unparsed")


class BothLetters(NamedTuple):
    """The letters of both extractors, and whether a reply declines without stating a letter."""

    official: str | None
    strict: str | None
    declined: bool


NO_LETTERS = BothLetters(None, None, False)


def extract_answer(text: str, options: Sequence[str], mode: ExtractorName = "official") -> Reading:
    """Extract the answer of a reply: a letter, or without options the final answer."""
    if mode not in get_args(ExtractorName):
        raise ValueError(f"unknown answer extractor {mode!r}: use official or strict")
    if options:
        letter = EXTRACTORS[mode](text, option_letters(options), options)
    else:
        letter = None if _withheld(text) else final_answer(text)
    return UNPARSED if letter is None else Reading(letter, "parsed")


def extract_both(
    text: str, options: Sequence[str], mode: ExtractorName, letter: str | None
) -> BothLetters:
    """Apply both extractors; that of `mode` has extracted `letter` already."""
    other: ExtractorName = "strict" if mode == "official" else "official"
    letters = {mode: letter, other: extract_answer(text, options, other).letter}
    strict = letters["strict"]
    return BothLetters(letters["official"], strict, strict is None and declines(text))


def declines(text: str) -> bool:
    """Whether a reply says that it will not or cannot answer; it may still state an answer."""
    return text.startswith(REFUSED) or _DECLINES.search(after_thinking(text)) is not None


# Forms of a letter in order of trust, and how its last occurrence is then located.
_ALONE = " {} ".format
_FORMS: tuple[tuple[Callable[[str], str], Callable[[str], str]], ...] = (
    ("({})".format, "({})".format),
    ("{} ".format, _ALONE),
    ("{}.".format, _ALONE),
)


def official_letter(
    text: str, letters: str, options: Sequence[str], *, marked: bool = True
) -> str | None:
    """Apply MMMU-Pro's published rules, quirks included, so that numbers compare.

    A reply ending in "Answer: C) Apple" is ambiguous, since A is a letter of that text too; "I "
    matches the pronoun when there are nine options; an empty option is found in every reply.

    marked: try what follows the last "Answer:" first; lmms-eval's rules for MMMU do not.
    """
    _, mark, after = text.rpartition("Answer:") if marked else ("", "", "")
    if mark:
        present = [letter for letter in letters if letter in after]
        if len(present) == 1:
            return present[0]
    for punctuation in ",.!?;:'":  # one after the other, each from both ends
        text = text.strip(punctuation)
    text = f" {text} "
    for form, located in _FORMS:
        present = [letter for letter in letters if form(letter) in text]
        if present:
            # max() keeps the first of equals: if no letter stands alone, the first wins.
            return max(present, key=lambda letter: text.rfind(located(letter)))
    if len(text.split()) <= 5:
        return None
    lowered = text.lower()
    mentioned = [i for i, option in enumerate(options) if option.lower() in lowered]
    if not mentioned:
        return None
    return letters[max(mentioned, key=lambda i: (lowered.rfind(options[i].lower()), -i))]


_ANSWER_LINE = re.compile(r"^\s*answer:\s*(.*?)\s*$", re.IGNORECASE | re.MULTILINE)
_PUNCTUATION = re.compile(r"[.()\[\],:;!*#{}]")


def vlmevalkit_letter(text: str, letters: str, options: Sequence[str]) -> str | None:
    """Apply VLMEvalKit's rules before it asks a model.

    A single letter on the last line that starts with "Answer:"; else the only letter that is a
    word of its own ("A" not in longer texts, where it may be the article); else the only option
    whose text a short reply contains.
    """
    lines = _ANSWER_LINE.findall(text)
    if lines and len(lines[-1]) == 1 and lines[-1].upper() in letters:
        return str(lines[-1].upper())
    words = _PUNCTUATION.sub(" ", text).split()
    present = [letter for letter in letters if letter in words]
    if len(present) == 1 and not (present[0] == "A" and len(words) > 3):
        return present[0]
    if present or len(text) > 2 * sum(map(len, options)):
        return None
    lowered = text.lower()
    mentioned = [
        i for i, option in enumerate(options) if option.strip() and option.lower() in lowered
    ]
    return letters[mentioned[0]] if len(mentioned) == 1 else None


def pattern_letter(pattern: str) -> Extractor:
    """Return an extractor of the last match's group; ValueError if the pattern is not usable."""
    regex = checked(pattern)

    def extract(text: str, letters: str, options: Sequence[str]) -> str | None:
        match = last_match(regex, text)
        letter = match.value.strip().upper() if match else ""
        return letter if len(letter) == 1 and letter in letters else None

    return extract


def _withheld(text: str) -> bool:
    """Whether a reply ends within its reasoning, or was not given at all."""
    thinks = text.lstrip()[:7].lower() == "<think>" and "</think>" not in text.lower()
    return thinks or is_withheld(text)


def _letter(extract: Extractor, text: str, letters: str, options: Sequence[str]) -> str | None:
    return None if _withheld(text) else extract(text, letters, options)


EXTRACTORS: Mapping[str, Extractor] = MappingProxyType(
    {
        "official": partial(_letter, official_letter),
        "strict": partial(_letter, stated_letter),
        "lmms-eval": partial(_letter, partial(official_letter, marked=False)),
        "vlmevalkit": partial(_letter, vlmevalkit_letter),
    }
)


# ------------------------------------------------------------------ questions without options
# Statements are the forms that hold a letter elsewhere: <answer>…</answer>, \boxed{…},
# {"answer": "…"}, "Answer: …" and "the answer is …". The last one counts; without any, a reply of
# one short line is its answer. Reasoning does not count, nor does a negated or hypothetical one.

SEARCHED = 8000
"""Last characters of a reply that are searched, which bounds the time."""

MAX_ANSWER = 500
MAX_BARE = 100
MAX_MARKS = 50

_ANNOUNCED = re.compile(
    r"\banswer(?:\s+to\s+(?:the|this)\s+question)?\s*(?P<colon>[:：=])"
    r"|\banswer\s+(?:is|was|should\s+be|must\s+be|would\s+be)\b\s*:?"
    r"|(?:答案|正解|答え|回答|정답)\s*(?:[:：]|[是为は은는])",
    re.IGNORECASE,
)
_FIELD_NUMBER = re.compile(r'"(?:final_)?answer"\s*:\s*(-?[\d.]+(?:[eE][+-]?\d+)?)\s*[,}]')
_TEXT = re.compile(r"\\(?:text|textbf|mathrm|mathbf)\s*\{([^{}]*)\}")
_REASON = re.compile(r"\s+because\b|,\s*(?:because|since|as|due|which|given|for)\b", re.IGNORECASE)
_NEXT_SENTENCE = re.compile(r"(?<![A-Z])\.\s+(?=[A-Z])")  # not after an initial


def final_answer(text: str) -> str | None:
    """Return the final answer of a reply, at most MAX_ANSWER characters long, or None."""
    whole = after_thinking(text).strip()
    text = whole[-SEARCHED:].replace("**", "").replace("`", "").replace("’", "'")
    statements = [(tag.end(), tag[3] if tag[2] is None else tag[2]) for tag in TAG.finditer(text)]
    statements += [(field.end(), field[3]) for field in FIELD.finditer(text)]
    statements += [(field.end(), field[1]) for field in _FIELD_NUMBER.finditer(text)]
    boxes = list(BOX.finditer(text))
    if boxes:
        inside = balanced(text, boxes[-1].end())
        statements.append((boxes[-1].end() + len(inside), inside))
    marks = list(_ANNOUNCED.finditer(text))
    for mark in reversed(marks[-MAX_MARKS:]):
        colon = mark["colon"] is not None
        rest = text[mark.end() : mark.end() + 2 * MAX_ANSWER].lstrip().split("\n", 1)[0]
        doubted = DOUBT.search(words_before(text, mark.start(), 1 if colon else 30))
        if not doubted and not DOUBT.match(rest) and not BOX.search(rest):
            if not colon:  # what a sentence says before it ends or gives a reason
                rest = _NEXT_SENTENCE.split(rest, maxsplit=1)[0]
                rest = _REASON.split(rest, maxsplit=1)[0]
            statements.append((mark.end(), rest))
            break
    if statements:
        return _clean(max(statements)[1])
    bare = "answer" not in whole.lower() and "\n" not in whole and len(whole) <= MAX_BARE
    return _clean(whole) if bare else None


def _clean(answer: str) -> str | None:
    answer = _TEXT.sub(r"\1", answer.strip()).strip(" \t\n\"'“”*").strip()
    for start, end in (("$", "$"), (r"\(", r"\)"), (r"\[", r"\]")):
        answer = answer.removesuffix(".").strip()
        if answer.startswith(start) and answer.endswith(end):
            answer = answer[len(start) :].removesuffix(end).strip()
    return answer if answer and len(answer) <= MAX_ANSWER else None
