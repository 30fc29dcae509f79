"""The form in which a prompt requires an answer or a verdict, and how strict readers read it.

    reply     = [reasoning "</think>"] [sentences] statement closing
    statement = a match of the form that begins a line or, with a label or brackets, a sentence on
                it; its wildcards match no words
    closing   = brackets, markup, a full stop, or the unit of a number; then the reply ends

A form is a pattern whose group is the value: that of a card, or `ANSWER`. One that begins with a
quoted key asks for JSON: the reply is one object whose last key is that one. All else is None with
the reason. Nothing is read from prose: a reply that calls its own statement a lie is taken at its
word.
"""

import json
import re
import unicodedata
from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import Any, TypeVar

from bon.core.patterns import Pattern, compiled

ValueT = TypeVar("ValueT", bound=Hashable)
Meaning = Callable[[str], ValueT | None]

VERSION = 8
"""Raised whenever replies are read differently: stored replies are then read again."""

CUT = "was cut off before it ended in a verdict"
NOTHING = "states nothing that the rule reads"
WITHIN = "states its verdict within other words"

ANSWER = (
    r"(?:final )?answer[ \t]*:[ \t]*([^\n]+)|[^\n]*?\\f?boxed\s*\{([^\n]+)\}"
    r"|[^\n]*?<answer>([^<>]+)</answer>|[^\n]*?<\|begin_of_box\|>([^<>]+)<\|end_of_box\|>"
)
ANSWER_FIELD = '"answer"'
"""What prompts ask of a policy: "Answer: X", a box, a tag or the field of a JSON object."""

_SPELLINGS = str.maketrans(
    {"‘": "'", "’": "'", "“": '"', "”": '"', "„": '"', "«": '"', "»": '"', "「": '"', "」": '"'}
    | {"『": '"', "』": '"', "。": ".", "।": ".", "、": ",", "−": "-", "–": "-", "‐": "-"}
    | {"‑": "-", "—": " - ", "―": " - ", "⁄": "/", "\u2028": "\n", "\u2029": "\n", "\r": "\n"}
    | {"؟": "?", "،": ",", "؛": ";"}
)
_RAISED, _LOWERED = re.compile("[²³¹\u2070-\u207f]+"), re.compile("[\u2080-\u209c]+")
_KEY = re.compile(r'"(\w+)"')
_UNDERLINED = re.compile(r"(?<!\w)_+|_+(?![\w{])")
_MARKS = r"(?:[ \t#$(\[]|\\(?:(?:text|boxed)\{)?)*"
_LABEL = re.compile(r"[:<{\[]")
_AFTER_SENTENCE = compiled(rf"(?:.*\pL{{2}}.*\s\S*[^\s.][.!?]\s+)?{_MARKS}")
_CLOSING = r"[\s\])}$\\]*[.!]?[\s\])}$\\]*(?:</answer>)?\s*"
_GOES_ON = re.compile(
    r"[-,:;=(\[{\"'`>*#]$|(?:^|\n)\s*>[^\n]*$"
    r"|\b(?:that|dass|daß|que|che|что|że|if|or|and|but|not|say|says|writes|claim|conclude|whether|of|is)$",
    re.IGNORECASE,
)
_ENDED = re.compile(r"(?:^|[^.][.]|[!?])$")
_WILDCARD = re.compile(r"(?<!\\)\.(?=[*+])")
_PUNCTUATION = r'[\s:,.#"(\[-]'  # what a wildcard of a pattern matches
_FENCED = re.compile(r"\s*```\w*\n((?:(?!```).)*)```\s*", re.DOTALL)
_THOUGHT = "think|thinking|thought|thoughts|reasoning|analysis|reflection"
EMPHASIS = re.compile(
    r"(?!(?<=[A-Za-z0-9)])\*\*(?:-?\d|[({]|[A-Za-z]\b)|(?<=[A-Za-z0-9)] )\*\* -?\d)\*\*|`"
)
"""Markdown's bold and code; the stars of 10**5 and 10 ** 5 are powers."""
_TURN_END = re.compile(
    r"(?:<[|｜](?!(?:begin|end)_of_box)[^<>|｜\n]{1,40}[|｜]>|</?s>|<(?:eos|pad|end_of_turn)>|\[PAD\])$"
)
_THOUGHT_END = re.compile(rf"</(?:{_THOUGHT})>", re.IGNORECASE)
_THOUGHT_START = re.compile(rf"<(?:{_THOUGHT})>", re.IGNORECASE)


def canonical(text: str) -> str:
    """Return a text in plain characters: x^2 for x², one kind of quote and dash, none invisible."""
    text = text.replace("\r\n", "\n")
    if text.isascii():
        return text.replace("\r", "\n")
    # NFKC would make 82 of 8².
    text = unicodedata.normalize("NFKC", _LOWERED.sub(r"_\g<0>", _RAISED.sub(r"^\g<0>", text)))
    # Lone surrogates cannot be matched; format characters such as zero-width ones are invisible.
    text = "".join(
        str(unicodedata.decimal(c, c)) for c in text if unicodedata.category(c) not in ("Cf", "Cs")
    )
    return text.translate(_SPELLINGS)


def without_turn_end(text: str) -> str:
    """Return the text without the tokens that end a turn, which some tools leave in it."""
    bare = text.rstrip()
    while match := _TURN_END.search(bare[-48:]):
        text = bare = bare[: len(bare) - len(match[0])].rstrip()
    return text


