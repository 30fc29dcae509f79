"""Tables with a column of scores for each rewarder.

A row is a candidate (`candidate`), a question (each cell lists the scores of its candidates) or a
pair (two columns for each rewarder: `NAME chosen` and `NAME rejected`, or with `_`, `.` or `-`).
"""

import ast
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from bon.benchmarks.base import RowError, columns_in

ROLES = frozenset((
    "id", "question", "candidate", "candidates", "correct", "answer", "subject", "difficulty",
    "pair", "prompt", "group",
))  # fmt: skip
"""The columns that are no rewarder's."""

Cells = dict[str, dict[str, str]]
"""The columns of each rewarder: `score`, `scores`, or `chosen` and `rejected`."""


def rewarders_in(row: Mapping[str, Any], named: str = "") -> Cells:
    """Return the rewarders of a wide table by its first row; `named`: columns of scores alone."""
    if "pair" in row:
        sides = [re.fullmatch(r"(.+)[ _.-](chosen|rejected)", name) for name in row]
        found: Cells = {}
        for side in filter(None, sides):
            found.setdefault(side[1], {})[side[2]] = side[0]
        return {name: cells for name, cells in found.items() if len(cells) == 2}
    each = "candidate" in row
    known = ROLES | {"options"}  # which may be numbers
    names = (
        columns_in("score", named)
        if named
        else [n for n, cell in row.items() if n not in known and _is_score(cell, each)]
    )
    return {name: {"score" if each else "scores": name} for name in names}


def melted(row: Mapping[str, Any], rewarders: Cells) -> Iterator[dict[str, Any]]:
    """Yield the row of every rewarder, after that of the candidates if it lists them."""
    own = {name: cell for name, cell in row.items() if name in ROLES}
    if "candidates" in own:
        yield own
    if "id" in own and "pair" not in own:
        own["question"] = own["id"]
    own.pop("candidates", None)
    for name, cells in rewarders.items():
        yield own | {"rewarder": name} | {field: row.get(cell) for field, cell in cells.items()}


def _is_score(cell: Any, each: bool) -> bool:
    """Whether a cell is a number (also as text, in CSV) or a list of numbers.

    Only a list is one unless `each`.
    """
    try:
        value = parsed(cell)
        if not isinstance(value, list):
            float(value)
            return each and not isinstance(value, bool)
    except (RowError, TypeError, ValueError):
        return False
    return bool(value) and all(type(number) in (int, float) for number in value)


def parsed(value: Any) -> Any:
    """Parse a list that is written as text (CSV); return anything else unchanged."""
    if not (isinstance(value, str) and value.lstrip().startswith("[")):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        try:
            return ast.literal_eval(value)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            raise RowError("a list in it is cut off") from None
