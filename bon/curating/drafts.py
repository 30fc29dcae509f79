"""What a judge drafted: one label, rationale and tag per item, a line of drafts.jsonl each."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

UNREAD = ""


@dataclass(frozen=True, slots=True)
class Draft:
    """A judge's view of one item.

    `label` is a choice as `Annotation.choice` has it; UNREAD where the reply could not be read
    (`unparsed`) or did not come (`error`). `shown` is the order in which the responses were shown.
    `by` is the rewarder's card and `prompt` the hash of the wording. `cost` is in US dollars.
    """

    item: str
    label: str
    rationale: str
    tag: str
    shown: tuple[int, ...]
    outcome: Literal["read", "unparsed", "error"]
    by: str
    prompt: str
    text: str = ""
    error: str = ""
    tokens: int = 0
    cost: float = 0.0


def append_draft(path: Path, draft: Draft) -> None:
    """One more line, written at once; after a line that was cut off, on one of its own."""
    line = json.dumps(asdict(draft), ensure_ascii=False).encode("utf-8", "surrogatepass")
    with path.open("ab+") as file:
        whole = True
        if file.tell():
            file.seek(-1, os.SEEK_END)
            whole = file.read(1) == b"\n"
        file.write((b"" if whole else b"\n") + line + b"\n")


def read_drafts(path: Path) -> dict[str, Draft]:
    """Item -> its last draft; a line that was cut off while it was written counts as missing."""
    if not path.is_file():
        return {}
    found: dict[str, Draft] = {}
    for line in path.read_bytes().splitlines():
        try:
            values = json.loads(line)
        except ValueError:
            continue
        found[values["item"]] = Draft(**values | {"shown": tuple(values["shown"])})
    return found
