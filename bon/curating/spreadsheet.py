"""JSONL and CSV: a row per item to fill in, and the filled rows back."""

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bon.core.errors import BonError
from bon.curating.outside import PLACES, Incoming, Sheet, new_place, sheets
from bon.curating.workbench import Workbench

SOURCE = "jsonl"
_FILLED_IN = ("better", "tag", "why", "annotator", "seconds")
COLUMNS = ("item", "image", "question", *PLACES, *_FILLED_IN)
_DRAFTED = ("draft", "draft_tag", "draft_why")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What a spreadsheet would take for a formula at the beginning of a cell."""


def write(bench: Workbench, out: Path, *, drafts: bool = False) -> list[Path]:
    """One file, CSV by its name or else JSONL; images are named as they lie in the bench."""
    new_place(out).parent.mkdir(parents=True, exist_ok=True)
    rows = [_row(one) for one in sheets(bench, SOURCE, drafts=drafts)]
    if out.suffix == ".csv":
        with out.open("w", encoding="utf-8-sig", newline="") as file:
            writer = csv.DictWriter(file, (*COLUMNS, *(_DRAFTED if drafts else ())), restval="")
            writer.writeheader()
            writer.writerows({name: _cell(text) for name, text in row.items()} for row in rows)
    else:
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        out.write_text(text, encoding="utf-8")
    return [out]


def read(path: Path, incoming: Incoming, annotator: str = "") -> None:
    """The rows in which `better` is filled in; `annotator` answered where a row names nobody.

    Tags are separated by semicolons.
    """
    for number, row in enumerate(_rows(path), 1):
        where = f"row {number}"
        word = str(row.get("better") or "").strip().lower()
        if not word:
            incoming.left_out["rows not filled in"] += 1
            continue
        form = incoming.form(where, row.get("item"), row.get("question"), row)
        tags = row.get("tag") or ""
        split = tags if isinstance(tags, list) else [one.strip() for one in str(tags).split(";")]
        who = str(row.get("annotator") or "").strip() or annotator
        before = incoming.rows.get((who, form.item.key))
        incoming.answer(
            where,
            form,
            "cannot judge" if word == "cannot" else word,
            who,
            tags=[tag for tag in split if tag],
            why=row.get("why"),
            seconds=row.get("seconds"),
        )
        if before is not None and before != incoming.rows[who, form.item.key]:
            raise incoming.wrong(where, f"{who} answers this item twice", "keep one of the rows")


def _row(form: Sheet) -> dict[str, str]:
    draft = form.draft
    drafted: tuple[str, ...] = ()
    if draft is not None:
        drafted = (form.word(draft.label), draft.tag, draft.rationale)
    return {
        "item": form.item.key,
        "image": "; ".join(form.item.images),
        "question": form.item.prompt,
        **{place: form.texts.get(place, "") for place in PLACES},
        **dict.fromkeys(_FILLED_IN, ""),
        **dict(zip(_DRAFTED, drafted, strict=False)),
    }


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            text = file.read()
    except UnicodeDecodeError:
        raise BonError(f"{path} is not UTF-8 text", "save it as CSV UTF-8") from None
    if path.suffix == ".csv":
        head = text.partition("\n")[0]
        delimiter = max(",;\t", key=head.count)  # what spreadsheets save differs by country
        reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter)
        if missing := {"item", "better"} - set(reader.fieldnames or ()):
            raise BonError(
                f"{path}: no column {', '.join(sorted(missing))}", "keep the columns of the export"
            )
        for row in reader:
            yield {str(name): _uncell(value) for name, value in row.items()}
        return
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                found = json.loads(line)
            except ValueError as error:
                found = str(error)
            if not isinstance(found, dict):
                raise BonError(f"{path}, line {number} is no object", "one JSON object per line")
            yield found


def _cell(text: str) -> str:
    return f"'{text}" if text.startswith((*_FORMULA, "'")) else text


def _uncell(text: Any) -> Any:
    return text[1:] if isinstance(text, str) and text.startswith("'") else text
