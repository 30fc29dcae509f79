"""Regular expressions of users and cards, in RE2: linear time without a timeout.

RE2 has no look-around and no back-references.
"""

from functools import lru_cache
from itertools import islice
from typing import Any

import re2

MAX_MATCHES = 1000
_MAX_PROGRAM = 1500
"""RE2's time is proportional to text length times program size."""

Pattern = Any
"""A compiled pattern of re2, which has no types."""


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


def last_match(pattern: Pattern, text: str) -> str | None:
    """Return the group of the last match from left to right; ValueError above MAX_MATCHES."""
    matches = list(islice(pattern.finditer(text), MAX_MATCHES + 1))
    if len(matches) > MAX_MATCHES:
        raise ValueError(f"the pattern matches more than {MAX_MATCHES} times")
    return matches[-1].group(1) or "" if matches else None
