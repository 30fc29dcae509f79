"""Answer extractors: the answer of a policy's reply, or None; never a guess.

`official` is MMMU-Pro's published scorer without its random choice; it takes letters of words and
the pronoun "I" for answers. `strict` (bon.policies.answer_extraction) takes the required form
alone, and is recommended for new work; for `llm` a model reads what `strict` does not
(bon.work.reading). Every report compares the two on the same replies. The rules of other harnesses,
for `bon regrade`, leave out their random choices and the models they ask.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Literal, NamedTuple, get_args

from bon.core.patterns import checked, last_match
from bon.core.records import Question
from bon.core.sampling import BARE_ANSWER
from bon.core.text import REFUSED, is_withheld, option_letters
from bon.experiment.required_form import VERSION, after_thinking
from bon.policies.answer_extraction import final_answer, stated_letter

ExtractorName = Literal["official", "strict", "llm"]

Extractor = Callable[[str, str, Sequence[str]], str | None]
"""From a reply, the options' letters and the options to a letter or None."""

EXTRACTOR_VERSIONS = {name: f"{name} {VERSION}" for name in get_args(ExtractorName)}
"""Versions that a run records, `official` for its free answers; they are extracted again when one
changes."""

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


def extract_answer(
    text: str,
    options: Sequence[str],
    mode: ExtractorName = "official",
    *,
    grader: str = "",
    question: str = "",
    cut: bool = False,
) -> Reading:
    """Extract the answer of a reply: a letter, or without options the final answer.

    `grader` and text of the `question` say which answers of sentences are meant. cut: the reply
    reached its token limit (`was_cut`), so that nobody but `official` knows how it ends.
    """
    if mode not in get_args(ExtractorName):
        raise ValueError(f"unknown answer extractor {mode!r}: use official, strict or llm")
    if cut and not (options and mode == "official"):
        return UNPARSED
    if options:
        rules = EXTRACTORS["official" if mode == "official" else "strict"]
        letter = rules(text, option_letters(options), options)
    else:
        letter = None if withheld(text) else final_answer(text, grader, question)
    return UNPARSED if letter is None else Reading(letter, "parsed")


def extract_for(
    question: Question, text: str, mode: ExtractorName = "official", *, cut: bool = False
) -> Reading:
    """Extract the answer of a reply to a question."""
    return extract_answer(
        text, question.options, mode, grader=question.grader, question=question.text, cut=cut
    )


def was_cut(finish: str, num_tokens: int) -> bool:
    """Whether a response was cut off; limits of a few tokens ask for a bare answer."""
    return finish == "length" and num_tokens > BARE_ANSWER


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
        letter = (last_match(regex, text) or "").strip().upper()
        return letter if len(letter) == 1 and letter in letters else None

    return extract


def withheld(text: str) -> bool:
    """Whether a reply ends within its reasoning, or was not given at all."""
    thinks = text.lstrip()[:7].lower() == "<think>" and "</think>" not in text.lower()
    return thinks or is_withheld(text)


def _letter(extract: Extractor, text: str, letters: str, options: Sequence[str]) -> str | None:
    return None if withheld(text) else extract(text, letters, options)


EXTRACTORS: Mapping[str, Extractor] = MappingProxyType(
    {
        "official": partial(_letter, official_letter),
        "strict": partial(_letter, stated_letter),
        "lmms-eval": partial(_letter, partial(official_letter, marked=False)),
        "vlmevalkit": partial(_letter, vlmevalkit_letter),
    }
)
