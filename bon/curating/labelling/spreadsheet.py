"""Labelling in a spreadsheet: one CSV row per item to fill in.

All annotators see an item's responses in one order, which follows from the item. An import is all
or nothing.
"""

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bon.core.errors import BonError, shown
from bon.curating.items import CuratedItem
from bon.curating.labelling.annotation_queue import AnnotationQueue, shown_order
from bon.curating.labelling.annotations import CANNOT, TIE, Annotation, add, current
from bon.curating.labelling.drafts import Draft, read_drafts
from bon.curating.workbench import Workbench

SOURCE = "jsonl"
"""Stored source of these annotations, by which their order of responses is drawn."""
_SIDES = ("left", "right")
_ANSWER = ("better", "tag", "why", "annotator", "seconds")
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "'")
"""First characters of a cell that spreadsheets take for a formula or an escape."""


@dataclass(frozen=True, slots=True)
class Imported:
    """Counts of an import: new and known answers, annotators, rows that are not filled in."""

    added: int
    known: int
    annotators: int
    skipped: int

    def text(self) -> str:
        """Summarise the import."""
        people = f"{self.annotators} annotator{'' if self.annotators == 1 else 's'}"
        text = f"{self.added + self.known} answers of {people}: {self.added} new"
        return text + (f"\nskipped: {self.skipped} rows not filled in" if self.skipped else "")


def export_sheet(bench: Workbench, out: Path, *, drafts: bool = False) -> None:
    """Write a CSV; images are paths within the benchmark.

    Raises:
        BonError: `out` exists: it could hold people's answers.
    """
    if out.exists():
        raise BonError(f"{out} already exists", "choose another path, or move it away first")
    known = read_drafts(bench.drafts_path) if drafts else {}
    rows = [_row(item, known.get(item.key)) for item in bench.items]
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]) if rows else (), restval="")
        writer.writeheader()
        for row in rows:
            writer.writerow({name: _escape(text) for name, text in row.items()})


def import_sheet(bench: Workbench, path: Path, annotator: str = "") -> Imported:
    """Import the rows in which `better` is filled in, all or none; known answers are not repeated.

    annotator: who answered where the file names nobody.

    Raises:
        BonError: the file is not readable, of another benchmark, or contains an invalid answer.
    """
    items = {item.key: item for item in bench.items}
    rows: dict[tuple[str, str], Annotation] = {}
    skipped = 0
    for number, row in enumerate(_rows(path), 1):
        if not str(row.get("better") or "").strip():
            skipped += 1
            continue
        try:
            answer = _annotation(bench, items, row, annotator)
            if rows.setdefault((answer.annotator, answer.item), answer) != answer:
                raise BonError(
                    f"{answer.annotator} answers this item twice", "keep one of the rows"
                )
        except BonError as error:
            message = f"{path}, row {number}: {error.message}; nothing was imported"
            raise BonError(message, error.fix) from None
    old = {(row.annotator, row.item): row for row in current(bench.annotations_path)}
    new = [row for key, row in rows.items() if _content(row) != _content(old.get(key))]
    add(bench.annotations_path, *new)
    names = {row.annotator for row in rows.values()}
    return Imported(len(new), len(rows) - len(new), len(names), skipped)


def progress_text(bench: Workbench) -> str:
    """Describe the progress of every annotator and where to label."""
    queue = AnnotationQueue(bench.directory)
    total = queue.progress("")
    lines = [f"{total.complete} of {total.items} items have all required answers"]
    for name in sorted({row.annotator for row in current(bench.annotations_path)}):
        row = queue.progress(name)
        pace = "" if row.pace is None else f", {row.pace:.0f} s per item"
        lines.append(f"{name}: {row.answered} answered, {row.remaining} remaining{pace}")
    url = f"bon serve --annotate {bench.directory}, then /annotate/{bench.name}"
    return "\n".join([*lines, f"Label at: {url}"])


def _row(item: CuratedItem, draft: Draft | None) -> dict[str, str]:
    choices = _choices(item)
    row = {
        "item": item.key,
        "image": "; ".join(item.images),
        "question": item.prompt,
        **{side: item.responses[int(choices[side])] for side in _SIDES},
        **dict.fromkeys(_ANSWER, ""),
    }
    if draft is not None:
        word = next((word for word, choice in choices.items() if choice == draft.label), "")
        row |= {"draft": word, "draft_tag": draft.tag, "draft_why": draft.rationale}
    return row


def _choices(item: CuratedItem) -> dict[str, str]:
    """Return the choice that each word stands for."""
    order = map(str, shown_order(item.key, SOURCE, len(item.responses)))
    return dict(zip(_SIDES, order, strict=True)) | {"tie": TIE, "cannot": CANNOT}


def _annotation(
    bench: Workbench, items: Mapping[str, CuratedItem], row: Mapping[str, Any], annotator: str
) -> Annotation:
    """Return the answer of a row, after checking that its texts are those exported."""
    item = items.get(str(row.get("item")))
    if item is None:
        raise BonError(
            f"no item {shown(row.get('item'))} in {bench.name}: the file is of another benchmark, "
            "or the items were proposed again",
            "import it where it was exported from",
        )
    exported = _row(item, None)
    for name in ("question", *_SIDES):
        if _newlines(row.get(name)) != _newlines(exported[name]):
            raise BonError(
                f"its {name} is not what was exported, so the answer may be about other text",
                "export again and label that, or restore the text",
            )
    choices = _choices(item)
    word = str(row["better"]).strip().lower().removesuffix(" judge")
    if word not in choices:
        raise BonError(f"better is {shown(word)}", f"one of {', '.join(choices)}")
    tags = [tag for part in (row.get("tag") or "").split(";") if (tag := part.strip())]
    known = bench.recipe.annotating.tags
    if unknown := [tag for tag in tags if tag not in known]:
        raise BonError(f"no tag {shown(unknown[0])} in the recipe", "add it to annotating.tags")
    name = str(row.get("annotator") or "").strip() or annotator
    if not name:
        raise BonError("the answer names no annotator", "--annotator NAME")
    return Annotation(
        item.key,
        name,
        choices[word],
        shown_order(item.key, SOURCE, len(item.responses)),
        tags=tuple(dict.fromkeys(tags)),
        rationale=str(row.get("why") or "").strip(),
        seconds=_seconds(row.get("seconds")),
        source=SOURCE,
    )


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            text = file.read()
    except OSError as error:
        raise BonError(f"cannot read {path}: {error.strerror}", "check the path") from None
    except UnicodeDecodeError:
        raise BonError(f"{path} is not UTF-8 text", "save it as CSV UTF-8") from None
    header = text.partition("\n")[0]
    delimiter = max(",;\t", key=header.count)  # spreadsheets differ by locale
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter)
    if missing := {"item", "better"} - set(reader.fieldnames or ()):
        raise BonError(
            f"{path}: no column {', '.join(sorted(missing))}",
            "give a CSV, with the columns of the export",
        )
    for row in reader:
        yield {str(name): _unescape(value) for name, value in row.items()}


def _content(row: Annotation | None) -> object:
    return row and (row.choice, sorted(row.tags), row.rationale, row.seconds)


def _newlines(text: Any) -> str | None:
    """Normalise line ends, which spreadsheets change."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if isinstance(text, str) else None


def _seconds(value: Any) -> float | None:
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        return None
    return seconds if 0 <= seconds < 1e7 else None


def _escape(text: str) -> str:
    return f"'{text}" if text.startswith(_FORMULA) else text


def _unescape(text: Any) -> Any:
    return text[1:] if isinstance(text, str) and text.startswith("'") else text
