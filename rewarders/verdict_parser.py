"""The strict parser: a reply counts if it ends in the statement that its prompt asks for.

    reply     = [reasoning "</think>"] [text] lead statement closing
    lead      = words that introduce a conclusion ("Therefore,", "My final verdict:") or nothing,
                at the beginning of a line or after a full stop
    statement = a match of the rule's pattern, whose wildcards match no words
    closing   = punctuation, "than the other", the scale of a number; then the reply ends

A pattern that begins with a quoted key asks for JSON: the reply is one object with that key. All
else is None with the reason. What follows a statement need not be understood, in any language; the
sentence before it may not disown it (bon.experiment.retractions), and no other verdict may stand
beside it.
"""

import json
import re
from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import Any, TypeVar

from bon.core.patterns import Pattern, Span, compiled, tight_matches
from bon.experiment.retractions import canonical, disowned, prefers_another

ValueT = TypeVar("ValueT", bound=Hashable)
Meaning = Callable[[str], ValueT | None]

VERSION = 5
"""Raised whenever replies are parsed differently: stored replies are then parsed again."""

CUT = "was cut off before it ended in a verdict"
NOTHING = "states nothing that the rule reads"
MAX_STATEMENTS = 40

_MARKS = r"(?:<answer>|-\s|[\s.,:()\[\]{}#$\\])*"
_SO = (
    r"therefore|thus|hence|so|consequently|overall|finally|all in all|to sum up|as a result"
    r"|in (?:conclusion|summary|short|total|my opinion)"
    r"|i(?:'d| would)? (?:say|conclude|find|think|choose|pick|prefer|select)(?: that)?"
)
_NAME = (
    r"verdict|judge?ment|decision|result|winner|conclusion|score|rating|choice"
    r"|final answer|(?:better|best|preferred|winning) (?:answer|response|one|choice|solution)"
    r"|answer\s*:|fazit|urteil|conclusión|veredicto|вывод|итог|最终答案|答案|结论|判断"
    r"|最終判定|結論|결론"
)
_LEAD = compiled(
    rf"{_MARKS}(?:(?:{_SO}){_MARKS})*(?:(?:my|the|our)\s)?(?:(?:final|overall|total){_MARKS})?"
    rf"(?:{_NAME})?{_MARKS}(?:is{_MARKS})?"
)
_INTRODUCED = compiled(rf"{_MARKS}(?:{_SO}|{_NAME}|final|overall|total|<)")
_ENDED = compiled(  # a sentence, "Clarity score: 8", "Tag: counting"
    r".*(?:[^.][.]|[!?؟])|.*\b(?:score|rating|points)\b.*:\s*[\d./%]+|\s*\pL{1,20}:.*[^:,;(-]"
)
_LISTED = compiled(
    r"\s*(?:[-+•]|\(?\w{1,2}[.)])\s[^:]{1,40}:.*[^:,;(-]|[^:]{1,40}:\s*[\d./%]+"  # "- clarity: 1"
)
_FULL_STOP = re.compile(r"[a-z]{4}[.!]\s+", re.IGNORECASE)
_WILDCARD = re.compile(r"(?<!\\)\.(?=[*+])")
_PUNCTUATION = r'[\s:,.#"(\[-]'  # what a wildcard of a pattern matches
_CLOSERS = r'[\s"\')\]}$\\|]*'
_THAN = r"\s+than\s+(?:the\s+other(?:\s+(?:one|answer|response))?|(?:answer|response)\s+[12ab])"
_CLOSING = (
    rf"{_CLOSERS}(?:\b(?:one|answer|response|choice))?{_CLOSERS}[.!]?{_CLOSERS}"
    r"(?:</(?:answer|verdict|s)>|<\|\w+\|>)?\s*"
)
_FENCED = re.compile(r"\s*```\w*\n((?:(?!```).)*)```\s*", re.DOTALL)
_REASON = re.compile("reason|rationale|explan|analys|justif|critique", re.IGNORECASE)
_KEY = re.compile(r'"(\w+)"')


def parse(
    text: str, pattern: str, delete: str, *, cut: bool, meaning: Meaning[ValueT], unit: str = ""
) -> tuple[ValueT | None, str]:
    """Return what a reply states or None, and the reason for None.

    cut: the reply reached its token limit, so that nobody knows how it ends. meaning: maps the text
    of the pattern's group to its value, None if it has none. unit: pattern of what may follow it.
    """
    if cut:
        return None, CUT
    key = _KEY.match(pattern)
    *thoughts, text = re.split(
        "</think>", clean(text, pattern, delete) if key is None else text, flags=re.IGNORECASE
    )
    if len(thoughts) > 1:
        return None, "ends its reasoning more than once"
    if "<think>" in text.casefold():
        return None, "does not end its reasoning"
    if fenced := _FENCED.fullmatch(text):
        text = fenced[1]
    if key is not None:
        return _parse_json(text, key[1], meaning)
    spans = tight_matches(_closed(pattern), text, MAX_STATEMENTS)
    if not spans:
        return None, NOTHING
    if len(spans) == MAX_STATEMENTS:
        return None, f"states {MAX_STATEMENTS} verdicts or more"
    last = spans[-1]
    rest = text[last.end :]
    if not unit and text[: last.end].endswith("better") and last.value not in rest:
        unit = _THAN
    if not compiled(f"(?:{unit})?{_CLOSING}").fullmatch(rest):
        return None, "does not end in its verdict"
    if text.count('"', 0, last.start) % 2 or text.count('"') % 2 or text.count("```") % 2:
        return None, "states its verdict in a quotation"
    if not _leads(text, last) or not _follows(text, last):
        return None, "states its verdict within other words"
    if disowned(text[: last.start], judges=True):
        return None, "speaks of its verdict before it"
    value = meaning(last.value)
    if value is None:
        return None, f"states {last.value[:40]!r}, which the rule does not know"
    competing = [span for span in spans[:-1] if _competes(text, span)]
    if any(meaning(span.value) != value for span in competing) or _relabels(text, spans):
        return None, "states verdicts that disagree"
    return value, ""


