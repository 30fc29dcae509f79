"""Label Studio: a project per layout (config.xml, tasks.json), and its JSON export back."""

import json
import shutil
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

from bon.curating.outside import OTHER, Incoming, Sheet, by_layout, new_place, sheets
from bon.curating.workbench import Workbench

SOURCE = "label-studio"
_LOCAL = "/data/local-files/?d="


def write(bench: Workbench, out: Path, *, drafts: bool = False) -> list[Path]:
    """The folders of the projects, with the images beside them."""
    new_place(out).mkdir(parents=True, exist_ok=True)
    if bench.images.is_dir():
        shutil.copytree(bench.images, out / "images")
    written = []
    for layout, found in by_layout(sheets(bench, SOURCE, drafts=drafts)).items():
        folder = out / layout
        folder.mkdir()
        (folder / "config.xml").write_text(_config(bench, found[0]), encoding="utf-8")
        tasks = json.dumps([_task(bench, one) for one in found], ensure_ascii=False, indent=1)
        (folder / "tasks.json").write_text(tasks, encoding="utf-8")
        written.append(folder)
    return written


def read(rows: list[Any], incoming: Incoming) -> None:
    """A project exported as JSON: every answer of every person.

    Skipped tasks and answers that say nothing, or a side and a tie at once, are left out.
    """
    for number, task in enumerate(rows, 1):
        where = f"task {number}"
        if not isinstance(task, dict) or not isinstance(task.get("annotations"), list):
            raise incoming.wrong(where, "it has no annotations", "export as JSON, not JSON-MIN")
        given = task.get("data")
        data: dict[str, Any] = given if isinstance(given, dict) else {}
        form = incoming.form(where, data.get("item"), data.get("question"), data)
        for said in sorted(task["annotations"], key=_when):
            values = _values(said)
            words = [*values.get("pw", []), *values.get("best", []), *values.get("other", [])]
            if said.get("was_cancelled"):
                incoming.left_out["skipped tasks"] += 1
            elif len(words) != 1:
                reason = "answers that say several things" if words else "answers that say nothing"
                incoming.left_out[reason] += 1
            else:
                incoming.answer(
                    where,
                    form,
                    words[0],
                    _person(said.get("completed_by")),
                    tags=values.get("tag", []),
                    why=" ".join(values.get("why", [])),
                    seconds=said.get("lead_time"),
                    time=_when(said),
                )


def _config(bench: Workbench, form: Sheet) -> str:
    places = list(form.texts)
    images = "".join(
        f'  <Image name="{name}" value="${name}" zoom="true" zoomControl="true"/>\n'
        for name in form.image_names
    )
    texts = "".join(f'<Text name="{place}" value="${place}"/>' for place in places)
    shown = f'<View style="display:flex;gap:2em">{texts}</View>'
    if len(places) == 2:
        best = '<Pairwise name="pw" toName="left,right"/>'
    else:
        best = _choices("best", "single", tuple(places))
    tags = _choices("tag", "multiple", bench.recipe.annotating.tags)
    return (
        "<View>\n"
        f'{images}  <Text name="q" value="$question"/>\n'
        f"  {best}\n  {shown}\n"
        f"  {_choices('other', 'single', tuple(OTHER))}\n"
        f"  {tags}\n"
        '  <TextArea name="why" toName="q" placeholder="Why, in a sentence" maxSubmissions="1"/>\n'
        "</View>\n"
    )


def _choices(name: str, choice: str, values: tuple[str, ...]) -> str:
    listed = "".join(f"<Choice value={quoteattr(value)}/>" for value in values)
    return f'<Choices name="{name}" toName="q" choice="{choice}">{listed}</Choices>'


def _task(bench: Workbench, form: Sheet) -> dict[str, Any]:
    images = zip(form.image_names, form.item.images, strict=True)
    data: dict[str, Any] = {
        "item": form.item.key,
        "benchmark": bench.name,
        **{name: f"{_LOCAL}{image}" for name, image in images},
        "question": form.item.prompt,
        **form.texts,
    }
    if len(form.order) == 2:
        data["swapped"] = form.order == (1, 0)
    else:
        data["order"] = list(form.order)
    return {"data": data, **({"predictions": [_prediction(form)]} if form.draft else {})}


def _prediction(form: Sheet) -> dict[str, Any]:
    assert form.draft is not None
    word = form.word(form.draft.label)
    result = []
    if word in OTHER:
        result.append(_choice("other", [word]))
    elif word and len(form.order) == 2:
        value = {"selected": word}
        to = "left,right"
        result.append({"from_name": "pw", "to_name": to, "type": "pairwise", "value": value})
    elif word:
        result.append(_choice("best", [word]))
    if form.draft.tag:
        result.append(_choice("tag", [form.draft.tag]))
    if form.draft.rationale:
        value_of = {"text": [form.draft.rationale]}
        why = {"from_name": "why", "to_name": "q", "type": "textarea", "value": value_of}
        result.append(why)
    return {"model_version": f"draft:{form.draft.by}", "result": result}


def _choice(name: str, values: list[str]) -> dict[str, Any]:
    return {"from_name": name, "to_name": "q", "type": "choices", "value": {"choices": values}}


def _values(said: dict[str, Any]) -> dict[str, list[str]]:
    """Name of a control -> what was chosen or written there."""
    found: dict[str, list[str]] = {}
    for one in said.get("result") or []:
        value = one.get("value") or {}
        given = value.get("selected") or value.get("choices") or value.get("text") or []
        given = [given] if isinstance(given, str) else given
        found.setdefault(str(one.get("from_name")), []).extend(given)
    return found


def _person(completed_by: Any) -> str:
    if isinstance(completed_by, dict):
        completed_by = completed_by.get("email") or completed_by.get("id")
    return "" if completed_by is None else f"{SOURCE}:{completed_by}"


def _when(said: dict[str, Any]) -> str:
    return str(said.get("updated_at") or said.get("created_at") or "")
