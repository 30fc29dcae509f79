"""Regular expressions of users and cards, in RE2: linear time without a timeout.

RE2 has no look-around and no back-references.
"""

from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

import re2

MAX_MATCHES = 1000
_LONGEST_WORD = 64
_MAX_PROGRAM = 1500
"""RE2's time is proportional to text length times program size."""

Pattern = Any
"""A compiled pattern of re2, which has no types."""


class Span(NamedTuple):
    """Character offsets of a match and its one group, and the group's text."""

    start: int
    end: int
    group_start: int
    group_end: int
    value: str


@lru_cache(maxsize=512)
def compiled(pattern: str) -> Pattern:
    """Compile a case-insensitive pattern; ValueError carries message and fix."""
    options = re2.Options()
    options.case_sensitive = False
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        why = error.args[0] if error.args else error
        text = why.decode("utf-8", "replace") if isinstance(why, bytes) else str(why)
        raise ValueError(
            f"{pattern!r} is not a regular expression in RE2 syntax: {text}",
            "close what is open; RE2 has no look-around `(?=...)` and no back-references `\\1`",
        ) from None
    except UnicodeEncodeError:
        raise ValueError(f"{pattern!r} is not a regular expression: it is not Unicode") from None


def checked(pattern: str) -> Pattern:
    """Compile a user's pattern with exactly one group; ValueError carries message and fix."""
    regex = compiled(pattern)
    if regex.groups != 1:
        raise ValueError(
            f"{pattern!r} has {regex.groups} groups, not exactly one",
            "put the value in `(...)` and make every other group `(?:...)`",
        )
    if regex.search("") is not None:
        raise ValueError(f"{pattern!r} matches the empty text", "require at least one character")
    if regex.programsize > _MAX_PROGRAM:
        raise ValueError(
            f"the pattern is too large: {regex.programsize} steps, at most {_MAX_PROGRAM}",
            "use fewer counted repetitions such as `{100}`",
        )
    return regex


def last_match(pattern: Pattern, text: str) -> Span | None:
    """Return the last match from left to right; ValueError above MAX_MATCHES."""
    matches = list(islice(pattern.finditer(text), MAX_MATCHES + 1))
    if len(matches) > MAX_MATCHES:
        raise ValueError(f"the pattern matches more than {MAX_MATCHES} times")
    return _span(matches[-1]) if matches else None


def tight_matches(pattern: Pattern, text: str, limit: int) -> list[Span]:
    """Return the last `limit` matches in text order, each starting as late as possible.

    `Therefore.*Answer (1|2)` so yields one match per answer, not one from the first "Therefore".
    """
    spans: list[Span] = []
    end = len(text)
    while len(spans) < limit and (span := _last_before(pattern, text, end)) is not None:
        spans.append(span)
        end = span.start
    return spans[::-1]


def _last_before(pattern: Pattern, text: str, end: int) -> Span | None:
    """Return the last match that ends by `end`, searched in growing windows."""
    width = 64
    while end > 0:
        begin = max(0, end - width)
        for _ in range(_LONGEST_WORD):  # a window cuts no word or number
            if begin == 0 or text[begin - 1].isspace():
                break
            begin -= 1
        matches = list(islice(pattern.finditer(text, begin, end), MAX_MATCHES))
        if matches:
            return _tight(pattern, text, matches[-1])
        if begin == 0:
            return None
        width *= 4
    return None


def _tight(pattern: Pattern, text: str, match: Any) -> Span:
    """Bisect for the latest start that keeps the match's group in place."""
    low, high, best = match.start(), match.start(1), match
    while low < high:
        middle = (low + high + 1) // 2
        closer = pattern.search(text, middle, match.end())
        if closer is not None and closer.span(1) == match.span(1):
            low, best = closer.start(), closer
        else:
            high = middle - 1
    return _span(best)


def _span(match: Any) -> Span:
    group_start, group_end = match.span(1)
    return Span(match.start(), match.end(), group_start, group_end, match.group(1) or "")
