"""`bon curate annotate --to` and `--from`: which tool, and which of them wrote a file."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bon.core.errors import BonError
from bon.curating import argilla, label_studio, spreadsheet
from bon.curating.annotations import current
from bon.curating.desk import Desk
from bon.curating.outside import Incoming, Taken
from bon.curating.workbench import Workbench

TOOLS: dict[str, Callable[..., list[Path]]] = {
    label_studio.SOURCE: label_studio.write,
    argilla.SOURCE: argilla.write,
    spreadsheet.SOURCE: spreadsheet.write,
}


def send_out(bench: Workbench, tool: str, out: Path, *, drafts: bool = False) -> list[Path]:
    """Write what a tool needs to ask people; what is to be loaded there.

    Raises:
        BonError: there is no such tool, or something lies there.
    """
    if tool not in TOOLS:
        raise BonError(f"no tool {tool!r}", f"--to one of {', '.join(TOOLS)}")
    return TOOLS[tool](bench, out, drafts=drafts)


def take_back(bench: Workbench, path: Path, annotator: str = "") -> Taken:
    """Take in the answers of a file, all or none; what is there already is not taken again.

    Raises:
        BonError: it is no such file, of another benchmark, or something in it is wrong.
    """
    if path.suffix in (".jsonl", ".csv"):
        incoming = Incoming(bench, spreadsheet.SOURCE, str(path))
        spreadsheet.read(path, incoming, annotator)
        return incoming.take()
    rows = _json(path)
    first: Any = rows[0] if rows else {}
    if isinstance(first, dict) and "responses" in first:
        incoming = Incoming(bench, argilla.SOURCE, str(path))
        argilla.read(rows, incoming)
    else:
        incoming = Incoming(bench, label_studio.SOURCE, str(path))
        label_studio.read(rows, incoming)
    return incoming.take()


def taken_text(taken: Taken) -> str:
    """What an import came to."""
    people = f"{taken.people} {'person' if taken.people == 1 else 'people'}"
    lines = [f"{taken.added + taken.known} answers of {people}: {taken.added} new"]
    lines += [f"left out: {count} {what}" for what, count in sorted(taken.left_out.items())]
    return "\n".join(lines)


def standing_text(bench: Workbench) -> str:
    """How far people are, each and together, and where they answer."""
    desk = Desk(bench.directory)
    rows = current(bench.annotations_path)
    together = desk.progress("")
    lines = [f"{together.complete} of {together.items} items have all the answers they want"]
    for name in sorted({row.annotator for row in rows}):
        one = desk.progress(name)
        pace = "" if one.pace is None else f", {one.pace:.0f} s each"
        lines.append(f"{name}: {one.mine} answered, {one.left} to go{pace}")
    where = f"bon serve --annotate {bench.directory}, then /annotate/{bench.name}"
    return "\n".join([*lines, f"People answer at: {where}"])


def _json(path: Path) -> list[Any]:
    try:
        rows = json.loads(path.read_text(encoding="utf-8-sig"))
    except ValueError as error:
        raise BonError(
            f"{path} is no JSON: {error}",
            "--from takes an export of Label Studio or Argilla (.json), a .jsonl or a .csv",
        ) from None
    if not isinstance(rows, list):
        raise BonError(f"{path} holds no list of tasks or records", "export the project as JSON")
    return rows