def last_statement(text: str, pattern: str) -> str | None:
    """Return the last match of a pattern without its group's text, whatever surrounds it."""
    text = clean(text, pattern)
    spans = tight_matches(_folded(pattern), text, 1)
    if not spans:
        return None
    return text[spans[0].start : spans[0].group_start] + text[spans[0].group_end : spans[0].end]


def clean(text: str, pattern: str = "", delete: str = "") -> str:
    """Return the text with canonical characters, without emphasis and invisible characters."""
    drop = {ord(character): None for character in delete if character != "\n"}
    if "\\*" not in pattern and "[*" not in pattern:
        drop[ord("*")] = None
    if "_" not in pattern:
        drop[ord("_")] = None
    return canonical(text.translate(drop))


@lru_cache(maxsize=512)
def _folded(pattern: str) -> Pattern:
    folds = ((character, canonical(character)) for character in pattern)
    return compiled("".join(old if old == new else re.escape(new) for old, new in folds))


@lru_cache(maxsize=512)
def _closed(pattern: str) -> Pattern:
    """Compile the pattern so that its wildcards match punctuation alone."""
    return _folded(_WILDCARD.sub(lambda _: _PUNCTUATION, pattern))


def _leads(text: str, span: Span) -> bool:
    """Whether a match begins a sentence, but for words that introduce a conclusion."""
    begin = text.rfind("\n", 0, span.start) + 1
    stops = [stop.end() for stop in _FULL_STOP.finditer(text, begin, span.start)]
    lead = text[max([begin, *stops]) : span.start]
    within = lead[-1:].isalnum() if text[span.start].isalpha() else lead[-1:] in tuple("-.,")
    line = text[begin : text.find("\n", span.end) + 1 or None]
    if within or not _LEAD.fullmatch(lead) or line.count("{") != line.count("}"):
        return False
    return not stops or _INTRODUCED.match(lead + text[span.start : span.end]) is not None


def _follows(text: str, span: Span) -> bool:
    """Whether the line before that of a match is complete, so that it does not go on there."""
    begin = text.rfind("\n", 0, span.start) + 1
    before = text[:begin].rstrip(" \t\n\"')]}$|#-=")
    line = before[before.rfind("\n") + 1 :]
    forms = (
        (_ENDED, _LEAD, _LISTED) if text[len(before) : begin].count("\n") > 1 else (_ENDED, _LEAD)
    )
    return any(form.fullmatch(line) is not None for form in forms)


def _competes(text: str, span: Span) -> bool:
    """Whether an earlier match is a statement too: labelled, or a sentence of its own."""
    rest = re.split(r"\n|(?<=[.!])\s", text[span.end :], maxsplit=1)[0]
    labelled = any(mark in text[span.start : span.end] for mark in ":<{[")
    return _leads(text, span) and (labelled or compiled(_CLOSING).fullmatch(rest) is not None)


def _relabels(text: str, spans: list[Span]) -> bool:
    """Whether the last match's label, such as "Verdict:", begins a line with no match before it."""
    label = text[spans[-1].start : spans[-1].group_start].partition(":")
    starts = {span.start for span in spans}
    marks = compiled(rf"(?m)^{_MARKS}({re.escape(label[0])}):").finditer(text)
    return bool(label[1]) and any(mark.start(1) not in starts for mark in marks)


def _parse_json(text: str, name: str, meaning: Meaning[ValueT]) -> tuple[ValueT | None, str]:
    """Return the value of a key that one JSON object has once.

    No other verdict may be beside it, and no words after it but its reasons.
    """
    pairs: list[tuple[str, Any]] = []

    def collected(items: list[tuple[str, Any]]) -> dict[str, Any]:
        pairs.extend(items)
        return dict(items)

    try:
        reply = json.loads(text, object_pairs_hook=collected, strict=False)
    except (ValueError, RecursionError):
        return None, "is not one JSON object"
    if not isinstance(reply, dict) or not isinstance(reply.get(name), str | int):
        return None, f"has no {name!r}"
    if sum(key == name for key, _ in pairs) > 1 or any(
        meaning(text.strip()) is not None
        for key, value in pairs
        if key != name
        for text in _texts(value)
    ):
        return None, "states more than one verdict"
    later = list(reply)[list(reply).index(name) + 1 :]
    if any(" " in text for k in later if not _REASON.search(k) for text in _texts(reply[k])):
        return None, "goes on after its verdict"
    value = meaning(str(reply[name]).strip())
    if value is None:
        return None, f"states {str(reply[name])[:40]!r}"
    own = str(reply[name]).strip().upper()
    sides = [side for side in "AB12" if side.isdigit() == own.isdigit() and meaning(side)]
    texts = (canonical(text) for key in reply if key != name for text in _texts(reply[key]))
    if own in sides and any(prefers_another(text, own, sides) for text in texts):
        return None, "contradicts its verdict"
    return value, ""


def _texts(value: Any) -> list[str]:
    """Return the texts of a JSON value and its lists; those of objects are pairs of their own."""
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    return [value] if isinstance(value, str) else []