def after_thinking(text: str) -> str:
    """Return what follows the reasoning; empty if it never ends."""
    text = without_turn_end(text)
    text = text[max((end.end() for end in _THOUGHT_END.finditer(text)), default=0) :]
    start = _THOUGHT_START.search(text)
    return text if start is None else text[: start.start()]


def read(
    text: str,
    form: str,
    delete: str = "",
    *,
    cut: bool = False,
    meaning: Meaning[ValueT],
    unit: str = "",
    sentences: bool = True,
    plain: bool = True,
) -> tuple[ValueT | None, str]:
    """Return what a reply states in the required form or None, and the reason for None.

    cut: the reply reached its token limit, so that nobody knows how it ends. meaning: maps the text
    of the form's group to its value, None if it has none. unit: pattern of what may follow it.
    sentences: what precedes the statement has to end a sentence, so that it does not go on there.
    plain: whether the value is in canonical characters, or as it was written.
    """
    if cut:
        return None, CUT
    if len(_THOUGHT_END.findall(text)) > 1:
        return None, "ends its reasoning more than once"
    key = _KEY.match(form)
    text = after_thinking(text)
    if fenced := _FENCED.fullmatch(text):
        text = fenced[1]
    if key is not None:
        return _read_json(text, key[1], meaning)
    text = clean(text, form, delete) if plain else EMPHASIS.sub("", text)
    found = list(_closed(form).finditer(text))
    matches = [
        match
        for match in found
        if _begins(text, match.start(), labelled=_LABEL.search(match[0]) is not None)
    ]
    if not matches:
        return None, WITHIN if found else NOTHING
    last = matches[-1]
    if not compiled(f"(?:{unit})?{_CLOSING}").fullmatch(text, last.end()):
        return None, "does not end in its verdict"
    begin = text.rfind("\n", 0, last.start()) + 1
    before, line = text[:begin], text[begin:]
    if line.count("{") != line.count("}") or (sentences and not _ended(before)):
        return None, WITHIN
    value = meaning(_value(last))
    if value is None:
        return None, f"states {_value(last)[:40]!r}, which the rule does not know"
    label, colon, _ = last[0].partition(":")
    labels = re.finditer(rf"{re.escape(label)}:[ \t]*\S", text, re.IGNORECASE) if colon else ()
    labelled = [mark for mark in labels if _begins(text, mark.start(), labelled=True)]
    if any(meaning(_value(m)) != value for m in matches) or len(labelled) > len(matches):
        return None, "states verdicts that disagree"
    return value, ""


def holds_statement(text: str, form: str) -> bool:
    r"""Whether a text contains what a form with words of its own would read: not `(\d+)`."""
    text = clean(text, form)
    matches = _closed(form).finditer(text) if form else ()
    around = (text[m.start() : m.start(1)] + text[m.end(1) : m.end()] for m in matches)
    return any(any(map(str.isalpha, words)) for words in around)


def clean(text: str, form: str = "", delete: str = "") -> str:
    """Return the text with canonical characters, without emphasis and invisible characters."""
    emphasis = "" if "\\*" in form or "[*" in form else "*"
    drop = {ord(character): None for character in emphasis + delete if character != "\n"}
    return _UNDERLINED.sub("", canonical(text.translate(drop)))


@lru_cache(maxsize=512)
def _closed(form: str) -> Pattern:
    """Compile the form so that its wildcards match punctuation alone."""
    folds = (
        (character, canonical(character))
        for character in _WILDCARD.sub(lambda _: _PUNCTUATION, form)
    )
    return compiled("".join(old if old == new else re.escape(new) for old, new in folds))


def _begins(text: str, start: int, *, labelled: bool) -> bool:
    """Whether a statement begins a line or, if it has a label or brackets, a sentence on it."""
    lead = text[text.rfind("\n", 0, start) + 1 : start]
    return (_AFTER_SENTENCE if labelled else compiled(_MARKS)).fullmatch(lead) is not None


def _ended(before: str) -> bool:
    """Whether a text ends its sentence, by a full stop or as a paragraph that announces nothing."""
    bare = before.rstrip()
    paragraph = "\n" in before[len(bare) :].replace("\n", "", 1)
    return _ENDED.search(bare) is not None or (paragraph and not _GOES_ON.search(bare))


def _value(match: Any) -> str:
    return "".join(filter(None, match.groups()))


def _read_json(text: str, name: str, meaning: Meaning[ValueT]) -> tuple[ValueT | None, str]:
    """Return the value of a key that one JSON object has once, at its end."""
    keys: list[str] = []

    def collected(items: list[tuple[str, Any]]) -> dict[str, Any]:
        keys.extend(key for key, _ in items)
        return dict(items)

    try:
        reply = json.loads(text, object_pairs_hook=collected, strict=False)
    except (ValueError, RecursionError):
        return None, "is not one JSON object"
    if not isinstance(reply, dict) or not isinstance(reply.get(name), str | float | int):
        return None, f"has no {name!r}"
    if keys.count(name) > 1:
        return None, "states more than one verdict"
    if list(reply)[-1] != name:
        return None, "goes on after its verdict"
    value = meaning(str(reply[name]))
    return value, "" if value is not None else f"states {str(reply[name])[:40]!r}"
