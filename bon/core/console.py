"""Messages and tables for a person's terminal."""

import io
import os
import re
import sys
import textwrap
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, TextIO

from bon.core.text import printable

if TYPE_CHECKING:
    from rich.console import Console

COLUMN_WIDTH = 24
"""Width that a column may need; longer texts are wrapped."""


@cache
def stderr() -> "Console":
    """Return the one console on stderr: what is printed on it goes above its progress bars."""
    from rich.console import Console  # slow to import

    class Plain(Console):
        def print(self, *texts: Any, **style: Any) -> None:
            """Print texts of files and models without what a terminal would obey."""
            super().print(*(printable(t) if isinstance(t, str) else t for t in texts), **style)

    return Plain(stderr=True, highlight=False, soft_wrap=True, markup=False, emoji=False)


def say(text: str, *, quiet: bool = False) -> None:
    """Print one line to stderr."""
    if not quiet:
        stderr().print(wrapped(text, sys.stderr))


def wrapped(text: str, stream: TextIO) -> str:
    """Break lines that are too long for a terminal between words; other streams get them whole.

    They continue below their last column: the text after two spaces, or after a bullet.
    """
    width = text_width(0) if stream.isatty() else 0
    lines = text.split("\n")
    for place, line in enumerate(lines if width else ()):
        if len(line) > width:
            own, column = (len(re.match(p, line)[0]) for p in (r"[ -]*", r"(.*  )?[ -]*"))  # type: ignore[index]
            indent = " " * (column if column <= width // 2 else own)
            lines[place] = textwrap.fill(
                line,
                width,
                subsequent_indent=indent,
                break_long_words=False,
                break_on_hyphens=False,
            )
    return "\n".join(lines)


def show_listing(rows: Sequence[Mapping[str, Any]], width: int = 250) -> str:
    """Format rows as a table as wide as `text_width`, or unwrapped where no width is known.

    Columns that do not fit are left out from the right, and named in a last line. No word is
    broken, unless two columns alone are too wide.
    """
    from rich.cells import cell_len
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    width = text_width(width)
    keys = list(rows[0]) if rows else []
    texts = [[printable(str(row[key])) or "-" for row in rows] for key in keys]
    words, wanted = [], []
    for key, column in zip(keys, texts, strict=True):
        words.append(max(cell_len(w) for text in (key, *column) for w in text.split() or [""]))
        wanted.append(max(map(cell_len, (key, *column))))
    needed = [max(w, min(COLUMN_WIDTH, most)) for w, most in zip(words, wanted, strict=True)]
    while len(needed) > 2 and sum(needed) + 2 * (len(needed) - 1) > width:
        needed.pop()
    if sum(needed) + 2 > width:  # two columns
        needed = words[: len(needed)]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    spare = width - sum(needed) - 2 * (len(needed) - 1)
    for key, least, most in zip(keys, needed, wanted, strict=False):
        grown = min(most - least, max(spare, 0))
        spare -= grown
        table.add_column(key, overflow="fold", width=least + grown if spare >= 0 else None)
    for row in zip(*texts[: len(needed)], strict=True):
        table.add_row(*map(escape, row))
    out = Console(file=io.StringIO(), width=width, emoji=False)
    with out.capture() as captured:
        out.print(table)
    lines = [line.rstrip() for line in captured.get().splitlines()]
    if left_out := keys[len(needed) :]:
        lines.append(f"Not shown in {width} columns: {', '.join(left_out)} (--json shows all).")
    return "\n".join(lines)


def text_width(unknown: int) -> int:
    """Return $COLUMNS, or the width of the terminal on any standard stream, or `unknown`."""
    if (columns := os.environ.get("COLUMNS", "")).isdecimal() and int(columns):
        return int(columns)
    for stream in (1, 2, 0):  # in `bon list rewarders | less`, stderr is the terminal
        with suppress(OSError):
            return os.get_terminal_size(stream).columns or unknown
    return unknown
