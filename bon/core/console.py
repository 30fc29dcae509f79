"""Messages and tables for a person's terminal."""

import io
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

COLUMN_WIDTH = 24
"""Width that a column may need; longer texts are wrapped."""


def say(text: str, *, quiet: bool = False) -> None:
    """Print one line to stderr."""
    if not quiet:
        from rich.console import Console  # slow to import

        Console(stderr=True, highlight=False, soft_wrap=True).print(text, markup=False)


def show_listing(rows: Sequence[Mapping[str, Any]], width: int = 250) -> str:
    """Format rows as a table as wide as `text_width`, or unwrapped where no width is known.

    Columns that do not fit are left out from the right, and named in a last line.
    """
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    width = text_width(width)
    keys = list(rows[0]) if rows else []
    needed = [
        min(COLUMN_WIDTH, max(len(str(row[key])) for row in [*rows, {key: key}])) for key in keys
    ]
    while len(keys) > 2 and sum(needed[: len(keys)]) + 2 * len(keys) > width:
        keys.pop()
    table = Table(box=None, pad_edge=False, header_style="bold")
    for key in keys:
        table.add_column(key, overflow="fold", no_wrap=key == "name")
    for row in rows:
        table.add_row(*(escape(str(row[key])) or "-" for key in keys))
    out = Console(file=io.StringIO(), width=width)
    with out.capture() as captured:
        out.print(table)
    lines = [line.rstrip() for line in captured.get().splitlines()]
    left_out = list(rows[0])[len(keys) :] if rows else []
    if left_out:
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
