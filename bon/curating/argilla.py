"""Argilla 2: records and the script that makes a dataset of them, and its responses back."""

import json
import shutil
from collections import defaultdict
from pathlib import Path
from typing import Any

from bon.curating.outside import OTHER, Incoming, Sheet, by_layout, new_place, sheets
from bon.curating.workbench import Workbench

SOURCE = "argilla"
_SCRIPT = Path(__file__).with_name("argilla_script.txt")


def write(bench: Workbench, out: Path, *, drafts: bool = False) -> list[Path]:
    """A folder per dataset: records.json, settings.json and the script that pushes and pulls."""
    new_place(out).mkdir(parents=True, exist_ok=True)
    if bench.images.is_dir():
        shutil.copytree(bench.images, out / "images")
    shutil.copyfile(_SCRIPT, out / "argilla_dataset.py")
    written = []
    for layout, found in by_layout(sheets(bench, SOURCE, drafts=drafts)).items():
        folder = out / layout
        folder.mkdir()
        for name, content in (
            ("settings.json", _settings(bench, found[0])),
            ("records.json", [_record(one) for one in found]),
        ):
            text = json.dumps(content, ensure_ascii=False, indent=1)
            (folder / name).write_text(text, encoding="utf-8")
        written.append(folder)
    return written


def read(rows: list[Any], incoming: Incoming) -> None:
    """Records with responses, from the script or from `dataset.records.to_json`.

    Responses that were not submitted are left out; `to_json` does not say which those are.
    """
    for number, record in enumerate(rows, 1):
        where = f"record {number}"
        if not isinstance(record, dict) or not isinstance(record.get("responses"), dict):
            raise incoming.wrong(where, "it has no responses", "argilla_dataset.py pull")
        given = record.get("fields")
        fields: dict[str, Any] = given if isinstance(given, dict) else {}
        form = incoming.form(where, record.get("id"), fields.get("question"), fields)
        said: defaultdict[str, dict[str, Any]] = defaultdict(dict)
        for question, responses in record["responses"].items():
            for one in responses:
                if one.get("status", "submitted") == "submitted":
                    said[str(one.get("user_id") or "")][question] = one.get("value")
                elif question == "better":
                    incoming.left_out[f"{one['status']} responses"] += 1
        for user, values in said.items():
            if "better" not in values:
                incoming.left_out["answers that say nothing"] += 1
                continue
            incoming.answer(
                where,
                form,
                values["better"],
                user and f"{SOURCE}:{user}",
                tags=values.get("tags") or (),
                why=values.get("why"),
            )


def _settings(bench: Workbench, form: Sheet) -> dict[str, Any]:
    annotating = bench.recipe.annotating
    return {
        "guidelines": annotating.guidelines,
        "images": list(_images(form)),
        "texts": ["question", *form.texts],
        "labels": [*form.texts, *OTHER],
        "tags": list(annotating.tags),
        "min_submitted": annotating.annotators_per_item,
    }


def _images(form: Sheet) -> dict[str, str]:
    return dict(zip(form.image_names, form.item.images, strict=True))


def _record(form: Sheet) -> dict[str, Any]:
    record: dict[str, Any] = {
        "id": form.item.key,
        "fields": {**_images(form), "question": form.item.prompt, **form.texts},
    }
    draft = form.draft
    if draft is not None and (word := form.word(draft.label)):
        said = {"better": word, "tags": [draft.tag] if draft.tag else None, "why": draft.rationale}
        record["suggestions"] = {
            name: {"value": value, "agent": draft.by} for name, value in said.items() if value
        }
    return record
